"""Headers, texts and HTML of what is known by uid only: steps 6 to 9 of the algorithm in `mirror.sync`."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from functools import partial

from config.provider import SyncRule
from mirror.batches import AHEAD, Batches
from mirror.budget import Budget
from mirror.errors import UpstreamBroken, UpstreamRefused, in_plain_words
from mirror.fetching import Fetching, Request
from mirror.mirrored import State
from mirror.parsing import Crash, Parsers
from mirror.record import EnvelopeRecord
from mirror.report import Progress, Report
from mirror.store import FolderRow, Hole, Store
from mirror.upstream import PIECE, Upstream

BATCH = 200
"""Messages fetched, parsed and stored at a time to begin with."""
BATCH_BYTES = 3 << 19
"""Some seven batches are held on their way from the line to the file, with all that is made of them."""
BATCHES_IN_TURN = 4
"""Batches of one folder before the next has its turn: opening another costs a round trip that nothing fills."""
LARGEST_BATCH = 400
BACKLOG = 1_000
"""So many texts are written without merging the index along with them."""
HEADERS_AT_ONCE = 1_000
SKIP_HEADERS_BELOW = 100
"""A folder with fewer holes than this gets its texts at once, without a headers stage."""
NEWEST_HEADERS = 200
"""Messages of a large folder whose headers are fetched as soon as it is enumerated …"""
NEWEST_TEXTS = 50
"""… and whose texts, up to BATCH_BYTES: what a first search answers from."""
FIRST_TEXTS = 500
"""So many texts of a first sync come before the rest of the headers."""
HTML_AT_ONCE = 50
CLEAN_AT_ONCE = 50
RECENT = timedelta(days=1)
"""Mail that arrived so lately is fetched although the day's limit is reached."""
_ABOVE_ALL = 2**62
_Reading = Callable[[], list[EnvelopeRecord | Crash]]
"""Waits for envelopes."""
_Read = tuple[Sequence[Hole], _Reading]
"""Messages whose headers came, and what waits for these to be parsed."""


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
        self._since = rule.starts()
        self._batch = batch
        self._fetching = Fetching(store, session)
        self._batches = Batches(
            store, parsers, report, self._fetching, largest=rule.attachments.max_size, notice=notice
        )
        self._budget = budget
        self._is_spent = False
        self._failed: set[int] = set()
        self._begun: set[int] = set()

    def fill(self, until: float) -> bool:
        """Fetch headers and texts until then (monotonic clock). Whether something is left to fetch."""
        if not self._store.lacks_texts():
            self._report.waiting = 0
            return False
        folders = self._folders()
        self._add_wanted(folders)
        if self._batches.done < FIRST_TEXTS and any(map(self.lacks_headers, folders)):
            self._add_texts(folders, until, FIRST_TEXTS - self._batches.done)
        for folder in folders:
            if not self._over(until) and self.lacks_headers(folder):
                self._guarded(folder, partial(self._add_all_headers, folder, folders, until))
        self._add_texts(folders, until)
        self._report.waiting = self._count_holes(folders) if self._is_spent else 0
        return any(self._holes(folder, State.TEXT, 1) for folder in self._folders())

    def make_html(self, until: float) -> bool:
        """Sanitized HTML of contents that still lack it, newest first, until then. Whether some still do.

        What a backlog left to do in the index is done meanwhile: the sanitizer works in other processes.
        """
        is_left = self._make_html(until)
        self._store.settle(lambda: not self._over(until))
        return is_left

    def _make_html(self, until: float) -> bool:
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
                self._store.settle_a_little()
                self._set_html(*under_way.pop(0))
            elif not waiting and (is_over or below == _ABOVE_ALL):
                return is_over and bool(self._store.normalised(1))
            elif not waiting:
                below = _ABOVE_ALL  # what was added meanwhile

    def _set_html(self, contents: Sequence[int], answer: Callable[[], list[bytes | Crash | None]]) -> None:
        forms = answer()
        if any(isinstance(form, Crash) for form in forms):
            self._batches.check_parsers()
        # A form that costs the sanitizer its process is done without: the text is there.
        self._store.set_html(
            (content, None if isinstance(form, Crash) else form) for content, form in zip(contents, forms, strict=True)
        )

    def index_lines(self, until: float) -> bool:
        """Header lines that the index of an older version lacks, until then. Whether some are left."""
        while self._store.index_lines():
            if self._over(until):
                return True
        return False

    def clean_again(self, until: float) -> bool:
        """Contents that older rules cleaned, cleaned by those of today from their source. Whether some are left."""
        while outdated := self._store.outdated(CLEAN_AT_ONCE):
            if self._over(until):
                return True
            contents = self._parsers.recleaned([source for _, source in outdated])
            if any(isinstance(content, Crash) for content in contents):
                self._batches.check_parsers()
            self._store.replace_texts(
                (content_id, None if isinstance(content, Crash) else content)
                for (content_id, _), content in zip(outdated, contents, strict=True)
            )
        return False

    def _add_all_headers(self, folder: FolderRow, folders: Sequence[FolderRow], until: float) -> bool:
        """Headers of a folder until then: asked for ahead, and parsed while those ahead of them are stored."""
        asked: deque[Request] = deque()
        parsed: deque[tuple[Request, _Read]] = deque()
        under_way: set[int] = set()
        while True:
            wanted = [] if self._over(until) else self._holes(folder, State.HEADERS, HEADERS_AT_ONCE, under_way)
            if wanted:
                self._add_wanted(folders)
                asked.append(self._fetching.ask_headers(folder, wanted))
                under_way.update(hole.content for hole in wanted)
            if asked and (not wanted or len(asked) > 1):
                request = asked.popleft()
                parsed.append((request, self._read_headers(request)))
            if parsed and (not asked or len(parsed) > 1):
                request, read = parsed.popleft()
                self._set_headers(*read)
                under_way.difference_update(hole.content for hole in request.holes)
            elif not (wanted or asked):
                return True

    def _add_headers(self, folder: FolderRow, limit: int) -> None:
        """Headers of the newest messages of a folder that lack them."""
        if holes := self._holes(folder, State.HEADERS, limit):
            self._set_headers(*self._read_headers(self._fetching.ask_headers(folder, holes)))

    def _read_headers(self, request: Request) -> _Read:
        blocks = self._fetching.headers(request)
        came = [hole for hole in request.holes if hole.uid in blocks]
        return came, self._parsers.envelopes_later([blocks[hole.uid] for hole in came])

    def _set_headers(self, came: Sequence[Hole], reading: _Reading) -> None:
        usable = []
        for hole, envelope in zip(came, reading(), strict=True):
            if isinstance(envelope, Crash):
                self._batches.check_parsers()
                # The texts' stage parses it alone, and decides.
                self._store.attempts.crashed(hole.content, envelope.reason)
                self._fetching.missed_headers.add(hole.content)
            else:
                usable.append((hole.content, envelope))
        self._store.set_envelopes(usable)

    def add_first(self, folder_id: int) -> None:
        """The newest of a large folder, before its other messages are enumerated; of a first sync FIRST_TEXTS."""
        folder = self._store.folder(folder_id)
        if folder is None:
            return
        self.add_newest(folder)
        if self._batches.done < FIRST_TEXTS:
            self._add_texts([folder], math.inf, FIRST_TEXTS - self._batches.done)

    def add_newest(self, folder: FolderRow) -> None:
        """The newest of a folder of which much is missing, before the other folders are enumerated; once."""
        if folder.id in self._begun or not self.lacks_headers(folder):
            return
        self._begun.add(folder.id)
        self._add_headers(folder, NEWEST_HEADERS)
        small = [hole for hole in self._holes(folder, State.TEXT, NEWEST_TEXTS) if hole.size <= PIECE]
        if small and (left := self._budget.left(self._batches.rate, self._batches.ahead)):
            self._batches.add_at_once(folder, _within(small, min(BATCH_BYTES, left)))

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

    def _holes(
        self, folder: FolderRow, below: State, limit: int, under_way: AbstractSet[int] = frozenset()
    ) -> list[Hole]:
        passed = self._batches.in_flight | self._fetching.missed | under_way
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
        wanted = [
            pair for pair in self._store.wanted_holes(self._batch) if pair[1].content not in self._batches.in_flight
        ]
        if not wanted:
            return
        by_id = {folder.id: folder for folder in folders}
        for folder_id, hole in wanted:
            if (folder := by_id.get(folder_id)) is not None and hole.content not in self._fetching.missed:
                self._guarded(folder, partial(self._batches.add_at_once, folder, [hole]))
        self._store.grant(hole.content for _, hole in wanted)

    def _add_texts(self, folders: Sequence[FolderRow], until: float, most: float = math.inf) -> None:
        """Texts of these folders until then; about so many at most."""
        batches, total = self._batches, self._count_holes(folders)
        batches.begin(total)
        if total >= BACKLOG:
            self._store.begin_backlog()
        try:
            for folder, holes in self._in_turn(folders, until):
                batches.in_flight.update(hole.content for hole in holes)
                if self._guarded(folder, partial(batches.ask, folder, holes)):
                    self._batch = min(2 * self._batch, LARGEST_BATCH)
                most -= len(holes)
                if batches.waiting > 1:
                    self._guarded(batches.folder, batches.take)
                if most <= 0:
                    break
            while batches.waiting:
                self._guarded(batches.folder, batches.take)
        finally:
            batches.end()

    def _in_turn(self, folders: Sequence[FolderRow], until: float) -> Iterator[tuple[FolderRow, list[Hole]]]:
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
        left = self._budget.left(self._batches.rate, self._batches.ahead)
        if self._is_spent != (left == 0):
            self._is_spent = left == 0
            holes = self._holes(folder, State.TEXT, self._batch)
        return _within(holes, min(BATCH_BYTES, left or BATCH_BYTES))

    def _count_holes(self, folders: Sequence[FolderRow]) -> int:
        return sum(self._store.count_holes(folder.id, since=self._since) for folder in folders)


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
