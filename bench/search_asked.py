"""Searches timed."""

import time
from dataclasses import dataclass, field

from bench.search_kinds import Kind
from mirror.errors import QueryTooSlow
from mirror.query.reader import Reader
from mirror.query.tree import Query


@dataclass
class Asked:
    """What searches of one kind took, in milliseconds, and what they found. computed: of the processor alone."""

    taken: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)
    found: float = 0.0
    partial: int = 0
    slow: int = 0


def share_of(taken: list[float], share: float) -> float:
    """The time that this share of searches kept within."""
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def ask(reader: Reader, kind: Kind, asked: Asked, query: Query) -> None:
    """One search of the first page of 20, timed."""
    started, computing = time.perf_counter(), time.thread_time()
    try:
        page = reader.page(kind.folder, query, None, 20)
        asked.found += len(page.messages)
        asked.partial += page.searched_back_to is not None
    except QueryTooSlow:
        asked.slow += 1
    asked.taken.append(1000 * (time.perf_counter() - started))
    asked.computed.append(1000 * (time.thread_time() - computing))
