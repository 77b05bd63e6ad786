"""The way of a batch: asked for, fetched, parsed, stored, so that one is on the line while another is parsed.

The parse attempt is recorded before it starts: what a batch does to the parsers, or to this process, is known the next
time (step 7 of the algorithm in `mirror.sync`).
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirror.errors import ParserBroken
from mirror.fetching import Fetching, Request
from mirror.offline import Offline
from mirror.parsing import Crash, Parsers
from mirror.record import Record
from mirror.report import Progress, Report
from mirror.spool import Raw, digest_of
from mirror.store import FolderRow, Hole, Store

AHEAD = 2
"""Batches that wait for the parsers or are with them while another is fetched."""
FEW = 10
"""Messages parsed at a time after a batch of many was interrupted; one at a time when these are too."""


@dataclass(frozen=True, slots=True)
class _Fetched:
    folder: FolderRow
    ordinary: list[tuple[Hole, Raw]]
    suspects: list[tuple[Hole, Raw, int | None]]
    """With the crashes each has cost so far; None: a batch of many was interrupted, it may be parsed among few."""


_Parsing = Callable[[], list[Record | Crash]]
"""Waits for the records of a batch."""


class Batches:
    """Batches of one pass under way. in_flight: contents that are.

    largest: octets of an attachment that is kept offline. total: messages to come, for the progress.
    """

    def __init__(
        self,
        store: Store,
        parsers: Parsers,
        report: Report,
        fetching: Fetching,
        *,
        largest: int,
        notice: Callable[[Progress], None],
    ) -> None:
        self._store = store
        self._parsers = parsers
        self._report = report
        self._fetching = fetching
        self._notice = notice
        self._offline = Offline(store)
        self._largest = largest
        self._asked: deque[Request] = deque()
        self._parsed: deque[tuple[_Fetched, _Parsing]] = deque()
        self._octets = 0
        self._seconds = 0.0
        self._filling_since: float | None = None
        self._began = time.monotonic()
        self._total = 0
        self.done = 0
        self.in_flight: set[int] = set()

    def begin(self, total: int) -> None:
        """Batches follow, of so many messages, until `end`."""
        self._total = self.done + total
        self._filling_since = time.monotonic()
        self._offline.begin()

    def end(self) -> None:
        """Store what has come; what was only asked for is given up."""
        try:
            while self._parsed:
                self._keep(*self._parsed.popleft())
        finally:
            try:
                self._offline.end()
            finally:
                self._asked.clear()
                self._parsed.clear()
                self.in_flight.clear()
                self._seconds, self._filling_since = self._filled_seconds(), None

    def ask(self, folder: FolderRow, holes: list[Hole]) -> bool:
        """Ask for a batch."""
        self._asked.append(self._fetching.ask(folder, holes))
        return True

    @property
    def waiting(self) -> int:
        """How many batches were asked for and not taken yet."""
        return len(self._asked)

    @property
    def folder(self) -> FolderRow:
        """Whose batch is taken next."""
        return self._asked[0].folder

    def take(self) -> bool:
        """Read the batch that was asked for first and have it parsed; store one that has been parsed."""
        fetched = self._fetched(self._asked.popleft())
        self._parsed.append((fetched, self._parsing(fetched)))
        if len(self._parsed) > AHEAD:
            self._keep(*self._parsed.popleft())
        return True

    def _parsing(self, fetched: _Fetched) -> _Parsing:
        return self._parsers.contents_later([raw for _, raw in fetched.ordinary], self._largest)

    def add_at_once(self, folder: FolderRow, holes: list[Hole]) -> bool:
        """Fetch, parse and store these, ahead of all others."""
        began = None if self._filling_since is not None else time.monotonic()
        fetched = self._fetched(self._fetching.ask(folder, holes))
        self._keep(fetched, self._parsing(fetched))
        self._seconds += 0.0 if began is None else time.monotonic() - began
        return True

    @property
    def ahead(self) -> int:
        """Octets asked for and not read yet."""
        return sum(hole.size for request in self._asked for hole in request.holes)

    @property
    def rate(self) -> float:
        """Octets of texts fetched, parsed and stored a second; 0 while too few were to tell."""
        seconds = self._filled_seconds()
        return self._octets / seconds if self._octets and seconds > 1 else 0.0

    def _filled_seconds(self) -> float:
        """For how long texts were fetched, batch by batch or at once."""
        return self._seconds + (0.0 if self._filling_since is None else time.monotonic() - self._filling_since)

    def check_parsers(self) -> None:
        """Before a crash is held against a mail: a fault of our own must not put a mailbox off for days."""
        if not self._parsers.are_healthy():
            raise ParserBroken("the parsing processes fail on a plain mail too")

    def _fetched(self, request: Request) -> _Fetched:
        """What came of a request, its parse recorded as begun."""
        folder, holes = request.folder, request.holes
        raws = self._fetching.messages(request)
        came = [(hole, raws[hole.uid]) for hole in holes if hole.uid in raws]
        suspects = self._store.attempts.suspects([hole.content for hole, _ in came])
        ordinary = [pair for pair in came if pair[0].content not in suspects]
        self._store.attempts.begin(hole.content for hole, _ in ordinary)
        octets = sum(len(raw) for _, raw in came)
        self._octets += octets
        self._report.folders[folder.id].bytes += octets
        alone = [(hole, raw, suspects[hole.content]) for hole, raw in came if hole.content in suspects]
        return _Fetched(folder, ordinary, alone)

    def _keep(self, fetched: _Fetched, parsed: _Parsing) -> None:
        """Store what the parsers made of a batch, and parse its suspects one by one."""
        self._add_contents(fetched.ordinary, parsed())
        few = [(hole, raw) for hole, raw, crashes in fetched.suspects if crashes is None]
        for start in range(0, len(few), FEW):
            group = few[start : start + FEW]
            self._store.attempts.begin((hole.content for hole, _ in group), few=True)
            self._add_contents(group, self._parsers.contents([raw for _, raw in group], self._largest))
        for hole, raw, crashes in fetched.suspects:
            if crashes is not None:
                self._store.attempts.begin([hole.content], alone=True)
                content = self._parsers.degraded(raw) if crashes else self._parsers.contents([raw], self._largest)[0]
                self._add_contents([(hole, raw)], [content])
        self._report.searchable_s = time.monotonic() - self._began
        kept = [hole.content for hole, _ in fetched.ordinary] + [hole.content for hole, *_ in fetched.suspects]
        self.in_flight.difference_update(kept)
        self.done += len(kept)
        self._notice(Progress(fetched.folder.name, self.done, max(self._total, self.done)))

    def _add_contents(self, fetched: Sequence[tuple[Hole, Raw]], parsed: Sequence[Record | Crash]) -> None:
        usable = [
            (hole.content, digest_of(raw), readable)
            for (hole, raw), record in zip(fetched, parsed, strict=True)
            if (readable := self._after_crash(hole, raw, record)) is not None
        ]
        self._store.set_texts(usable)
        self._offline.keep([(content_id, record) for content_id, _, record in usable])

    def _after_crash(self, hole: Hole, raw: Raw, record: Record | Crash) -> Record | None:
        if isinstance(record, Crash):
            self.check_parsers()
            if self._store.attempts.crashed(hole.content, record.reason) == 1:
                record = self._parsers.degraded(raw)
        if isinstance(record, Crash):
            self._store.attempts.quarantine(hole.content, record.reason)
            return None
        return record
