"""What each way through a mirror is expected to cost, in seconds: only to choose between them."""

from dataclasses import dataclass

from mirror.query.lacking import Lacking
from mirror.query.proposal import Proposal
from mirror.query.sql import reads_text

SEEK = 4e-6
"""To look a word up in the index."""
MERGE = 1e-6
"""For each content that is among those of several words."""
PROBE = 2e-6
"""To see whether a folder has a content."""
TEST = 5e-6
"""To test a text, at the least."""
STEP = 2e-6
"""To test the next text of a long walk."""
ANYWHERE = 2.5
"""How many times more that is where a pattern may be in the envelope and in the header lines too."""
TIES = 10
"""How many times more an index of a sort key is walked for what has that key in common, when there are more keys."""
WORTH_ASKING, WORTH_ASKING_EACH = 4e-3, 2.5e-8
"""Seconds of walking, and more for each content of the mirror, after which asking the index at length is worth it."""


NAMED = 2.5e-7
"""To look at one of the contents that lack a word."""
LIKELY = 0.2
"""How many of them may have the letters that are wanted beside."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The folder that is searched, and about how many messages it and the mirror have."""

    folder: int
    messages: int
    total: int

    @property
    def share(self) -> float:
        """How much of the mirror the folder has."""
        return max(1, self.messages) / max(1, self.total)


def index(scope: Scope, proposal: Proposal, limit: float, test: float) -> float:
    """To find so many messages of a folder by the index, if what is proposed matches. test: of one text."""
    most = limit / scope.share + 1
    return sum(
        each.words * SEEK + min(each.hits, most) * (test if reads_text(each.rest) else PROBE) for each in proposal.parts
    )


def stretch(scope: Scope, proposal: Proposal, messages: float) -> float:
    """To test what the index proposes of the next so many messages of a folder."""
    part = min(1.0, messages / max(1, scope.messages))
    return sum(
        each.words * SEEK + each.hits * part * (MERGE + scope.share * (PROBE + reads_text(each.rest) * TEST))
        for each in proposal.parts
    )


def lacking(scope: Scope, named: Lacking) -> float:
    """To test all contents that lack a word, of those that may have what is wanted beside."""
    return scope.total * named.share * (NAMED + (LIKELY if named.pairs else 1.0) * scope.share * TEST)


def is_sooner(scope: Scope, named: Lacking, proposal: Proposal | None, limit: int, test: float) -> bool:
    """Whether the contents that lack a word are tested sooner than what the index proposes, or a walk finds enough."""
    return proposal is None or lacking(scope, named) < index(scope, proposal, limit, test)


def key(scope: Scope, hits: float, limit: int, sorters: int) -> float:
    """To walk an index of the first of so many sort keys until so many are found of these hits.

    All that have the first key in common are found and sorted by the others: often they are many.
    """
    ties = 1 if sorters == 1 else TIES
    return ties * limit * max(1, scope.total) / max(1.0, hits) / scope.share * (PROBE + TEST)


def walk_first(scope: Scope, proposal: Proposal, messages: int, limit: int, test: float) -> int:
    """How many messages to walk before the index is asked: 0 where the index is cheaper from the start."""
    expected = min(messages, int(limit * scope.total / max(1.0, proposal.hits)) + 1)
    return 0 if expected * test > index(scope, proposal, limit, test) else 4 * expected + 100


def is_no_help(scope: Scope, proposal: Proposal, messages: int) -> bool:
    """Whether a walk of all these messages costs less than to test the texts that the index proposes of them."""
    if not any(reads_text(each.rest) for each in proposal.parts):
        return False
    return messages * STEP * (ANYWHERE if len(proposal.parts) > 1 else 1) < stretch(scope, proposal, messages)


def is_worth_asking(scope: Scope, missing: float) -> bool:
    """Whether to walk so many messages costs more than to ask the index at length."""
    return missing * STEP > WORTH_ASKING + scope.total * WORTH_ASKING_EACH
