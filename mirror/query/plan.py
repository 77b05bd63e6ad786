"""How a filter is answered from the index: what to ask it for, and what is left to test.

The index only proposes. A pattern becomes words: folded as the index folds (mirror.fold), it is a run of word parts, of
which the first may be the end of a word, the last the beginning of one, and a single one any part of a word. The word
table says which words those are and in how many contents they stand. Whatever matches the pattern has such words, so
that asking for them misses nothing; where they say less than the pattern does, the row is tested too. Header lines are
asked for pieces of the pattern instead (mirror.grams), and always tested.
"""

import sqlite3
from collections.abc import Sequence
from math import isqrt, prod
from typing import TypeGuard

from mirror.fold import LONG_WORD, fold, fold_keeping_separators
from mirror.grams import asked_of
from mirror.query.fresh_words import Part
from mirror.query.lacking import Lacking, lacking
from mirror.query.lexicon import Lexicon, Row
from mirror.query.lines import is_whole
from mirror.query.proposal import Asked, Proposal, all_of, any_of
from mirror.query.sql import TRUE, Fragment, exact, line_has
from mirror.query.tree import (
    All,
    Any,
    Contains,
    Field,
    Flagged,
    HeaderContains,
    Node,
    Not,
    OneOf,
    Received,
    ReceivedAt,
    Sent,
    TextContains,
)

_TELLING = 3
"""Pieces of a pattern in header lines that say enough without the name of the header."""
_COUNTED, _MOST_NEWER = 400, 4_000
"""Proposals of the header lines that are looked up at once; among how many contents these stand tells of more."""
_MOST_PHRASES = 1_000
_LEAST_GROUPED = 6
_NO_WORD = "\ue001"

_FTS_COLUMNS: dict[Field, str] = {
    "subject": "subject",
    "from": "sender",
    "to": "recipient",
    "cc": "copied",
    "bcc": "copied",
    "body": "body",
}
_PROVED: frozenset[Field] = frozenset(("body", "subject", "from", "to"))
"""Fields that have a column of the index to themselves."""
_WORTH_BARRING = 0.1


def superset(node: Node) -> Node:
    """A condition that holds wherever the node may hold for some view of the message.

    A view may drop a message, drop a field or delete spans: what contains a pattern or has a flag then, had it before,
    and a date that is dropped counts as INTERNALDATE's day. Everything else may turn out either way, and every
    negation.
    """
    match node:
        case All(nodes):
            return All(tuple(superset(each) for each in nodes))
        case Any(nodes):
            return Any(tuple(superset(each) for each in nodes))
        case Sent(relation, day, or_received):
            return Any((node, Received(relation, day))) if or_received else node
        case Contains() | HeaderContains() | TextContains() | Flagged() | Received() | ReceivedAt() | OneOf():
            return node
        case _:
            return All(())


