"""The index that searches ask: the full text of contents, and the distinct words in it.

fts holds fold() of each content with text. word holds each distinct word of them (mirror.query.word_table), and
word_trigram finds words by three letters and more inside them: that is how a substring becomes a few words to ask the
full text for. Both change in the transaction that changes fts, so the word table never lags behind it: a word is there
as long as a content has it. Only a backlog puts new words aside first, where searches find them too
(mirror.query.fresh_words).

What is done to the full text is done to the index of header lines (mirror.query.lines) and to the contents that lack a
universal word (mirror.query.lacking) in the same transaction.

Contents without text (state < 2) are in none; a Reader tests their envelopes directly.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence

from mirror.fold import people
from mirror.query import lacking, lines
from mirror.query.fresh_words import put_aside, take_in
from mirror.query.vocabulary import Vocabulary
from mirror.query.word_table import count, counts_of, discount, enter
from mirror.terms import Indexed, terms_of

_SURELY_USED = 1_000
"""A word in about so many contents is not looked for when one of them goes."""


def index(connection: sqlite3.Connection, content_ids: Sequence[int], *, is_backlog: bool = False) -> None:
    """Make contents searchable that have just got their text. Call it in the transaction that stored it.

    None of them may be indexed already: unindex() it before its text or envelope changes.
    """
    add(connection, _indexed(connection, content_ids), Vocabulary(), is_backlog=is_backlog)


def add(
    connection: sqlite3.Connection, contents: Sequence[Indexed], vocabulary: Vocabulary, *, is_backlog: bool = False
) -> None:
    """As `index`, of contents whose terms are at hand, in the order of their ids.

    is_backlog: put new words aside; whoever merges the full text afterwards has them taken in.
    """
    if not contents:
        return
    connection.executemany(
        "INSERT INTO fts (rowid, body, subject, sender, recipient, copied) VALUES (?, ?, ?, ?, ?, ?)",
        [(content, *terms[:5]) for content, terms in contents],
    )
    lines.add(connection, contents)
    lacking.add(connection, contents)
    lacking.notice(connection, contents)
    fresh, counts = vocabulary.fresh(connection, [terms for _, terms in contents]), counts_of(contents)
    if is_backlog:
        put_aside(connection, fresh, counts)
    else:
        enter(connection, fresh)
        count(connection, counts)
    vocabulary.hold(fresh)


def unindex(connection: sqlite3.Connection, content_ids: Sequence[int]) -> None:
    """Take indexed contents out of the index. Call it before their text or envelope changes or goes."""
    for _ in take_in(connection):
        pass
    contents = _indexed(connection, content_ids)
    connection.executemany(
        "INSERT INTO fts (fts, rowid, body, subject, sender, recipient, copied) VALUES ('delete', ?, ?, ?, ?, ?, ?)",
        [(content, *terms[:5]) for content, terms in contents],
    )
    lines.take(connection, contents)
    lacking.take(connection, content_ids)
    discount(connection, counts_of(contents))
    for word in sorted(set().union(*(terms.words for _, terms in contents))):
        row = connection.execute(_RARE, (word, _SURELY_USED)).fetchone()
        if row is not None and connection.execute(_USED, ('"' + word + '"',)).fetchone() is None:
            if len(word) >= 3:
                connection.execute(_FORGET, (row[0], word))
            connection.execute("DELETE FROM word WHERE id = ?", row)


def forget_unused_words(connection: sqlite3.Connection) -> None:
    """Forget the words that were in so many contents that nobody looked whether one is left. For the clean-up."""
    for word_id, word in connection.execute(_FREQUENT, (_SURELY_USED,)).fetchall():
        if connection.execute(_USED, ('"' + word + '"',)).fetchone() is None:
            if len(word) >= 3:
                connection.execute(_FORGET, (word_id, word))
            connection.execute("DELETE FROM word WHERE id = ?", (word_id,))


def rebuild(connection: sqlite3.Connection, batch: int = 250) -> Iterator[int]:
    """Index everything anew, as after a change of FOLD_VERSION; yields after each batch, for the caller to commit.

    Until the last batch, searches miss what has not been reached. Header lines are left to `lines.fill`.
    """
    for statement in _EMPTY:
        connection.execute(statement)
    lines.empty(connection)
    lacking.empty(connection)
    ids = [row[0] for row in connection.execute("SELECT id FROM content WHERE state >= 2 ORDER BY id")]
    for start in range(0, len(ids), batch):
        index(connection, ids[start : start + batch])
        yield len(ids[start : start + batch])


def _indexed(connection: sqlite3.Connection, content_ids: Sequence[int]) -> list[Indexed]:
    return [
        (row[0], terms_of(row[1], row[2], [people(each) for each in row[3:7]], json.loads(row[7])))
        for row in connection.execute(_CONTENTS, (json.dumps(sorted(content_ids)),))
    ]


_RARE = "SELECT id FROM word WHERE term = ? AND documents < ?"
_FREQUENT = "SELECT id, term FROM word WHERE documents >= ?"
_USED = "SELECT 1 FROM fts WHERE fts MATCH ? LIMIT 1"
_FORGET = "INSERT INTO word_trigram (word_trigram, rowid, term) VALUES ('delete', ?, ?)"
_CONTENTS = """
    SELECT content.id, coalesce(body.text, ''), content.subject, content.sender, content.recipient, content.cc,
        content.bcc, coalesce(body.headers, '[]')
    FROM json_each(?) AS asked
    CROSS JOIN content ON content.id = asked.value
    LEFT JOIN body ON body.content = content.id
    ORDER BY content.id
    """
_EMPTY = (
    "INSERT INTO fts (fts) VALUES ('delete-all')",
    "INSERT INTO word_trigram (word_trigram) VALUES ('delete-all')",
    "DELETE FROM word",
    "DELETE FROM fresh_words",
)
