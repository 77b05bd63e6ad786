"""The index that searches ask: the full text of contents, and the distinct words in it.

fts holds fold() of each content with text. word holds each distinct word of them with the number of contents it is in,
and word_trigram finds words by three letters and more inside them: that is how a substring becomes a few words to ask
the full text for. Both change in the transaction that changes fts, so the word table never lags behind.

Contents without text (state < 2) are in neither; a Reader tests their envelopes directly.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

from mirror.fold import fold, people

Columns = tuple[int, str, str, str, str, str]


def index(connection: sqlite3.Connection, content_ids: Sequence[int]) -> None:
    """Make contents searchable that have just got their text. Call it in the transaction that stored it.

    None of them may be indexed already: unindex() it before its text or envelope changes.
    """
    columns = _folded(connection, sorted(content_ids))
    connection.executemany(
        "INSERT INTO fts (rowid, subject, sender, recipient, copied, body) VALUES (?, ?, ?, ?, ?, ?)", columns
    )
    last = connection.execute("SELECT coalesce(max(id), 0) FROM word").fetchone()
    connection.executemany(_ADD, _counts(columns))
    connection.execute(
        "INSERT INTO word_trigram (rowid, term) SELECT id, term FROM word WHERE id > ? AND length(term) >= 3", last
    )


def unindex(connection: sqlite3.Connection, content_ids: Sequence[int]) -> None:
    """Take indexed contents out of the index. Call it before their text or envelope changes or goes."""
    columns = _folded(connection, sorted(content_ids))
    connection.executemany(
        "INSERT INTO fts (fts, rowid, subject, sender, recipient, copied, body) VALUES ('delete', ?, ?, ?, ?, ?, ?)",
        columns,
    )
    connection.executemany(_TAKE, _counts(columns))
    connection.execute(
        "INSERT INTO word_trigram (word_trigram, rowid, term)"
        " SELECT 'delete', id, term FROM word WHERE documents <= 0 AND length(term) >= 3"
    )
    connection.execute("DELETE FROM word WHERE documents <= 0")


def rebuild(connection: sqlite3.Connection, batch: int = 250) -> Iterable[int]:
    """Index everything anew, as after a change of FOLD_VERSION; yields after each batch, for the caller to commit.

    Until the last batch, searches miss what has not been reached.
    """
    for statement in _EMPTY:
        connection.execute(statement)
    ids = [row[0] for row in connection.execute("SELECT id FROM content WHERE state >= 2 ORDER BY id")]
    for start in range(0, len(ids), batch):
        index(connection, ids[start : start + batch])
        yield len(ids[start : start + batch])


def _folded(connection: sqlite3.Connection, content_ids: list[int]) -> list[Columns]:
    return [
        (
            row[0],
            fold(row[1]),
            fold(people(row[2])),
            fold(people(row[3])),
            fold(people(row[4]) + " " + people(row[5])),
            fold(row[6]),
        )
        for row in connection.execute(_CONTENTS, (json.dumps(content_ids),))
    ]


def _counts(columns: list[Columns]) -> list[tuple[str, int, int, int]]:
    """Every word, and how many of the contents have it at all, in the subject, among the people."""
    documents: Counter[str] = Counter()
    subjects: Counter[str] = Counter()
    persons: Counter[str] = Counter()
    for _, subject, *addresses, body in columns:
        in_subject = set(subject.split(" "))
        in_people = set(" ".join(addresses).split(" "))
        subjects.update(in_subject)
        persons.update(in_people)
        documents.update(in_subject.union(in_people, body.split(" ")))
    documents.pop("", None)
    return [(word, count, subjects[word], persons[word]) for word, count in sorted(documents.items())]


_ADD = """
    INSERT INTO word (term, documents, subjects, people) VALUES (?, ?, ?, ?)
    ON CONFLICT (term) DO UPDATE SET documents = documents + excluded.documents,
        subjects = subjects + excluded.subjects, people = people + excluded.people
    """
_TAKE = """
    UPDATE word SET documents = documents - ?2, subjects = subjects - ?3, people = people - ?4 WHERE term = ?1
    """
_CONTENTS = """
    SELECT content.id, content.subject, content.sender, content.recipient, content.cc, content.bcc,
        coalesce(body.text, '')
    FROM json_each(?) AS asked
    CROSS JOIN content ON content.id = asked.value
    LEFT JOIN body ON body.content = content.id
    ORDER BY content.id
    """
_EMPTY = (
    "INSERT INTO fts (fts) VALUES ('delete-all')",
    "INSERT INTO word_trigram (word_trigram) VALUES ('delete-all')",
    "DELETE FROM word",
)
