"""Contents that the index proposes for a condition, and how proposals are joined."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirror.query.sql import TRUE, Fragment, joined


@dataclass(frozen=True, slots=True)
class Asked:
    """What one index is asked: an FTS5 expression of so many words.

    hits: about how many contents it finds. rest: what is still to be tested of each. contents: what it finds, newest
    first, where that is known already.
    """

    match: str
    words: int
    hits: float
    rest: Fragment
    contents: tuple[int, ...] | None = None

    def also(self, rests: Sequence[Fragment]) -> "Asked":
        """The same, with more to be tested."""
        return replace(self, rest=joined("AND", [self.rest, *rests]))


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the full text and the header lines are asked, one at least: all that match are in what either has."""

    text: Asked | None = None
    lines: Asked | None = None

    @property
    def parts(self) -> list[Asked]:
        """What is asked of either."""
        return [each for each in (self.text, self.lines) if each is not None]

    @property
    def hits(self) -> float:
        """About how many contents are proposed."""
        return sum(each.hits for each in self.parts)

    def is_proof(self) -> bool:
        """Whether everything proposed matches."""
        return all(each.rest == TRUE for each in self.parts)


def all_of(wanted: Sequence[Asked], unwanted: Sequence[Asked], total: int) -> Asked:
    """What one index is asked for contents that all of these find, and none of the others. total: of all contents."""
    if len(wanted) == 1 and not unwanted:
        return wanted[0]
    hits = float(total)
    for each in wanted:
        hits *= min(1.0, each.hits / total)
    match = _joined(") AND (", wanted)
    return Asked(
        match if not unwanted else "(" + match + ") NOT (" + _joined(") OR (", unwanted) + ")",
        sum(each.words for each in (*wanted, *unwanted)),
        hits,
        joined("AND", [each.rest for each in wanted]),
    )


def any_of(found: Sequence[Asked], whole: Fragment, total: int) -> Asked | None:
    """What one index is asked for contents that any of these finds. whole: the test where one is needed."""
    if len(found) < 2:
        return found[0] if found else None
    return Asked(
        _joined(") OR (", found),
        sum(each.words for each in found),
        min(float(total), sum(each.hits for each in found)),
        TRUE if all(each.rest == TRUE for each in found) else whole,
    )


def _joined(operator: str, asked: Sequence[Asked]) -> str:
    # The longest first: the parser of FTS5 keeps what stands before a parenthesis until that is closed.
    matches = sorted((each.match for each in asked), key=len, reverse=True)
    return matches[0] if len(matches) == 1 else "(" + operator.join(matches) + ")"
