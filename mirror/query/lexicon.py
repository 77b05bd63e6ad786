"""Which words of a mirror a piece of a pattern may be part of."""

import json
import sqlite3
from typing import Literal

from mirror.fold import LONG_WORD
from mirror.query.tree import Field

Part = Literal["whole", "prefix", "suffix", "inside"]
Row = tuple[str, int]
"""A word, and how many contents have it in the field that is asked about."""

MOST_WORDS = 1_000
"""A pattern that is part of more words than this is not asked of the index."""
MOST_SCANNED = 6_000
"""Words looked at to find those that a piece ends, or that subjects have: few among all that have the piece."""
THOROUGH = 5
"""How many times more of both are worth it where a walk has shown that hits are rare."""
_LONGEST_ASKED = 64
_COUNTS: dict[Field | None, str] = {
    None: "documents",
    "body": "documents",
    "subject": "subjects",
    "from": "people",
    "to": "people",
    "cc": "people",
    "bcc": "people",
}


class Lexicon:
    """The word table of one mirror, asked once for each piece of the patterns of one page."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str, Part, bool], list[Row] | None] = {}

    def words(self, field: Field | None, piece: str, part: Part, *, thorough: bool) -> list[Row] | None:
        """The words of a field, or of any, that a piece may be part of, or None when they are too many to say.

        thorough: for pieces of one or two characters, which no index has, the whole table is read.
        """
        asked = (_COUNTS[field], piece, part, thorough)
        if asked not in self._known:
            self._known[asked] = self._found(field, piece, part, thorough=thorough)
        return self._known[asked]

    def whole(self, field: Field | None, word: str) -> list[Row]:
        """The word, if a field has it, or any."""
        return self._connection.execute(_WHOLE[_COUNTS[field]], (word,)).fetchall()

    def _found(self, field: Field | None, piece: str, part: Part, *, thorough: bool) -> list[Row] | None:
        if part == "whole" or LONG_WORD in piece:
            return self.whole(field, piece)
        times = THOROUGH if thorough and part != "prefix" and len(piece) >= 3 else 1
        found = self._partly(_COUNTS[field], piece, part, times, thorough=thorough)
        return None if found is None or len(found) > times * MOST_WORDS else [*found, *self.whole(field, LONG_WORD)]

    def _partly(self, count: str, piece: str, part: Part, times: int, *, thorough: bool) -> list[Row] | None:
        found: list[Row] | None = None
        if part == "prefix":
            found = self._connection.execute(_PREFIX[count], (piece, piece, MOST_WORDS + 1)).fetchall()
        elif len(piece) >= 3:
            scanned = MOST_WORDS + 1 if part == "inside" and count == "documents" else MOST_SCANNED
            if (ids := self._having_trigrams(piece, times * scanned)) is not None:
                found = self._connection.execute(_BY_IDS[part, count], (json.dumps(ids), piece)).fetchall()
        elif thorough and (count != "documents" or not self._begins_many(piece)):
            found = self._connection.execute(_ANYWHERE[part, count], (MOST_WORDS + 1, piece)).fetchall()
        if (found is None or len(found) > times * MOST_WORDS) and count == "people":
            found = self._connection.execute(_PEOPLE[part], (piece,)).fetchall()
        return found

    def _having_trigrams(self, piece: str, most: int) -> list[int] | None:
        """The ids of all words that have the piece, and of a few more; None when they are so many."""
        # Trigrams side by side say nearly as much as all of them, in less than half the time.
        for step in (3, 1) if len(piece) > 3 else (3,):
            ids = [row[0] for row in self._connection.execute(_INSIDE, (_trigrams(piece, step), most))]
            if len(ids) < most:
                return ids
        return None

    def _begins_many(self, piece: str) -> bool:
        """Whether a piece begins too many words to say; it is within as many, then, and most likely ends as many."""
        return len(self._connection.execute(_BEGUN, (piece, piece, MOST_WORDS + 1)).fetchall()) > MOST_WORDS


def _trigrams(piece: str, step: int) -> str:
    """Words that have every so manieth trigram of a piece, wherever they stand in it."""
    last = min(len(piece), _LONGEST_ASKED) - 3
    asked = dict.fromkeys(piece[start : start + 3] for start in (*range(0, last, step), last))
    return " AND ".join('"' + trigram + '"' for trigram in asked)


def _by_count(statement: str) -> dict[str, str]:
    return {each: statement.replace("documents", each) for each in ("documents", "subjects", "people")}


def _by_part(statement: str) -> dict[tuple[Part, str], str]:
    return {
        (part, count): each.replace("is_part(term, ?2)", test)
        for part, test in _IS_PART.items()
        for count, each in _by_count(statement).items()
    }


_IS_PART: dict[Part, str] = {
    "inside": "instr(word.term, ?2) > 0",
    "prefix": "instr(word.term, ?2) = 1",
    "suffix": "substr(word.term, -length(?2)) = ?2",
}
_WHOLE = _by_count("SELECT term, documents FROM word WHERE term = ? AND documents > 0")
_PREFIX = _by_count(
    "SELECT term, documents FROM word WHERE term >= ? AND term < ? || char(1114111) AND documents > 0 LIMIT ?"
)
_BEGUN = "SELECT 1 FROM word WHERE term >= ? AND term < ? || char(1114111) LIMIT ?"
_INSIDE = "SELECT rowid FROM word_trigram WHERE word_trigram MATCH ? LIMIT ?"
_BY_IDS = _by_part(
    """
    SELECT word.term, word.documents
    FROM json_each(?1) AS asked CROSS JOIN word ON word.id = asked.value
    WHERE word.documents > 0 AND is_part(term, ?2)
    """
)
_ANYWHERE = _by_part("SELECT term, documents FROM word WHERE documents > 0 AND is_part(term, ?2) LIMIT ?1")
_EVERYBODY = "SELECT term, people FROM word INDEXED BY word_people WHERE people > 0 AND TRUE"
_PEOPLE = {part: _EVERYBODY.replace("TRUE", test.replace("?2", "?1")) for part, test in _IS_PART.items()}
