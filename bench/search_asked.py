"""Searches timed."""

import time
from dataclasses import dataclass

from bench.search_kinds import Kind
from mirror.errors import QueryTooSlow
from mirror.query.reader import Reader
from mirror.query.tree import Query


@dataclass
class Asked:
    """What searches of one kind took, in milliseconds, and what they found."""

    taken: list[float]
    found: float = 0.0
    partial: int = 0
    slow: int = 0

    def at(self, share: float) -> float:
        """The time that this share of searches kept within."""
        ordered = sorted(self.taken)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def ask(reader: Reader, kind: Kind, asked: Asked, query: Query) -> None:
    """One search of the first page of 20, timed."""
    started = time.perf_counter()
    try:
        page = reader.page(kind.folder, query, None, 20)
        asked.found += len(page.messages)
        asked.partial += page.searched_back_to is not None
    except QueryTooSlow:
        asked.slow += 1
    asked.taken.append(1000 * (time.perf_counter() - started))
