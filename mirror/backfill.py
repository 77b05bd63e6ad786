"""Headers, texts and HTML of what is known by uid only: steps 6 to 9 of the algorithm in `mirror.sync`."""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from config.identity import SyncRule
from mirror.blobs import Written
from mirror.budget import Budget
from mirror.errors import ParserBroken, UpstreamBroken, UpstreamRefused, in_plain_words
from mirror.fetching import Fetching, Request
from mirror.mirrored import State
from mirror.parsing import Crash, Parsers
from mirror.record import Record
from mirror.report import Progress, Report
from mirror.store import FolderRow, Hole, Store
from mirror.upstream import Upstream

BATCH = 200
"""Messages fetched, parsed and stored at a time to begin with."""
BATCH_BYTES = 3 << 20
BATCHES_IN_TURN = 4
"""Batches of one folder before the next has its turn: opening another costs a round trip that nothing fills."""
LARGEST_BATCH = 400
BACKLOG = 1_000
"""So many texts are written without merging the index along with them."""
AHEAD = 2
"""Batches that wait for the parsers or are with them while another is fetched."""
HEADERS_AT_ONCE = 1_000
SKIP_HEADERS_BELOW = 100
"""A folder with fewer holes than this gets its texts at once, without a headers stage."""
HTML_AT_ONCE = 50
CLEAN_AT_ONCE = 50
RECENT = timedelta(days=1)
"""Mail that arrived so lately is fetched although the day's limit is reached."""
_ABOVE_ALL = 2**62
FEW = 10
"""Messages parsed at a time after a batch of many was interrupted; one at a time when these are too."""


@dataclass(frozen=True, slots=True)
class _Fetched:
    folder: FolderRow
    ordinary: list[tuple[Hole, bytes]]
    suspects: list[tuple[Hole, bytes, int | None]]
    """With the crashes each has cost so far; None: a batch of many was interrupted, it may be parsed among few."""


_Parsing = Callable[[], list[Record | Crash]]
"""Waits for the records of a batch."""


