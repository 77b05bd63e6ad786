"""How a filter is answered from the index: what to ask the full text for, and what is left to test.

The index only proposes. A pattern becomes words: folded as the index folds (mirror.fold), it is a run of word parts, of
which the first may be the end of a word, the last the beginning of one, and a single one any part of a word. The word
table says which words those are and in how many contents they stand. Whatever matches the pattern has such words, so
that asking for them misses nothing; where they say less than the pattern does, the row is tested too.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mirror.fold import LONG_WORD, fold
from mirror.query.sql import TRUE, Fragment, exact, joined
from mirror.query.tree import All, Any, Contains, Field, Node, TextContains

MOST_WORDS = 2_000
"""A pattern that is part of more words than this is not asked of the index."""
_MOST_SCANNED = 6_000
_MOST_PHRASES = 24
_LONGEST_ASKED = 64
_TRIGRAM = 3

Part = Literal["whole", "prefix", "suffix", "inside"]

_FTS_COLUMNS: dict[Field, str] = {
    "subject": "subject",
    "from": "sender",
    "to": "recipient",
    "cc": "copied",
    "bcc": "copied",
    "body": "body",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """Contents that the index proposes for a condition: all that match are among them.

    match: an FTS5 expression, of so many words. hits: about how many contents it finds. rest: what is still to be
    tested of each.
    """

    match: str
    words: int
    hits: int
    rest: Fragment


def propose(connection: sqlite3.Connection, node: Node | None) -> Proposal | None:
    """What the index proposes for a filter, or None when it cannot help."""
    match node:
        case All(nodes):
            return _propose_all(connection, nodes)
        case Any(nodes):
            return _propose_any(connection, node, nodes)
        case Contains(field, pattern):
            return _propose_pattern(connection, node, field, pattern)
        case _:
            return None


def superset(node: Node) -> Node:
    """A condition that holds wherever the node may hold for some view of the message.

    A view may drop a message, drop a field or delete spans: what contains a pattern then, contained it before.
    Everything else may turn out either way.
    """
    match node:
        case All(nodes):
            return All(tuple(superset(each) for each in nodes))
        case Any(nodes):
            return Any(tuple(superset(each) for each in nodes))
        case Contains() | TextContains():
            return node
        case _:
            return All(())


def _propose_all(connection: sqlite3.Connection, nodes: Sequence[Node]) -> Proposal | None:
    proposals = [(node, propose(connection, node)) for node in nodes]
    found = [proposal for _, proposal in proposals if proposal is not None]
    if not found:
        return None
    return Proposal(
        " AND ".join(each.match for each in found)
        if len(found) == 1
        else "(" + ") AND (".join(each.match for each in found) + ")",
        sum(each.words for each in found),
        min(each.hits for each in found),
        joined("AND", (exact(each) if proposal is None else proposal.rest for each, proposal in proposals)),
    )


def _propose_any(connection: sqlite3.Connection, node: Node, nodes: Sequence[Node]) -> Proposal | None:
    found: list[Proposal] = []
    for each in nodes:
        proposal = propose(connection, each)
        if proposal is None:
            return None
        found.append(proposal)
    if not found:
        return None
    return Proposal(
        "(" + ") OR (".join(each.match for each in found) + ")",
        sum(each.words for each in found),
        sum(each.hits for each in found),
        TRUE if all(each.rest == TRUE for each in found) else exact(node),
    )


def _propose_pattern(connection: sqlite3.Connection, node: Node, field: Field, pattern: str) -> Proposal | None:
    folded = fold(pattern)
    pieces = folded.split()
    if not pieces:
        return None
    parts = _parts(folded, len(pieces))
    words = [_Words.of(connection, piece, part) for piece, part in zip(pieces, parts, strict=True)]
    known = [each for each in words if each.terms is not None]
    if not known:
        return None
    hits = min(each.hits for each in known)
    column = _FTS_COLUMNS[field]
    is_exact = len(pieces) == 1 and LONG_WORD not in words[0].listed and column != "copied"
    asked = _phrases(pieces, words) or " AND ".join("(" + _one_of(each.listed) + ")" for each in known)
    count = sum(len(each.listed) for each in known)
    return Proposal(column + " : (" + asked + ")", count, hits, TRUE if is_exact else exact(node))


def _parts(folded: str, count: int) -> list[Part]:
    opens, closes = folded.startswith(" "), folded.endswith(" ")
    if count == 1:
        alone: dict[tuple[bool, bool], Part] = {
            (True, True): "whole",
            (True, False): "prefix",
            (False, True): "suffix",
            (False, False): "inside",
        }
        return [alone[opens, closes]]
    first: Part = "whole" if opens else "suffix"
    last: Part = "whole" if closes else "prefix"
    middle: list[Part] = ["whole"] * (count - 2)
    return [first, *middle, last]


def _phrases(pieces: list[str], words: "list[_Words]") -> str:
    """The phrases that the pattern may be part of, or "" when they are too many to say."""
    first, last = words[0].terms, words[-1].terms
    if len(pieces) == 1 or not first or not last or len(first) * len(last) > _MOST_PHRASES:
        return ""
    if LONG_WORD in (*first, *last, *pieces):
        return ""
    middle = " ".join(pieces[1:-1])
    return " OR ".join('"' + " ".join((begin, middle, end)) + '"' for begin in first for end in last)


def _one_of(terms: Sequence[str]) -> str:
    return " OR ".join('"' + term + '"' for term in terms)


@dataclass(frozen=True, slots=True)
class _Words:
    """The words that a piece of a pattern may be part of; terms is None when they are too many to say."""

    part: Part
    terms: list[str] | None
    hits: int

    @property
    def listed(self) -> list[str]:
        """The terms to ask for; one that no content has when there are none."""
        return self.terms or [_NO_WORD]

    @classmethod
    def of(cls, connection: sqlite3.Connection, piece: str, part: Part) -> "_Words":
        rows = _rows(connection, piece, part)
        if rows is None or len(rows) > MOST_WORDS:
            return cls(part, None, 0)
        if part != "whole" and piece != LONG_WORD:
            rows = [*rows, *connection.execute(_WHOLE, (LONG_WORD,))]
        return cls(part, [term for term, _ in rows], sum(documents for _, documents in rows))


_NO_WORD = "\ue001"


def _rows(connection: sqlite3.Connection, piece: str, part: Part) -> list[tuple[str, int]] | None:
    if part == "whole" or LONG_WORD in piece:
        return connection.execute(_WHOLE, (piece,)).fetchall()
    if part == "prefix":
        return connection.execute(_PREFIX, (piece, piece, MOST_WORDS + 1)).fetchall()
    if len(piece) < _TRIGRAM:
        return None
    scanned = connection.execute(_INSIDE, ('"' + piece[:_LONGEST_ASKED] + '"', _MOST_SCANNED)).fetchall()
    if len(scanned) == _MOST_SCANNED:
        return None
    if part == "suffix":
        return [row for row in scanned if row[0].endswith(piece)]
    return [row for row in scanned if piece in row[0]]


_WHOLE = "SELECT term, documents FROM word WHERE term = ?"
_PREFIX = "SELECT term, documents FROM word WHERE term >= ? AND term < ? || char(1114111) LIMIT ?"
_INSIDE = """
    SELECT word.term, word.documents
    FROM (SELECT rowid FROM word_trigram WHERE word_trigram MATCH ? LIMIT ?) AS found
    CROSS JOIN word ON word.id = found.rowid
    """
