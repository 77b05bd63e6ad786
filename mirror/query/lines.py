"""The index of header lines: for each content the pieces of its header lines' words (mirror.grams).

It proposes contents for a pattern; their lines confirm. It has the contents with text from mirror.lines_from on: all
of them, but for a mirror that an older version made, where fill() goes down from the newest, step by step. As long as
it is not whole nobody asks it, and searches walk the lines.
"""

import json
import sqlite3
from collections.abc import Sequence

from mirror.grams import grams_of, lines_text
from mirror.terms import Indexed

_WHOLE, _EMPTY = -(2**62), 2**62


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether every content with text is in the index."""
    return _begin(connection) == _WHOLE


def add(connection: sqlite3.Connection, contents: Sequence[Indexed]) -> None:
    """Take contents in that have just got their headers, in the order of their ids."""
    begin = _begin(connection)
    _insert(connection, [(content, terms.lines) for content, terms in contents if content >= begin])


def take(connection: sqlite3.Connection, contents: Sequence[Indexed]) -> None:
    """Take contents out, before their headers change or go."""
    begin = _begin(connection)
    connection.executemany(
        "INSERT INTO line (line, rowid, grams) VALUES ('delete', ?, ?)",
        [(content, terms.lines) for content, terms in contents if content >= begin],
    )


def empty(connection: sqlite3.Connection) -> None:
    """Forget everything; fill() makes it anew."""
    connection.execute("INSERT INTO line (line) VALUES ('delete-all')")
    connection.execute("UPDATE mirror SET lines_from = ?", (_EMPTY,))


def fill(connection: sqlite3.Connection, count: int) -> bool:
    """Take in the next contents that the index lacks, within the caller's transaction. Whether some are left."""
    found = connection.execute(_NEXT, (_begin(connection), count)).fetchall()
    _insert(connection, [(content, _grams(headers)) for content, headers in reversed(found)])
    begin = found[-1][0] if len(found) == count else _WHOLE
    connection.execute("UPDATE mirror SET lines_from = ?", (begin,))
    return begin != _WHOLE


def _begin(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT lines_from FROM mirror").fetchone()
    return _WHOLE if row is None else int(row[0])


def _insert(connection: sqlite3.Connection, rows: Sequence[tuple[int, str]]) -> None:
    connection.executemany("INSERT INTO line (rowid, grams) VALUES (?, ?)", rows)


def _grams(headers: str) -> str:
    return " ".join(grams_of(lines_text(json.loads(headers))))


_NEXT = """
    SELECT content.id, coalesce(body.headers, '[]') FROM content LEFT JOIN body ON body.content = content.id
    WHERE content.state >= 2 AND content.id < ? ORDER BY content.id DESC LIMIT ?
    """
