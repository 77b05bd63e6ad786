"""The index that searches ask: the full text of contents, and the distinct words in it.

fts holds fold() of each content with text. word holds each distinct word of them, and word_trigram finds words by three
letters and more inside them: that is how a substring becomes a few words to ask the full text for. Both change in the
transaction that changes fts, so the word table never lags behind it: a word is there as long as a content has it.

word.subjects and word.people count the contents with the word in the subject and among the people, exactly.
word.documents is an estimate of all, for plans only: a word starts with 1, and one batch in SAMPLE adds its contents
SAMPLE times. Counting every batch would write a page of the table for nearly every word of every mail.

What is done to the full text is done to the index of header lines (mirror.query.lines) and to the contents that lack a
universal word (mirror.query.lacking) in the same transaction.

Contents without text (state < 2) are in none; a Reader tests their envelopes directly.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from mirror.fold import people
from mirror.query import lacking, lines
from mirror.query.vocabulary import Vocabulary
from mirror.terms import Indexed, terms_of

SAMPLE = 8
_SURELY_USED = 1_000
"""A word in about so many contents is not looked for when one of them goes."""


def index(connection: sqlite3.Connection, content_ids: Sequence[int]) -> None:
    """Make contents searchable that have just got their text. Call it in the transaction that stored it.

    None of them may be indexed already: unindex() it before its text or envelope changes.
    """
    add(connection, _indexed(connection, content_ids), Vocabulary())


def add(connection: sqlite3.Connection, contents: Sequence[Indexed], vocabulary: Vocabulary) -> None:
    """As `index`, of contents whose terms are at hand, in the order of their ids."""
    if not contents:
        return
    connection.executemany(
        "INSERT INTO fts (rowid, body, subject, sender, recipient, copied) VALUES (?, ?, ?, ?, ?, ?)",
        [(content, *terms[:5]) for content, terms in contents],
    )
    lines.add(connection, contents)
    lacking.add(connection, contents)
    words = [terms.words.split() for _, terms in contents]
    fresh = vocabulary.fresh(connection, set().union(*words))
    last = connection.execute("SELECT coalesce(max(id), 0) FROM word").fetchone()
    connection.executemany(
        "INSERT OR IGNORE INTO word (term, documents, subjects, people) VALUES (?, 1, 0, 0)",
        [(word,) for word in fresh],
    )
    connection.executemany(_ADD, _shown(contents))
    if _is_sampled(contents[0][0]):
        documents = Counter(chain.from_iterable(words))
        connection.executemany(
            "UPDATE word SET documents = documents + ?2 WHERE term = ?1",
            [(word, count * SAMPLE) for word, count in sorted(documents.items())],
        )
        likely = [word for word, count in documents.items() if lacking.may_be_universal(count, len(contents))]
        lacking.notice(connection, contents, likely)
    connection.execute(
        "INSERT INTO word_trigram (rowid, term) SELECT id, term FROM word WHERE id > ? AND length(term) >= 3", last
    )
    vocabulary.hold(fresh)


def unindex(connection: sqlite3.Connection, content_ids: Sequence[int]) -> None:
    """Take indexed contents out of the index. Call it before their text or envelope changes or goes."""
    contents = _indexed(connection, content_ids)
    connection.executemany(
        "INSERT INTO fts (fts, rowid, body, subject, sender, recipient, copied) VALUES ('delete', ?, ?, ?, ?, ?, ?)",
        [(content, *terms[:5]) for content, terms in contents],
    )
    lines.take(connection, contents)
    lacking.take(connection, content_ids)
    connection.executemany(_TAKE, _shown(contents))
    for word in sorted(set().union(*(terms.words.split() for _, terms in contents))):
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


def _shown(contents: Sequence[Indexed]) -> list[tuple[str, int, int]]:
    """Words of subjects and people, and how many of the contents have them there."""
    subjects = _counted(terms.subject for _, terms in contents)
    persons = _counted(f"{terms.sender} {terms.recipient} {terms.copied}" for _, terms in contents)
    return [(word, subjects[word], persons[word]) for word in sorted({*subjects, *persons})]


def _counted(texts: Iterable[str]) -> Counter[str]:
    """In how many of the texts each word is."""
    return Counter(chain.from_iterable(set(text.split()) for text in texts))


def _is_sampled(content: int) -> bool:
    return content * 2_654_435_761 % 2**32 < 2**32 // SAMPLE


_ADD = "UPDATE word SET subjects = subjects + ?2, people = people + ?3 WHERE term = ?1"
_TAKE = "UPDATE word SET subjects = subjects - ?2, people = people - ?3 WHERE term = ?1"
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
)
