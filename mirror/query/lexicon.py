"""Which words of a mirror a piece of a pattern may be part of."""

import json
import sqlite3
from dataclasses import dataclass

from mirror.fold import LONG_WORD
from mirror.query.fresh_words import FreshWords, Part
from mirror.query.tree import Field

Row = tuple[str, int]
"""A word, and how many contents have it in the field that is asked about."""

MOST_WORDS = 1_000
"""A pattern that is part of more words than this is not asked of the index."""
MOST_SCANNED = 6_000
"""Words looked at to find those that a piece ends or begins, or that subjects have: few of all with the piece."""
SCANNED_OF_PEOPLE = 200
"""The same for people: more are worth a look at all their words, which are few and an index of their own."""
THOROUGH = 5
"""How many times more of both are worth it where a walk has shown that hits are rare."""
_MOST_HELD = 10_000
"""Words held for the next page, or the next search for the same."""
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


@dataclass(frozen=True, slots=True)
class _Told:
    """What was found for a piece: all its words, or None when they are too many to look at with so much effort."""

    rows: list[Row] | None
    is_thorough: bool

    @property
    def size(self) -> int:
        """Words to hold, and one for what asked for them."""
        return 1 + len(self.rows or ())


class Lexicon:
    """The word table of one mirror, asked once for each piece of patterns as long as nothing in the mirror changes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._fresh = FreshWords(connection)
        self._known: dict[tuple[str, str, Part], _Told] = {}
        self._held = 0
        self._version: int | None = None
        self._is_current = False

    def begin(self) -> None:
        """A page begins: the mirror may have changed since the last one."""
        self._is_current = False

    def words(self, field: Field | None, piece: str, part: Part, *, thorough: bool) -> list[Row] | None:
        """The words of a field, or of any, that a piece may be part of, or None when they are too many to say.

        thorough: five times more are worth it, and the words with a piece of one or two characters are looked for.
        """
        self._forget_what_changed()
        asked = (_COUNTS[field], piece, part)
        told = self._known.get(asked)
        if told is None or (told.rows is None and thorough and not told.is_thorough):
            told = _Told(self._found(field, piece, part, thorough=thorough), thorough)
            self._hold(asked, told)
        is_worth_more = thorough and part in ("suffix", "inside") and len(piece) >= 3
        most = MOST_WORDS * (THOROUGH if is_worth_more else 1)
        return None if told.rows is None or len(told.rows) > most else told.rows

    def whole(self, field: Field | None, word: str) -> list[Row]:
        """The word, if a field has it, or any."""
        self._forget_what_changed()
        found = self._connection.execute(_WHOLE[_COUNTS[field]], (word,)).fetchall()
        return found or [(each, 1) for each in self._fresh.having(_COUNTS[field], word, "whole", 0)]

    def _forget_what_changed(self) -> None:
        if not self._is_current:
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._fresh = FreshWords(self._connection)
                self._known.clear()
                self._held, self._version = 0, version
            self._is_current = True

    def _hold(self, asked: tuple[str, str, Part], told: _Told) -> None:
        replaced = self._known.pop(asked, None)
        self._known[asked] = told
        self._held += told.size - (0 if replaced is None else replaced.size)
        while self._held > _MOST_HELD and len(self._known) > 1:
            self._held -= self._known.pop(next(iter(self._known))).size

    def _found(self, field: Field | None, piece: str, part: Part, *, thorough: bool) -> list[Row] | None:
        if part == "whole" or LONG_WORD in piece:
            return self.whole(field, piece)
        found = self._partly(_COUNTS[field], piece, part, thorough=thorough)
        if found is None:
            return None
        fresh = self._fresh.having(_COUNTS[field], piece, part, THOROUGH * MOST_WORDS).difference(dict(found))
        return [*found, *((term, 1) for term in sorted(fresh)), *self.whole(field, LONG_WORD)]

    def _partly(self, count: str, piece: str, part: Part, *, thorough: bool) -> list[Row] | None:
        if part == "prefix":
            return self._begun(count, piece)
        if len(piece) >= 3:
            return self._long(count, piece, part, THOROUGH if thorough else 1)
        if count == "people":
            return self._connection.execute(_PEOPLE[part], (piece,)).fetchall()
        return self._short(count, piece, part) if thorough else None

    def _begun(self, count: str, piece: str) -> list[Row] | None:
        most = MOST_WORDS if count == "documents" else MOST_SCANNED
        if count != "people" and self._begins_more_than(most, piece):
            return None
        return self._connection.execute(_PREFIX[count], (piece, piece, MOST_WORDS + 1)).fetchall()

    def _long(self, count: str, piece: str, part: Part, times: int) -> list[Row] | None:
        """The words with a piece of three characters and more within them, or at their end."""
        scanned = MOST_WORDS + 1 if part == "inside" and count == "documents" else MOST_SCANNED
        ids = self._having_trigrams(piece, SCANNED_OF_PEOPLE if count == "people" else times * scanned)
        if ids is not None:
            return self._connection.execute(_BY_IDS[part, count], (json.dumps(ids), piece)).fetchall()
        return self._connection.execute(_PEOPLE[part], (piece,)).fetchall() if count == "people" else None

    def _short(self, count: str, piece: str, part: Part) -> list[Row] | None:
        """The words with a piece of one or two characters, which no index has."""
        if count == "documents" and self._begins_more_than(MOST_WORDS, piece):
            # It is within as many, then, and most likely ends as many.
            return None
        if len(piece) == 2:
            trigrams = self._connection.execute(_TRIGRAMS[part], (piece,)).fetchall()
            if sum(documents for _, documents in trigrams) <= MOST_SCANNED:
                alone = self._connection.execute(_WHOLE[count], (piece,)).fetchall()
                asked = " OR ".join('"' + trigram + '"' for trigram, _ in trigrams)
                return [*alone, *self._among(asked, piece, part, count)] if asked else alone
            if count == "documents":
                return None
        return self._connection.execute(_ANYWHERE[part, count], (MOST_WORDS + 1, piece)).fetchall()

    def _among(self, asked: str, piece: str, part: Part, count: str) -> list[Row]:
        """The words with a piece among those that have the trigrams asked for."""
        ids = [row[0] for row in self._connection.execute(_INSIDE, (asked, -1))]
        return self._connection.execute(_BY_IDS[part, count], (json.dumps(ids), piece)).fetchall()

    def _having_trigrams(self, piece: str, most: int) -> list[int] | None:
        """The ids of all words that have the piece, and of a few more; None when they are so many."""
        # Trigrams side by side say nearly as much as all of them, in less than half the time.
        for asked in dict.fromkeys((_trigrams(piece, 3), _trigrams(piece, 1))):
            ids = [row[0] for row in self._connection.execute(_INSIDE, (asked, most))]
            if len(ids) < most:
                return ids
        return None

    def _begins_more_than(self, most: int, piece: str) -> bool:
        """Whether a piece begins more words than that."""
        return len(self._connection.execute(_BEGUN, (piece, piece, most + 1)).fetchall()) > most


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
_PREFIX = {
    **_by_count(
        "SELECT term, documents FROM word WHERE term >= ? AND term < ? || char(1114111) AND documents > 0 LIMIT ?"
    ),
    "people": """
        SELECT term, people FROM word INDEXED BY word_people
        WHERE term >= ? AND term < ? || char(1114111) AND people > 0 LIMIT ?
        """,
}
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
# A range of letters each: a trigram that ends with the piece begins with one of the few letters that any begins with.
_ENDED = """
    WITH RECURSIVE opening (letter) AS (
        SELECT (SELECT substr(term, 1, 1) FROM trigram LIMIT 1)
        UNION ALL
        SELECT (SELECT substr(term, 1, 1) FROM trigram WHERE term >= char(unicode(letter) + 1) LIMIT 1) FROM opening
        WHERE letter IS NOT NULL
    )
    SELECT trigram.term, trigram.doc FROM opening CROSS JOIN trigram ON trigram.term = letter || ?1
    """
_TRIGRAMS: dict[Part, str] = {
    "suffix": _ENDED,
    "inside": " UNION ".join((_ENDED, "SELECT term, doc FROM trigram WHERE term >= ?1 AND term < ?1 || char(1114111)")),
}
"""The trigrams of words with a piece of two characters, and in how many words each is."""
