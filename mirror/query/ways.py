"""The SQL of each way through a mirror, and the plans that it takes.

Each is made of constants; the plans are tested. The plus signs keep SQLite from looking messages up by the range of ids
instead of by the id. A joined table that no condition names is not read: SQLite leaves a LEFT JOIN out then.
"""

import sqlite3
from dataclasses import dataclass

from mirror.query.sql import Stored, Value
from mirror.query.tree import SYSTEM_FLAGS, Flagged, Node, Not, SortKey


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk of a folder, newest first, by an index that has every message which may match.

    values: bound after the folder. by: the column it goes down. messages: about how many it meets.
    """

    tables: str
    values: tuple[Value, ...]
    by: str
    messages: int


def narrowest(
    connection: sqlite3.Connection, folder: int, messages: int, together: tuple[Node, ...], enough: int
) -> Walk:
    """The walk that meets the fewest messages of a folder with so many, for conditions that hold together.

    enough: what is counted at most.
    """
    narrow = Walk(WALK, (), "message.content", messages)
    for node in together:
        match node:
            case Not(Flagged("\\Seen")):
                found = Walk(_WALK_UNSEEN, (), "message.content", messages)
                counted = connection.execute(_COUNT_UNSEEN, (folder, enough))
            case Flagged(flag) if flag in _WALK_BY_FLAG:
                found = Walk(_WALK_BY_FLAG[flag], (), "message.content", messages)
                counted = connection.execute(_COUNT_BY_FLAG[flag], (folder, enough))
            case Flagged(flag) if flag.isascii() and flag not in SYSTEM_FLAGS.values():
                found = Walk(_WALK_KEYWORD, (flag.lower(),), "keyword.content", messages)
                counted = connection.execute(_COUNT_KEYWORD, (folder, flag.lower(), enough))
            case _:
                continue
        (count,) = counted.fetchone()
        if count < min(enough, narrow.messages):
            narrow = Walk(found.tables, found.values, found.by, count)
        elif narrow.tables == WALK:
            narrow = found
    return narrow


def plan(connection: sqlite3.Connection, statement: str, values: tuple[Value, ...]) -> str:
    """How SQLite goes about a statement, in one line, without what is bound to it."""
    rows = connection.execute(" ".join(("EXPLAIN QUERY PLAN", statement)), values)
    return " | ".join(str(row[3]) for row in rows)


PAIRS = "SELECT message.content, message.id, produced(?, message.content, message.id)"
NEWEST = """
    SELECT message.content, message.id FROM message INDEXED BY message_walk
    WHERE message.folder = ? AND message.content <= ? AND (message.content, message.id) < (?, ?) AND message.state >= 1
    ORDER BY message.content DESC, message.id DESC LIMIT ?
    """
WALK = """
    FROM message INDEXED BY message_walk
    LEFT JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND message.content BETWEEN ? AND ? AND reached(message.content) AND message.state >= 1
    """
INDEX = """
    FROM fts
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +fts.rowid
    LEFT JOIN content ON content.id = fts.rowid
    LEFT JOIN body ON body.content = fts.rowid
    WHERE fts MATCH ? AND fts.rowid BETWEEN ? AND ? AND reached(fts.rowid)
    """
LINES = """
    FROM line
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +line.rowid
    LEFT JOIN content ON content.id = line.rowid
    LEFT JOIN body ON body.content = line.rowid
    WHERE line MATCH ? AND line.rowid BETWEEN ? AND ? AND reached_lines(line.rowid)
    """
LACKING = """
    FROM lacking
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +lacking.content
    LEFT JOIN content ON content.id = lacking.content
    LEFT JOIN body ON body.content = lacking.content
    WHERE lacking.word = ? AND lacking.pairs & ? = ? AND lacking.content BETWEEN ? AND ? AND reached(lacking.content)
        AND message.state >= 2
    """
PENDING = """
    FROM content INDEXED BY content_pending
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +content.id
    LEFT JOIN body ON body.content = content.id
    WHERE content.state < 2 AND content.state >= 1 AND content.id BETWEEN ? AND ? AND reached_pending(content.id)
    """
ALL_IDS = """
    FROM json_each(?) AS asked
    CROSS JOIN message ON message.id = asked.value
    CROSS JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND content.state >= 1
    """
CONTENTS = """
    FROM json_each(?) AS asked
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = asked.value
    LEFT JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.state >= 1
    """
NOT_BARRED = """
    SELECT content FROM message INDEXED BY message_walk WHERE folder = ? AND content BETWEEN ? AND ?
    EXCEPT
    SELECT rowid FROM fts WHERE fts MATCH ? AND rowid BETWEEN ? AND ?
    ORDER BY 1 DESC
    """
_REACHED = "AND reached(message.content) "
UNCOUNTED = WALK.replace(_REACHED, "")
BEYOND_ASCII: dict[Stored, str] = {
    "text": """
        SELECT content FROM body INDEXED BY body_beyond_ascii
        WHERE length(text) <> length(CAST(text AS BLOB)) AND content BETWEEN ? AND ?
        """,
    "lines": """
        SELECT content FROM body INDEXED BY body_lines_beyond_ascii
        WHERE (length(headers) <> length(CAST(headers AS BLOB)) OR instr(headers, '\\u') > 0)
            AND content BETWEEN ? AND ?
        """,
    "envelope": """
        SELECT id FROM content INDEXED BY content_beyond_ascii
        WHERE (
            length(subject || sender || recipient || cc || bcc)
            <> length(CAST(subject || sender || recipient || cc || bcc AS BLOB))
            OR instr(subject || sender || recipient || cc || bcc, '\\u') > 0
        ) AND id BETWEEN ? AND ?
        """,
}
_BY_SUBJECT = """
    FROM content INDEXED BY content_by_subject
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +content.id
    LEFT JOIN body ON body.content = content.id
    WHERE content.id BETWEEN ? AND ? AND content.state >= 1
    """
BY_KEY: dict[SortKey, str] = {
    key: _BY_SUBJECT.replace("content_by_subject", f"content_by_{key}") for key in ("subject", "from", "to", "date")
}
_WALK_FLAGGED = """
    FROM message INDEXED BY message_flagged
    LEFT JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND message.content BETWEEN ? AND ? AND reached(message.content) AND message.state >= 1
        AND instr(message.flags, '"\\\\Flagged"') > 0
    """
_COUNT_FLAGGED = """
    SELECT count(*) FROM (
        SELECT 1 FROM message INDEXED BY message_flagged
        WHERE folder = ? AND instr(flags, '"\\\\Flagged"') > 0 LIMIT ?
    )
    """
_WALK_KEYWORD = """
    FROM keyword
    CROSS JOIN message ON message.id = keyword.message
    LEFT JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE keyword.folder = ? AND keyword.name = ? AND keyword.content BETWEEN ? AND ? AND reached(keyword.content)
        AND message.state >= 1
    """
_COUNT_KEYWORD = """
    SELECT count(*) FROM (SELECT 1 FROM keyword WHERE folder = ? AND name = ? LIMIT ?)
    """


def _for_flag(statement: str, flag: str) -> str:
    return statement.replace("message_flagged", f"message_{flag.lower()}").replace("Flagged", flag)


def _for_unseen(statement: str) -> str:
    return statement.replace("message_flagged", "message_unseen").replace("Flagged\"') > 0", "Seen\"') = 0")


_FLAGS = ("Flagged", "Answered", "Deleted", "Draft")
_WALK_UNSEEN, _COUNT_UNSEEN = _for_unseen(_WALK_FLAGGED), _for_unseen(_COUNT_FLAGGED)
_WALK_BY_FLAG = {"\\" + flag: _for_flag(_WALK_FLAGGED, flag) for flag in _FLAGS}
_COUNT_BY_FLAG = {"\\" + flag: _for_flag(_COUNT_FLAGGED, flag) for flag in _FLAGS}
SKEWED = """
    SELECT id FROM content INDEXED BY content_skewed
    WHERE abs(sent_day - (internaldate + 60 * internaldate_zone) / 86400) > 2
        AND sent_day BETWEEN ? AND ? AND id BETWEEN ? AND ? LIMIT ?
    """
NTH = """
    SELECT content FROM message INDEXED BY message_walk WHERE folder = ? AND content BETWEEN ? AND ?
    ORDER BY content DESC LIMIT 1 OFFSET ?
    """
MOST_SPILLED = """
    SELECT max((id >> 3) - (internaldate - 946684800) / 60) FROM content
    WHERE (id >> 3) > (internaldate - 946684800) / 60
    """
