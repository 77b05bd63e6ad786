"""Words that a backlog brings, put aside until they are many: then the table of words takes them in, in order.

Each transaction of a backlog brings a few thousand words that are scattered over the whole table: entered at once, they
would have most of its pages written for each transaction. So a transaction adds one row of text here, within itself,
and whoever asks the table asks these rows too. A word is in the table or here, as long as a content has it; it may be
in both.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from mirror.query.word_table import Counts, count, enter

MANY = 30_000
"""Words put aside before the table takes them in: so few that looking through them takes a tenth of a millisecond."""
_AT_ONCE = 4_000
"""Words taken in in one step: some 30 ms."""

Part = Literal["whole", "prefix", "suffix", "inside"]
"""What a piece of a pattern is of a word."""


def put_aside(connection: sqlite3.Connection, words: Collection[str], counts: Counts) -> None:
    """Keep words for later that the table may lack, and what there is to count."""
    texts = [f" {' '.join(each)} " for each in (words, counts.subjects, counts.people)]
    connection.execute(
        "INSERT INTO fresh_words (amount, words, subjects, people, counts) VALUES (?, ?, ?, ?, ?)",
        (len(words), *texts, json.dumps(counts, ensure_ascii=False)),
    )


def are_many(connection: sqlite3.Connection) -> bool:
    """Whether it is time to take them in."""
    return int(connection.execute("SELECT coalesce(sum(amount), 0) FROM fresh_words").fetchone()[0]) > MANY


def take_in(connection: sqlite3.Connection) -> Iterator[None]:
    """Let the table have them all; yields after each step, for the caller to commit."""
    rows = connection.execute("SELECT id, words, counts FROM fresh_words").fetchall()
    if not rows:
        return
    ordered = sorted(set("".join([words for _, words, _ in rows]).split()))
    for start in range(0, len(ordered), _AT_ONCE):
        enter(connection, ordered[start : start + _AT_ONCE])
        yield
    # Together, so that nothing is counted twice, or not at all, when this is cut.
    count(connection, _together([Counts(*map(Counter, json.loads(counts))) for _, _, counts in rows]))
    connection.executemany("DELETE FROM fresh_words WHERE id = ?", [(row[0],) for row in rows])
    yield


def _together(counts: Sequence[Counts]) -> Counts:
    subjects, people, sampled = Counts(Counter(), Counter(), Counter())
    for each in counts:
        subjects.update(each.subjects)
        people.update(each.people)
        sampled.update(each.sampled)
    return Counts(subjects, people, sampled)


class FreshWords:
    """The words put aside in one mirror, as one page finds them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._texts: dict[str, str] = {}

    def having(self, counted: str, piece: str, part: Part, most: int) -> set[str]:
        """Words that a piece is part of, or one more than `most` when they are more.

        counted: which column of the table is asked for: of "subjects" and "people", only words that stand there.
        """
        text = self._text("words" if counted == "documents" else counted)
        asked = (" " if part in ("whole", "prefix") else "") + piece + (" " if part in ("whole", "suffix") else "")
        found: set[str] = set()
        at = text.find(asked)
        while at >= 0 and len(found) <= most:
            begin = text.rfind(" ", 0, at + 1) + 1
            end = text.index(" ", at + len(asked) - 1)
            found.add(text[begin:end])
            at = text.find(asked, end)
        return found

    def _text(self, column: str) -> str:
        if column not in self._texts:
            self._texts[column] = "".join([row[0] for row in self._connection.execute(_READ[column])])
        return self._texts[column]


_READ = {
    "words": "SELECT words FROM fresh_words",
    "subjects": "SELECT subjects FROM fresh_words",
    "people": "SELECT people FROM fresh_words",
}