class Backfill:
    """Fetches what is missing, newest first, into one mirror.

    session: the pass's connection. hurry: asked between batches, whether to stop for another look.
    """

    def __init__(
        self,
        store: Store,
        parsers: Parsers,
        report: Report,
        session: Callable[[], Upstream],
        budget: Budget,
        *,
        rule: SyncRule,
        hurry: Callable[[], bool],
        notice: Callable[[Progress], None],
        batch: int = BATCH,
    ) -> None:
        self._store = store
        self._parsers = parsers
        self._report = report
        self._hurry = hurry
        self._rule = rule
        self._since = rule.starts()
        self._notice = notice
        self._batch = batch
        self._fetching = Fetching(store, session)
        self._budget = budget
        self._asked: deque[Request] = deque()
        self._is_spent = False
        self._octets = 0
        self._seconds = 0.0
        self._filling_since = 0.0
        self._began = time.monotonic()
        self._done = 0
        self._total = 0
        self._in_flight: set[int] = set()
        self._disk: ThreadPoolExecutor | None = None
        self._written: list[Future[list[Written]]] = []
        self._failed: set[int] = set()

    def fill(self, until: float) -> bool:
        """Fetch headers and texts until then (monotonic clock). Whether something is left to fetch."""
        folders = self._folders()
        self._add_wanted(folders)
        for folder in folders:
            while not self._over(until) and self.lacks_headers(folder):
                if not self._guarded(folder, lambda folder=folder: self.add_headers(folder)):  # type: ignore[misc]
                    break
                self._add_wanted(folders)
        self._add_texts(folders, until)
        self._store.settle(lambda: not self._over(until))
        self._report.waiting = self._count_holes(folders) if self._is_spent else 0
        return any(self._holes(folder, State.TEXT, 1) for folder in self._folders())

    def make_html(self, until: float) -> bool:
        """Sanitized HTML of contents that still lack it, newest first, until then. Whether some still do."""
        under_way: list[tuple[list[int], Callable[[], list[bytes | Crash | None]]]] = []
        below = _ABOVE_ALL
        while True:
            is_over = self._over(until)
            waiting = [] if is_over else self._store.normalised(HTML_AT_ONCE, below=below)
            if waiting:
                self._add_wanted(self._folders())
                below = waiting[-1][0]
                forms = self._parsers.html_later([form for _, form in waiting])
                under_way.append(([content for content, _ in waiting], forms))
            if under_way and (not waiting or len(under_way) > AHEAD):
                self._set_html(*under_way.pop(0))
            elif not waiting and (is_over or below == _ABOVE_ALL):
                return is_over and bool(self._store.normalised(1))
            elif not waiting:
                below = _ABOVE_ALL  # what was added meanwhile

    def _set_html(self, contents: Sequence[int], answer: Callable[[], list[bytes | Crash | None]]) -> None:
        forms = answer()
        if any(isinstance(form, Crash) for form in forms):
            self._check_parsers()
        # A form that costs the sanitizer its process is done without: the text is there.
        self._store.set_html(
            (content, None if isinstance(form, Crash) else form) for content, form in zip(contents, forms, strict=True)
        )

    def clean_again(self, until: float) -> bool:
        """Contents that older rules cleaned, cleaned by those of today from their source. Whether some are left."""
        while outdated := self._store.outdated(CLEAN_AT_ONCE):
            if self._over(until):
                return True
            contents = self._parsers.recleaned([source for _, source in outdated])
            if any(isinstance(content, Crash) for content in contents):
                self._check_parsers()
            self._store.replace_texts(
                (content_id, None if isinstance(content, Crash) else content)
                for (content_id, _), content in zip(outdated, contents, strict=True)
            )
        return False

    def add_headers(self, folder: FolderRow, limit: int = HEADERS_AT_ONCE) -> bool:
        """Headers of the newest messages of a folder that lack them. Whether there were such messages."""
        holes = self._holes(folder, State.HEADERS, limit)
        if not holes:
            return False
        blocks = self._fetching.headers(folder, holes)
        came = [hole for hole in holes if hole.uid in blocks]
        envelopes = self._parsers.envelopes([blocks[hole.uid] for hole in came])
        usable = []
        for hole, envelope in zip(came, envelopes, strict=True):
            if isinstance(envelope, Crash):
                self._check_parsers()
                # The texts' stage parses it alone, and decides.
                self._store.attempts.crashed(hole.content, envelope.reason)
                self._fetching.missed_headers.add(hole.content)
            else:
                usable.append((hole.content, envelope))
        self._store.set_envelopes(usable)
        return True

    def _folders(self) -> list[FolderRow]:
        return [
            folder
            for folder in self._store.folders()
            if folder.wanted and folder.selectable and folder.id not in self._failed
        ]

    def _guarded(self, folder: FolderRow, work: Callable[[], bool]) -> bool:
        """What work returns; False, and no more of this folder in this pass, when the server refuses it."""
        try:
            return work()
        except (UpstreamRefused, UpstreamBroken) as exc:
            self._failed.add(folder.id)
            self._report.folders[folder.id].error = in_plain_words(exc)
            self._store.set_folder_error(folder.id, in_plain_words(exc))
            return False

    def _over(self, until: float) -> bool:
        return self._hurry() or time.monotonic() >= until

    def lacks_headers(self, folder: FolderRow) -> bool:
        """Whether so much of a folder is missing that its headers are worth a stage of their own."""
        holes = self._store.holes(folder.id, State.TEXT, SKIP_HEADERS_BELOW, since=self._since)
        return len(holes) == SKIP_HEADERS_BELOW

    def _holes(self, folder: FolderRow, below: State, limit: int) -> list[Hole]:
        passed = self._in_flight | self._fetching.missed
        if below == State.HEADERS:
            passed |= self._fetching.missed_headers
        since = self._since
        if self._is_spent and below == State.TEXT:
            recent = datetime.now(UTC) - RECENT
            since = recent if since is None else max(since, recent)
        holes = self._store.holes(folder.id, below, limit + len(passed), since=since)
        return [hole for hole in holes if hole.content not in passed][:limit]

    def _add_wanted(self, folders: Sequence[FolderRow]) -> None:
        """What readers wait for comes before everything else."""
        wanted = [pair for pair in self._store.wanted_holes(self._batch) if pair[1].content not in self._in_flight]
        if not wanted:
            return
        by_id = {folder.id: folder for folder in folders}
        for folder_id, hole in wanted:
            if (folder := by_id.get(folder_id)) is not None and hole.content not in self._fetching.missed:
                self._guarded(folder, lambda folder=folder, hole=hole: self._add_at_once(folder, [hole]))  # type: ignore[misc]
        self._store.grant(hole.content for _, hole in wanted)

    def _add_at_once(self, folder: FolderRow, holes: list[Hole]) -> bool:
        fetched = self._fetched(self._fetching.ask(folder, holes))
        self._keep(fetched, self._parsers.contents_later([raw for _, raw in fetched.ordinary]))
        return True

    def _add_texts(self, folders: Sequence[FolderRow], until: float) -> None:
        self._total = self._done + self._count_holes(folders)
        self._filling_since = time.monotonic()
        under_way: deque[tuple[_Fetched, _Parsing]] = deque()

        def ask(folder: FolderRow, holes: list[Hole]) -> bool:
            self._asked.append(self._fetching.ask(folder, holes))
            self._batch = min(2 * self._batch, LARGEST_BATCH)
            return True

        def take() -> bool:
            fetched = self._fetched(self._asked.popleft())
            under_way.append((fetched, self._parsers.contents_later([raw for _, raw in fetched.ordinary])))
            if len(under_way) > AHEAD:
                self._keep(*under_way.popleft())
            return True

        self._disk = ThreadPoolExecutor(1, thread_name_prefix="blobs")
        if self._total - self._done >= BACKLOG:
            self._store.begin_backlog()
        try:
            for folder, holes in self._batches(folders, until):
                self._in_flight.update(hole.content for hole in holes)
                self._guarded(folder, lambda folder=folder, holes=holes: ask(folder, holes))  # type: ignore[misc]
                if len(self._asked) > 1:
                    self._guarded(self._asked[0].folder, take)
            while self._asked:
                self._guarded(self._asked[0].folder, take)
        finally:
            try:
                while under_way:
                    self._keep(*under_way.popleft())
                self._name_attachments(wait=True)
            finally:
                self._asked.clear()
                self._in_flight.clear()
                self._written.clear()
                self._disk.shutdown()
                self._disk = None
                self._seconds += time.monotonic() - self._filling_since

    def _batches(self, folders: Sequence[FolderRow], until: float) -> Iterator[tuple[FolderRow, list[Hole]]]:
        """A few batches of each folder in turn."""
        remaining = list(folders)
        while remaining:
            for folder in list(remaining):
                for _ in range(BATCHES_IN_TURN):
                    if self._over(until):
                        return
                    self._add_wanted(folders)
                    holes = self._next_texts(folder)
                    if not holes or folder.id in self._failed:
                        remaining.remove(folder)
                        break
                    yield folder, holes

    def _next_texts(self, folder: FolderRow) -> list[Hole]:
        holes = self._holes(folder, State.TEXT, self._batch)
        if not holes:
            return []
        left = self._budget.left(self._rate(), self._ahead())
        if self._is_spent != (left == 0):
            self._is_spent = left == 0
            holes = self._holes(folder, State.TEXT, self._batch)
        return _within(holes, min(BATCH_BYTES, left or BATCH_BYTES))

    def _ahead(self) -> int:
        """Octets asked for and not read yet."""
        return sum(hole.size for request in self._asked for hole in request.holes)

    def _count_holes(self, folders: Sequence[FolderRow]) -> int:
        return sum(self._store.count_holes(folder.id, since=self._since) for folder in folders)

    def _rate(self) -> float:
        """Octets of texts fetched, parsed and stored a second; 0 while too few were to tell."""
        seconds = time.monotonic() - self._filling_since + self._seconds
        return self._octets / seconds if self._octets and seconds > 1 else 0.0

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
            self._add_contents(group, self._parsers.contents([raw for _, raw in group]))
        for hole, raw, crashes in fetched.suspects:
            if crashes is not None:
                self._store.attempts.begin([hole.content], alone=True)
                content = self._parsers.degraded(raw) if crashes else self._parsers.contents([raw])[0]
                self._add_contents([(hole, raw)], [content])
        self._report.searchable_s = time.monotonic() - self._began
        kept = [hole.content for hole, _ in fetched.ordinary] + [hole.content for hole, *_ in fetched.suspects]
        self._in_flight.difference_update(kept)
        self._done += len(kept)
        self._notice(Progress(fetched.folder.name, self._done, max(self._total, self._done)))

    def _add_contents(self, fetched: Sequence[tuple[Hole, bytes]], parsed: Sequence[Record | Crash]) -> None:
        usable = [
            (hole, raw, kept)
            for (hole, raw), record in zip(fetched, parsed, strict=True)
            if (kept := self._after_crash(hole, raw, record)) is not None
        ]
        self._store.set_texts((hole.content, hashlib.sha256(raw).digest(), record) for hole, raw, record in usable)
        self._keep_attachments(usable)

    def _keep_attachments(self, contents: Sequence[tuple[Hole, bytes, Record]]) -> None:
        """Keep the small attachments of these contents offline, beside what comes next: the text is there already."""
        self._name_attachments()
        largest = self._rule.attachments.max_size
        with_some = [
            (hole.content, raw)
            for hole, raw, record in contents
            if record.smallest is not None and record.smallest <= largest
        ]
        if not largest or not with_some:
            return
        ids = [content_id for content_id, _ in with_some]
        parsed = self._parsers.attachments_later([raw for _, raw in with_some], largest)

        def write() -> list[Written]:
            answers = zip(ids, parsed(), strict=True)
            return self._store.blobs.write([(each, parts) for each, parts in answers if not isinstance(parts, Crash)])

        if self._disk is None:
            self._store.blobs.name(write())
        else:
            self._written.append(self._disk.submit(write))

    def _name_attachments(self, *, wait: bool = False) -> None:
        """The rows of attachments that are on the disk. wait: for all that are on their way there."""
        while self._written and (wait or self._written[0].done() or len(self._written) > AHEAD):
            self._store.blobs.name(self._written.pop(0).result())

    def _after_crash(self, hole: Hole, raw: bytes, record: Record | Crash) -> Record | None:
        if isinstance(record, Crash):
            self._check_parsers()
            if self._store.attempts.crashed(hole.content, record.reason) == 1:
                record = self._parsers.degraded(raw)
        if isinstance(record, Crash):
            self._store.attempts.quarantine(hole.content, record.reason)
            return None
        return record

    def _check_parsers(self) -> None:
        """Before a crash is held against a mail: a fault of our own must not put a mailbox off for days."""
        if not self._parsers.are_healthy():
            raise ParserBroken("the parsing processes fail on a plain mail too")


def _within(holes: Sequence[Hole], limit: int) -> list[Hole]:
    """The first of these holes, at least one, up to so many octets."""
    chosen: list[Hole] = []
    octets = 0
    for hole in holes:
        octets += hole.size
        if chosen and octets > limit:
            break
        chosen.append(hole)
    return chosen
