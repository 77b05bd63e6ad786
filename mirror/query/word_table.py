"""The table of words, written: each distinct word of the full text, and in how many contents it stands.

word.subjects and word.people count the contents with the word in the subject and among the people, exactly.
word.documents is an estimate of all, for plans only: a word starts with 1, and one content in SAMPLE counts SAMPLE
times. Counting every content would write a page of the table for nearly every word of every mail.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mirror.terms import Indexed

SAMPLE = 16


class Counts(NamedTuple):
    """In how many contents words stand. sampled: of a few contents, anywhere."""

    subjects: Counter[str]
    people: Counter[str]
    sampled: Counter[str]


def counts_of(contents: Sequence[Indexed]) -> Counts:
    """What there is to count of these contents."""
    return Counts(
        Counter([word for _, terms in contents for word in set(terms.subject.split())]),
        Counter([word for _, terms in contents for word in set(terms.people.split())]),
        Counter([word for content, terms in contents if _is_sampled(content) for word in set(terms.words)]),
    )


def enter(connection: sqlite3.Connection, words: Iterable[str]) -> None:
    """Take in those of the words that the table lacks; quickest in their order."""
    last = connection.execute("SELECT coalesce(max(id), 0) FROM word").fetchone()
    connection.executemany(
        "INSERT OR IGNORE INTO word (term, documents, subjects, people) VALUES (?, 1, 0, 0)",
        [(word,) for word in words],
    )
    connection.execute(
        "INSERT INTO word_trigram (rowid, term) SELECT id, term FROM word WHERE id > ? AND length(term) >= 3", last
    )


def count(connection: sqlite3.Connection, counts: Counts) -> None:
    """Count words that the table has."""
    connection.executemany(_COUNT, _shown(counts))
    connection.executemany(
        "UPDATE word SET documents = documents + ?2 WHERE term = ?1",
        [(word, times * SAMPLE) for word, times in sorted(counts.sampled.items())],
    )


def discount(connection: sqlite3.Connection, counts: Counts) -> None:
    """Take back what was counted in the subjects and among the people."""
    connection.executemany(_COUNT, [(word, -subjects, -people) for word, subjects, people in _shown(counts)])


def _shown(counts: Counts) -> list[tuple[str, int, int]]:
    subjects, people, _ = counts
    return [(word, subjects[word], people[word]) for word in sorted({*subjects, *people})]


def _is_sampled(content: int) -> bool:
    return content * 2_654_435_761 % 2**32 < 2**32 // SAMPLE


_COUNT = "UPDATE word SET subjects = subjects + ?2, people = people + ?3 WHERE term = ?1"
