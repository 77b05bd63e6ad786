"""Headers, texts and HTML of what is known by uid only: steps 6 to 9 of the algorithm in `mirror.sync`."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from config.identity import SyncRule
from mirror.content import Content
from mirror.errors import UpstreamBroken, UpstreamRefused, UpstreamUnavailable
from mirror.mirrored import State
from mirror.parsing import Crash, Parsers
from mirror.report import Progress, Report
from mirror.store import FolderRow, Hole, Store
from mirror.upstream import PIECE, Upstream

BATCH = 200
"""Messages fetched, parsed and stored at a time."""
BATCH_BYTES = 4 << 20
SKIP_HEADERS_BELOW = 100
"""A folder with fewer holes than this gets its texts at once, without a headers stage."""
HTML_AT_ONCE = 100
CLEAN_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class _Fetched:
    folder: FolderRow
    ordinary: list[tuple[Hole, bytes]]
    suspects: list[tuple[Hole, bytes, int]]
    """With the crashes each has cost so far."""


class Backfill:
    """Fetches what is missing, newest first, into one mirror."""

    def __init__(
        self,
        store: Store,
        parsers: Parsers,
        report: Report,
        *,
        rule: SyncRule,
        stop: Callable[[], bool],
        notice: Callable[[Progress], None],
        batch: int = BATCH,
    ) -> None:
        self._store = store
        self._parsers = parsers
        self._report = report
        self._rule = rule
        self._since = rule.starts()
        self._stop = stop
        self._notice = notice
        self._batch = batch
        self._began = time.monotonic()
        self._done = 0
        self._total = 0
        self._in_flight: set[int] = set()

    def fill(self, upstream: Upstream, until: float) -> bool:
        """Fetch headers and texts until then (monotonic clock). Whether something is left to fetch."""
        folders = [folder for folder in self._store.folders() if folder.wanted and folder.selectable]
        for folder in folders:
            while (
                not self._over(until) and len(self._holes(folder, State.TEXT, SKIP_HEADERS_BELOW)) == SKIP_HEADERS_BELOW
            ):
                if not self._add_headers(upstream, folder):
                    break
        self._add_texts(upstream, folders, until)
        return any(self._holes(folder, State.TEXT, 1) for folder in folders)

    def make_html(self) -> None:
        """Sanitized HTML of every content that still lacks it, newest first."""
        while not self._stop() and (waiting := self._store.normalised(HTML_AT_ONCE)):
            forms = self._parsers.html([form for _, form in waiting])
            # A form that costs the sanitizer its process is done without: the text is there.
            self._store.set_html(
                (content, "" if isinstance(form, Crash) else form)
                for (content, _), form in zip(waiting, forms, strict=True)
            )

    def clean_again(self) -> None:
        """Contents that older rules cleaned, cleaned by those of today from their stored source, newest first."""
        while not self._stop() and (outdated := self._store.outdated(CLEAN_AT_ONCE)):
            contents = self._parsers.recleaned([source for _, source in outdated])
            self._store.replace_texts(
                (content_id, None if isinstance(content, Crash) else content)
                for (content_id, _), content in zip(outdated, contents, strict=True)
            )

    def _over(self, until: float) -> bool:
        return self._stop() or time.monotonic() >= until

    def _holes(self, folder: FolderRow, below: State, limit: int) -> list[Hole]:
        holes = self._store.holes(folder.id, below, limit + len(self._in_flight), since=self._since)
        return [hole for hole in holes if hole.content not in self._in_flight][:limit]

    def _add_headers(self, upstream: Upstream, folder: FolderRow) -> bool:
        holes = self._holes(folder, State.HEADERS, 5 * BATCH)
        if not holes:
            return False
        _open(upstream, folder)
        blocks = upstream.headers([hole.uid for hole in holes])
        came = [hole for hole in holes if hole.uid in blocks]
        for hole in holes:
            if hole.uid not in blocks:
                self._store.attempts.put_off(hole.content, "the server did not send its headers")
        envelopes = self._parsers.envelopes([blocks[hole.uid] for hole in came])
        usable = []
        for hole, envelope in zip(came, envelopes, strict=True):
            if isinstance(envelope, Crash):
                self._store.attempts.quarantine(hole.content, envelope.reason)
            else:
                usable.append((hole.content, envelope))
        self._store.set_envelopes(usable)
        return True

    def _add_texts(self, upstream: Upstream, folders: Sequence[FolderRow], until: float) -> None:
        self._total = self._done + sum(self._store.count_holes(folder.id, since=self._since) for folder in folders)
        under_way: tuple[_Fetched, Future[list[Content | Crash]]] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="parse") as beside:
            try:
                for folder, holes in self._batches(folders, until):
                    self._in_flight.update(hole.content for hole in holes)
                    fetched = self._fetch(upstream, folder, holes)
                    if under_way is not None:
                        self._keep(*under_way)
                    under_way = fetched, beside.submit(self._parsers.contents, [raw for _, raw in fetched.ordinary])
            finally:
                if under_way is not None:
                    self._keep(*under_way)
                self._in_flight.clear()

    def _batches(self, folders: Sequence[FolderRow], until: float) -> Iterator[tuple[FolderRow, list[Hole]]]:
        by_id = {folder.id: folder for folder in folders}
        remaining = list(folders)
        while remaining and not self._over(until):
            for folder in list(remaining):
                for folder_id, hole in self._store.wanted_holes(self._batch):
                    if folder_id in by_id and hole.content not in self._in_flight:
                        yield by_id[folder_id], [hole]
                holes = _within(self._holes(folder, State.TEXT, self._batch), BATCH_BYTES)
                if not holes:
                    remaining.remove(folder)
                elif self._over(until):
                    return
                else:
                    yield folder, holes

    def _fetch(self, upstream: Upstream, folder: FolderRow, holes: list[Hole]) -> _Fetched:
        _open(upstream, folder)
        raws = self._small(upstream, [hole for hole in holes if hole.size <= PIECE])
        for hole in holes:
            if hole.size > PIECE and (raw := _large(upstream, hole)) is not None:
                raws[hole.uid] = raw
        came = []
        for hole in holes:
            if raws.get(hole.uid):
                came.append((hole, raws[hole.uid]))
            else:
                self._store.attempts.put_off(hole.content, "the server did not send it")
        suspects = self._store.attempts.suspects([hole.content for hole, _ in came])
        ordinary = [pair for pair in came if pair[0].content not in suspects]
        self._store.attempts.begin(hole.content for hole, _ in ordinary)
        self._report.folders[folder.id].bytes += sum(len(raw) for _, raw in came)
        return _Fetched(folder, ordinary, [(*pair, suspects[pair[0].content]) for pair in came if pair not in ordinary])

    def _small(self, upstream: Upstream, holes: Sequence[Hole]) -> dict[int, bytes]:
        """The messages of these holes by uid; a batch that the server refuses is asked for in halves."""
        if not holes:
            return {}
        try:
            return upstream.messages([hole.uid for hole in holes])
        except UpstreamRefused:
            if len(holes) == 1:
                return {}
            middle = len(holes) // 2
            return self._small(upstream, holes[:middle]) | self._small(upstream, holes[middle:])
        except UpstreamUnavailable:
            if len(holes) == 1:
                self._store.attempts.put_off(holes[0].content, "the connection was lost while it was fetched")
            raise

    def _keep(self, fetched: _Fetched, parsed: Future[list[Content | Crash]]) -> None:
        """Store what the parsers made of a batch, and parse its suspects one by one."""
        contents = []
        for (hole, raw), content in zip(fetched.ordinary, parsed.result(), strict=True):
            if (usable := self._after_crash(hole, raw, content)) is not None:
                contents.append((hole.content, hashlib.sha256(raw).digest(), usable))
        self._store.set_texts(contents)
        by_content = {hole.content: raw for hole, raw in fetched.ordinary}
        self._keep_attachments([(content, by_content[content], usable) for content, _, usable in contents])
        for hole, raw, crashes in fetched.suspects:
            self._store.attempts.begin([hole.content], alone=True)
            content = self._parsers.degraded(raw) if crashes else self._parsers.contents([raw])[0]
            if (usable := self._after_crash(hole, raw, content)) is not None:
                self._store.set_texts([(hole.content, hashlib.sha256(raw).digest(), usable)])
        self._report.searchable_s = time.monotonic() - self._began
        kept = [hole.content for hole, _ in fetched.ordinary] + [hole.content for hole, *_ in fetched.suspects]
        self._in_flight.difference_update(kept)
        self._done += len(kept)
        self._notice(Progress(fetched.folder.name, self._done, max(self._total, self._done)))

    def _keep_attachments(self, contents: Sequence[tuple[int, bytes, Content]]) -> None:
        """Keep the small attachments of these contents offline; the text is there already."""
        largest = self._rule.attachments.max_size
        with_some = [
            (content_id, raw)
            for content_id, raw, content in contents
            if any(attachment.size <= largest for attachment in content.attachments)
        ]
        if not largest or not with_some:
            return
        for (content_id, _), parts in zip(
            with_some, self._parsers.attachments([raw for _, raw in with_some], largest), strict=True
        ):
            if not isinstance(parts, Crash):
                self._store.blobs.keep(content_id, parts)

    def _after_crash(self, hole: Hole, raw: bytes, content: Content | Crash) -> Content | None:
        if isinstance(content, Crash) and self._store.attempts.crashed(hole.content, content.reason) == 1:
            content = self._parsers.degraded(raw)
        if isinstance(content, Crash):
            self._store.attempts.quarantine(hole.content, content.reason)
            return None
        return content


def _large(upstream: Upstream, hole: Hole) -> bytes | None:
    try:
        return upstream.large_message(hole.uid)
    except UpstreamRefused:
        return None


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


def _open(upstream: Upstream, folder: FolderRow) -> None:
    if not upstream.has_open(folder.raw) and upstream.examine(folder.raw).uidvalidity != folder.uidvalidity:
        raise UpstreamBroken("UIDVALIDITY changed while messages were fetched")