class Planner:
    """Asks the indexes of one mirror, of about `total` contents, for one page.

    is_thorough: asks for many more words, and reads the whole word table for the patterns of one or two characters that
    no index has. That pays when a walk has shown that hits are rare.
    """

    def __init__(self, connection: sqlite3.Connection, total: int, lexicon: Lexicon) -> None:
        self._connection = connection
        self._lexicon = lexicon
        lexicon.begin()
        self._total = max(1, total)
        self.is_thorough = False

    def propose(self, node: Node | None) -> Proposal | None:
        """What the index proposes for a filter, or None when it cannot help."""
        match node:
            case All(nodes):
                return self._all(nodes)
            case Any(nodes):
                return self._any(node, nodes)
            case Contains(field, pattern):
                text = self._pattern(exact(node), field, pattern)
                return None if text is None else Proposal(text=text)
            case HeaderContains(name, pattern):
                lines = self._lines(exact(node), pattern, name)
                return None if lines is None else Proposal(lines=lines)
            case TextContains(pattern):
                return self._anywhere(pattern)
            case _:
                return None

    def lacking(self, together: Sequence[Node]) -> Lacking | None:
        """What there is of contents that lack a word which conditions that hold together do not want, where few do."""
        unwanted = [each.node for each in together if isinstance(each, Not)]
        away = [each.pattern for each in unwanted if isinstance(each, TextContains) or _is_of_body(each)]
        wanted = [each.pattern for each in together if isinstance(each, Contains) and each.field == "body"]
        return lacking(self._connection, away, wanted) if away else None

    def barred(self, together: Sequence[Node]) -> str:
        """What to ask the index for that rules many contents out, of conditions that hold together; "" for nothing.

        A word that is the whole of an unwanted pattern proves that a content has it; other words with it may too.
        """
        return " OR ".join(each.match for node in together if (each := self._whole_word(node)) is not None)

    def _whole_word(self, node: Node) -> Asked | None:
        """The word that a condition does not want and many contents have; they may also have it within other words."""
        if not isinstance(node, Not) or not isinstance(node.node, Contains):
            return None
        field, pattern = node.node.field, node.node.pattern
        folded = fold(pattern)
        if field not in _PROVED or not folded or " " in folded or folded != fold_keeping_separators(pattern):
            return None
        count = sum(count for _, count in self._lexicon.whole(field, folded))
        if LONG_WORD in folded or count <= self._total * _WORTH_BARRING:
            return None
        return Asked(f'({_FTS_COLUMNS[field]} : "{folded}")', 1, count, exact(node))

    def _all(self, nodes: Sequence[Node]) -> Proposal | None:
        wanted: list[tuple[Node, Proposal]] = []
        unwanted: list[tuple[Node, Asked]] = []
        others: list[Node] = []
        for node in nodes:
            if (proposal := self.propose(node)) is not None:
                wanted.append((node, proposal))
            elif (barred := self._proved(node)) is not None:
                unwanted.append((node, barred))
            else:
                others.append(node)
        if not wanted:
            return None
        by_text = [(node, each.text) for node, each in wanted if each.text is not None and each.lines is None]
        by_lines = [(node, each.lines) for node, each in wanted if each.lines is not None and each.text is None]
        barring = [each for _, each in unwanted]
        barring += [each for node in others if (each := self._whole_word(node)) is not None]
        # Two indexes cannot be asked for what both have: one is, and the rest is tested.
        found = [([node], proposal) for node, proposal in wanted if len(proposal.parts) == 2]
        if by_text:
            asked = all_of([each for _, each in by_text], barring, self._total)
            found.append(([node for node, _ in (*by_text, *unwanted)], Proposal(text=asked)))
        if by_lines:
            asked = all_of([each for _, each in by_lines], (), self._total)
            found.append(([node for node, _ in by_lines], Proposal(lines=asked)))
        answered, chosen = min(found, key=lambda each: each[1].hits)
        others += [node for node, _ in (*wanted, *unwanted) if node not in answered]
        rests = [exact(node) for node in others]
        return Proposal(*(None if each is None else each.also(rests) for each in (chosen.text, chosen.lines)))

    def _proved(self, node: Node) -> Asked | None:
        """What to ask the full text for that proves that a condition does not hold."""
        if not isinstance(node, Not):
            return None
        # Words that are asked for to leave contents out are worth no effort.
        was_thorough, self.is_thorough = self.is_thorough, False
        proposal = self.propose(node.node)
        self.is_thorough = was_thorough
        return proposal.text if proposal is not None and proposal.lines is None and proposal.is_proof() else None

    def _any(self, node: Node, nodes: Sequence[Node]) -> Proposal | None:
        found: list[Proposal] = []
        # Those about bodies first: they are the likeliest to make all the others useless.
        for each in sorted(nodes, key=_is_of_body, reverse=True):
            proposal = self.propose(each)
            if proposal is None:
                return None
            found.append(proposal)
        if not found:
            return None
        texts = [each.text for each in found if each.text is not None]
        lines = [each.lines for each in found if each.lines is not None]
        return Proposal(any_of(texts, exact(node), self._total), any_of(lines, exact(node), self._total))

    def _anywhere(self, pattern: str) -> Proposal | None:
        """What is proposed for a pattern that may be in a field or in a header line."""
        lines = self._lines(line_has(pattern), pattern)
        text = None if lines is None else self._pattern(exact(TextContains(pattern)), None, pattern)
        return None if text is None else Proposal(text, lines)

    def _lines(self, test: Fragment, *patterns: str) -> Asked | None:
        """What the header lines propose that have all the patterns, the most telling one first."""
        conditions: list[str] = []
        asked = 0
        for pattern in patterns:
            if asked < _TELLING and (ways := asked_of(pattern)):
                conditions.append(_any_way(ways))
                asked += len(ways[0])
        if not conditions or not is_whole(self._connection):
            return None
        match = " AND ".join(conditions)
        found = tuple(row[0] for row in self._connection.execute(_NEWEST_LINES, (match, _COUNTED)))
        if len(found) < _COUNTED:
            return Asked(match, asked, len(found), test, found)
        (newer,) = self._connection.execute(_NEWER, (found[-1], _MOST_NEWER)).fetchone()
        return Asked(match, asked, self._total * _COUNTED / max(newer, _COUNTED), test)

    def _pattern(self, test: Fragment, field: Field | None, pattern: str) -> Asked | None:
        """What the words propose for a pattern in a field, or in any."""
        folded = fold(pattern)
        pieces = folded.split()
        if not pieces:
            return None
        found = [self._words(field, *each) for each in zip(pieces, _parts(folded, len(pieces)), strict=True)]
        known = [rows for rows in found if rows is not None]
        if not known:
            return None
        column = "" if field is None else _FTS_COLUMNS[field]
        # One piece without separators around it: a word that has it, has the pattern.
        is_exact = (
            fold_keeping_separators(pattern) == pieces[0] and column != "copied" and (LONG_WORD not in _terms(known[0]))
        )
        asked = _phrases(pieces, found) or " AND ".join("(" + _one_of(_terms(rows)) + ")" for rows in known)
        return Asked(
            column + (" : (" if column else "(") + asked + ")",
            sum(len(rows) for rows in known),
            self._total * prod(min(1.0, sum(count for _, count in rows) / self._total) for rows in known),
            TRUE if is_exact else test,
        )

    def _words(self, field: Field | None, piece: str, part: Part) -> list[Row] | None:
        return self._lexicon.words(field, piece, part, thorough=self.is_thorough)


