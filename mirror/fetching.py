"""Messages of holes, fetched: in halves when the server refuses a batch, alone when it leaves one out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirror.errors import UpstreamBroken, UpstreamRefused, UpstreamUnavailable
from mirror.reconcile import is_doubtful
from mirror.spool import Raw, spooled
from mirror.store import FolderRow, Hole, Store
from mirror.upstream import PIECE, Asked, Upstream

_ALONE_AT_MOST = 20
_ENOUGH_TO_JUDGE = 5
"""A server that sends none of so many messages is at fault, not the messages."""


@dataclass(frozen=True, slots=True)
class Request:
    """Messages asked for ahead of time, the small ones in one go. asked: of that upstream's."""

    folder: FolderRow
    holes: Sequence[Hole]
    small: Sequence[Hole]
    upstream: Upstream
    asked: Asked


class Fetching:
    """Fetches for one pass. missed: contents that did not come; they are not asked for again in this pass.

    missed_headers: contents whose headers did not come or could not be read; their texts are tried.
    """

    def __init__(self, store: Store, session: Callable[[], Upstream]) -> None:
        self._store = store
        self._session = session
        self._folders: dict[bytes, FolderRow] = {}
        self.missed: set[int] = set()
        self.missed_headers: set[int] = set()

    def ask_headers(self, folder: FolderRow, holes: Sequence[Hole]) -> Request:
        """Ask for the headers of each hole's message without waiting for them; headers gives what came."""
        self._folders[folder.raw] = folder
        upstream = self._opened(folder)
        return Request(folder, holes, holes, upstream, upstream.ask_headers([hole.uid for hole in holes]))

    def headers(self, request: Request) -> dict[int, bytes]:
        """The header block of each hole's message, by uid."""
        folder, holes = request.folder, request.holes
        found = self._halving(folder, holes, lambda upstream, uids: upstream.headers(uids), request)
        self.missed_headers.update(hole.content for hole in holes if hole.uid not in found)
        self._harvest(folder)
        return found

    def ask(self, folder: FolderRow, holes: Sequence[Hole]) -> Request:
        """Ask for each hole's message without waiting for it; messages gives what came."""
        self._folders[folder.raw] = folder
        small = [hole for hole in holes if hole.size <= PIECE]
        upstream = self._opened(folder)
        return Request(folder, holes, small, upstream, upstream.ask_messages([hole.uid for hole in small]))

    def messages(self, request: Request) -> dict[int, Raw]:
        """Each hole's message, by uid, a large one in a file; those that did not come are put off."""
        folder, holes = request.folder, request.holes
        found: dict[int, Raw] = {}
        found |= self._halving(folder, request.small, lambda upstream, uids: upstream.messages(uids), request)
        for hole in holes:
            if hole.size > PIECE and (raw := self._large(folder, hole)) is not None:
                found[hole.uid] = raw
        # An empty literal stands for a message that could not be read, unless that is what it is.
        empty = {hole.uid for hole in holes if hole.size == 0}
        found = {uid: raw for uid, raw in found.items() if raw or uid in empty}
        absent = [hole for hole in holes if hole.uid not in found]
        if found or len(holes) < _ENOUGH_TO_JUDGE:
            for hole in absent[:_ALONE_AT_MOST] if len(holes) > 1 else ():
                if raw := self._opened(folder).messages([hole.uid]).get(hole.uid):
                    found[hole.uid] = raw
            for hole in absent:
                if hole.uid not in found:
                    self.missed.add(hole.content)
                    self._store.attempts.put_off(hole.content, "the server did not send it")
        self._harvest(folder)
        if not found and len(holes) >= _ENOUGH_TO_JUDGE:
            raise UpstreamBroken(f"the server sent none of {len(holes)} messages it lists")
        return found

    def _opened(self, folder: FolderRow) -> Upstream:
        upstream = self._session()
        if not upstream.has_open(folder.raw) and upstream.examine(folder.raw).uidvalidity != folder.uidvalidity:
            raise UpstreamBroken("UIDVALIDITY changed while messages were fetched")
        return upstream

    def _halving(
        self,
        folder: FolderRow,
        holes: Sequence[Hole],
        fetch: Callable[[Upstream, list[int]], dict[int, bytes]],
        request: Request | None = None,
    ) -> dict[int, bytes]:
        if not holes:
            return {}
        try:
            if request is not None and request.upstream.is_open:
                return request.upstream.take(request.asked)
            return fetch(self._opened(folder), [hole.uid for hole in holes])
        except UpstreamRefused:
            if len(holes) == 1:
                return {}
            middle = len(holes) // 2
            return self._halving(folder, holes[:middle], fetch) | self._halving(folder, holes[middle:], fetch)
        except UpstreamUnavailable:
            if len(holes) == 1:
                self._store.attempts.put_off(holes[0].content, "the connection was lost while it was fetched")
            raise

    def _large(self, folder: FolderRow, hole: Hole) -> Raw | None:
        upstream = self._opened(folder)
        try:
            return spooled(self._store.path.parent, lambda add: upstream.large_message(hole.uid, hole.size, add))
        except UpstreamRefused:
            return None

    def _harvest(self, folder: FolderRow) -> None:
        """Take out what the server said to have vanished meanwhile: it does not say so again in this session."""
        self._folders[folder.raw] = folder
        for raw, ranges in self._session().take_vanished().items():
            if (known := self._folders.get(raw)) is not None:
                gone = self._store.uids_within(known.id, ranges)
                if not is_doubtful(len(gone), self._store.count(known.id), emptied=False):
                    self._store.remove(known.id, gone)