def _is_of_body(node: Node) -> TypeGuard[Contains]:
    return isinstance(node, Contains) and node.field == "body"


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


def _phrases(pieces: list[str], words: list[list[Row] | None]) -> str:
    """The phrases that the pattern may be part of, or "" when they are too many to say."""
    first, last = words[0], words[-1]
    if len(pieces) == 1 or not first or not last or len(first) * len(last) > _MOST_PHRASES:
        return ""
    begins, ends = _terms(first), _terms(last)
    if LONG_WORD in (*begins, *ends, *pieces):
        return ""
    middle = pieces[1:-1]
    return " OR ".join('"' + " ".join((begin, *middle, end)) + '"' for begin in begins for end in ends)


def _any_way(ways: list[list[str]]) -> str:
    """All the pieces of one way to ask for a pattern in header lines (`mirror.grams.asked_of`)."""
    return "(" + " OR ".join("(" + " AND ".join('"' + gram + '"' for gram in way) + ")" for way in ways) + ")"


def _terms(rows: list[Row]) -> list[str]:
    """The terms to ask for; one that no content has when there are none."""
    return [term for term, _ in rows] or [_NO_WORD]


def _one_of(terms: Sequence[str]) -> str:
    """Any of the terms: in groups where they are many, since FTS5 looks at each of them again for every content.

    It makes one group of an OR within an OR, but not of a NOT within it.
    """
    quoted = ['"' + term + '"' for term in terms]
    size = isqrt(len(quoted))
    if size < _LEAST_GROUPED:
        return " OR ".join(quoted)
    groups = (" OR ".join(quoted[start : start + size]) for start in range(0, len(quoted), size))
    return " OR ".join(f'(({group}) NOT "{_NO_WORD}")' for group in groups)


_NEWEST_LINES = "SELECT rowid FROM line WHERE line MATCH ? ORDER BY rowid DESC LIMIT ?"
_NEWER = "SELECT count(*) FROM (SELECT 1 FROM content WHERE id >= ? LIMIT ?)"
