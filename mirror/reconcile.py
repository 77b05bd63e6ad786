"""One folder brought to agree with upstream: steps 3 to 5 of the algorithm in `mirror.sync`."""

import logging
import time
from collections.abc import Callable, Collection, Sequence

from mirror.errors import UpstreamBroken
from mirror.listing import Listed
from mirror.parsing import Crash, Parsers
from mirror.report import FolderReport
from mirror.store import Checkpoint, FolderRow, Store
from mirror.upstream import Upstream

logger = logging.getLogger(__name__)

ENUMERATE_AT_ONCE = 2_000
"""Messages asked for, and stored, at a time …"""
ENUMERATE_FIRST = 600
"""… but of a folder that is new so many of the newest, before all others."""
RECONCILE_EVERY = 3_600.0
"""Seconds after which every message of a changed folder is compared on servers without CONDSTORE."""
RECONCILE_SELDOM = 86_400.0
"""The same on servers with CONDSTORE."""
NEWEST = 400
"""Messages that are compared on every pass on servers without CONDSTORE."""
_TRIES = 3


class Reconciliation:
    """One folder of one pass. renew: ends the session at hand and makes another.

    begun: called when the newest messages of a large new folder are known, and the others are still to be enumerated.

    upstream is the session at hand, another one when deletions had to be confirmed.
    """

    def __init__(
        self,
        upstream: Upstream,
        store: Store,
        folder: FolderRow,
        report: FolderReport,
        *,
        parsers: Parsers,
        renew: Callable[[], Upstream],
        stop: Callable[[], bool] = lambda: False,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        self._upstream = upstream
        self._store = store
        self._folder = folder
        self._report = report
        self._parsers = parsers
        self._renew = renew
        self._stop = stop
        self._begun = begun
        self._began = time.time()
        self._renewed = False
        self._deferred = False

    def run(self) -> None:
        """Make the folder's rows agree with upstream, and move its checkpoint.

        Raises UpstreamBroken, and believes nothing of it, when the server contradicts itself.
        """
        self._open_first()
        if not self._folder.enumerated and self._store.has_unbound(self._folder.id):
            self._rebind()
        elif self._folder.enumerated and not self._went_back():
            self._follow()
        else:
            self._compare_all()

    def _open_first(self) -> None:
        folder = self._folder
        known = None
        if folder.enumerated and folder.uidvalidity is not None and folder.highestmodseq is not None:
            known = folder.uidvalidity, folder.highestmodseq
        self._opened = self._upstream.examine(folder.raw, known=known)
        if folder.uidvalidity is None:
            self._store.set_uidvalidity(folder.id, self._opened.uidvalidity)
        elif folder.uidvalidity != self._opened.uidvalidity or _lower(self._opened.uidnext, folder.uidnext):
            # A lower UIDNEXT under the same UIDVALIDITY is a restored backup: its uids may name other messages.
            logger.warning("uids count anew", extra={"folder": folder.id})
            self._upstream.take_vanished()
            self._store.begin_generation(folder.id, self._opened.uidvalidity)
            self._folder = self._store.folder(folder.id) or folder
        elif folder.resets and folder.enumerated:
            self._store.set_steady(folder.id)

    def _went_back(self) -> bool:
        return _lower(self._opened.highestmodseq, self._folder.highestmodseq)

    def _follow(self) -> None:
        """New messages, changed flags and expunges since the checkpoint."""
        opened, folder = self._opened, self._folder
        self._harvest()
        behind = opened.exists - self._store.count(folder.id)
        if behind <= ENUMERATE_AT_ONCE:
            self._add_new()
        reconciled = False
        overdue = folder.reconciled_at is None or time.time() - folder.reconciled_at > (
            RECONCILE_EVERY if opened.highestmodseq is None else RECONCILE_SELDOM
        )
        if overdue:
            reconciled = self._compare_messages(1)
        elif opened.changed is not None:
            self._report.changed += self._store.update_flags(folder.id, opened.changed, self._began)
        elif opened.highestmodseq is None or folder.highestmodseq is None:
            self._compare_messages(self._store.uid_before(folder.id, NEWEST))
        elif opened.highestmodseq != folder.highestmodseq:
            changed = self._upstream.changed_since(folder.highestmodseq)
            self._report.changed += self._store.update_flags(folder.id, changed, self._began)
        self._harvest()
        if self._agrees():
            self._checkpoint(reconciled=reconciled)
            return
        removed = self._report.removed
        self._compare_uids()
        if self._report.removed > removed and opened.changed is not None and not self._deferred:
            self._upstream.distrust("QRESYNC", "it did not tell of messages that are gone")
        if self._renewed:
            reconciled = self._compare_messages(1)
        self._checkpoint(reconciled=reconciled)

    def _compare_all(self) -> None:
        """uids, flags, sizes and dates of the whole folder."""
        had = self._store.highest_uid(self._folder.id)
        self._upstream.take_vanished()
        self._compare_uids()
        if had:
            self._compare_messages(1, had)
        if self._agrees():
            self._checkpoint(reconciled=True)

    def _agrees(self) -> bool:
        return self._store.count(self._folder.id) == self._upstream.exists

    def _checkpoint(self, *, reconciled: bool) -> None:
        if self._stop():
            return  # what was asked for may not have been asked to its end
        opened = self._opened
        seen = Checkpoint(opened.uidvalidity, opened.uidnext, opened.highestmodseq, self._store.count(self._folder.id))
        self._store.checkpoint(self._folder.id, seen, reconciled=reconciled)

    def _harvest(self) -> None:
        """Take out what VANISHED named, unless that is so much that it needs confirmation."""
        store, folder = self._store, self._folder
        gone = store.uids_within(folder.id, self._upstream.take_vanished().get(folder.raw, []))
        if is_doubtful(len(gone), store.count(folder.id), emptied=self._upstream.exists == 0):
            self._deferred = True
        else:
            self._report.removed += store.remove(folder.id, gone)

    def _add_new(self) -> None:
        opened, folder = self._opened, self._folder
        first = self._store.highest_uid(folder.id) + 1 if folder.uidnext is None else folder.uidnext
        if opened.uidnext is not None and opened.uidnext <= first:
            return
        # "n:*" always matches the last message, even when its UID is below n (RFC 3501 6.4.8).
        listed = [message for message in self._upstream.enumerate(f"{first}:*") if message.uid >= first]
        self._report.new += self._store.add_listed(folder.id, listed)

    # -- uids

    def _compare_uids(self) -> None:
        store, folder = self._store, self._folder
        for attempt in range(_TRIES):
            if attempt and not self._renewed:
                self._reopen()
            # The local set is read first: what another process adds meanwhile cannot look deleted.
            local = store.uids(folder.id)
            remote = self._upstream.uids()
            self._upstream.take_vanished()
            if len(remote) != self._upstream.exists:
                continue
            gone = local - remote
            if gone and not self._renewed and is_doubtful(len(gone), len(local), emptied=not remote):
                self._confirm()
                continue
            self._report.removed += store.remove(folder.id, gone)
            self._add(remote - local)
            if self._stop() or self._agrees():
                return
        raise UpstreamBroken(
            f"the folder has {self._upstream.exists} messages by EXISTS, but {store.count(folder.id)} could be listed"
        )

    def _add(self, uids: Collection[int]) -> None:
        ordered = sorted(uids, reverse=True)
        if not self._folder.enumerated and len(ordered) > ENUMERATE_AT_ONCE:
            newest, ordered = ordered[:ENUMERATE_FIRST], ordered[ENUMERATE_FIRST:]
            self._add_listed(newest)
            self._begun()
        for start in range(0, len(ordered), ENUMERATE_AT_ONCE):
            if self._stop():
                return
            self._add_listed(ordered[start : start + ENUMERATE_AT_ONCE])

    def _add_listed(self, uids: Sequence[int]) -> None:
        self._report.new += self._store.add_listed(self._folder.id, self._upstream.enumerate_uids(uids))

    def _reopen(self) -> None:
        reopened = self._upstream.examine(self._folder.raw)
        if reopened.uidvalidity != self._opened.uidvalidity:
            raise UpstreamBroken("UIDVALIDITY changed while a folder was compared")

    def _confirm(self) -> None:
        """Go on with another connection, whose word on the whole folder then counts."""
        logger.warning("many messages are gone: asking again", extra={"folder": self._folder.id})
        self._upstream = self._renew()
        self._renewed = True
        before = self._opened
        self._opened = self._upstream.examine(self._folder.raw)
        if self._opened.uidvalidity != before.uidvalidity:
            raise UpstreamBroken("UIDVALIDITY changed while deletions were confirmed")

    # -- messages: flags, and whether a uid still names the message we know

    def _compare_messages(self, first: int, last: int = 2**32 - 1) -> bool:
        """Flags, size and INTERNALDATE of the messages of these uids. Whether it came to the end."""
        uids = sorted(self._store.uids_within(self._folder.id, [(first, last)]))
        for start in range(0, len(uids), ENUMERATE_AT_ONCE):
            if self._stop():
                return False
            chunk = uids[start : start + ENUMERATE_AT_ONCE]
            listed = self._upstream.enumerate(f"{chunk[0]}:{chunk[-1]}")
            self._adopt(chunk, listed)
        return True

    def _adopt(self, chunk: Sequence[int], listed: Sequence[Listed]) -> None:
        known = self._store.known(self._folder.id, chunk[0], chunk[-1])
        same: list[Listed] = []
        doubtful: list[Listed] = []
        for message in listed:
            if message.uid in known:
                size, at, _ = known[message.uid]
                is_same = (message.size, int(message.internaldate.timestamp())) == (size, at)
                (same if is_same else doubtful).append(message)
        if doubtful:
            same += self._replace(doubtful, known)
        flags = [(message.uid, message.flags, message.modseq) for message in same]
        self._report.changed += self._store.update_flags(self._folder.id, flags, self._began)

    def _replace(self, doubtful: Sequence[Listed], known: dict[int, tuple[int, int, str]]) -> list[Listed]:
        """Take out the messages whose uid names another one now, and add those. Returns the ones that are the same."""
        now = self._message_ids([message.uid for message in doubtful])
        same: list[Listed] = []
        others: list[Listed] = []
        for message in doubtful:
            _, at, message_id = known[message.uid]
            if message.uid not in now:
                continue
            is_same = bool(message_id) and (now[message.uid], int(message.internaldate.timestamp())) == (message_id, at)
            (same if is_same else others).append(message)
        self._store.set_sizes(self._folder.id, [(message.uid, message.size) for message in same])
        if others:
            logger.warning("uids name other messages", extra={"folder": self._folder.id, "messages": len(others)})
            self._report.removed += self._store.remove(self._folder.id, [message.uid for message in others])
            self._report.new += self._store.add_listed(self._folder.id, others)
        return same

    def _message_ids(self, uids: Sequence[int]) -> dict[int, str]:
        blocks = self._upstream.headers(uids, "MESSAGE-ID")
        envelopes = self._parsers.envelopes(list(blocks.values()))
        return {
            uid: "" if isinstance(envelope, Crash) else envelope.message_id
            for uid, envelope in zip(blocks, envelopes, strict=True)
        }

    # -- a changed UIDVALIDITY

    def _rebind(self) -> None:
        """Give the rows of earlier generations their new uids; end the rest once the listing is complete."""
        store, folder = self._store, self._folder
        store.unbind(folder.id)
        before = store.count(folder.id) + store.count_unbound(folder.id)
        kept = 0
        for attempt in range(_TRIES):
            if attempt and not self._renewed:
                self._reopen()
            remote = self._upstream.uids()
            if len(remote) != self._upstream.exists:
                continue
            local = store.uids(folder.id)
            self._report.removed += store.remove(folder.id, local - remote)
            kept += self._bind(sorted(remote - local))
            if self._stop():
                return
            unbound = store.count_unbound(folder.id)
            if not self._renewed and is_doubtful(unbound, before, emptied=not remote):
                self._confirm()
            elif self._agrees():
                self._report.removed += store.drop_unbound(folder.id)
                logger.warning("uidvalidity changed", extra={"folder": folder.id, "kept": kept, "dropped": unbound})
                self._checkpoint(reconciled=True)
                return
        raise UpstreamBroken("UIDVALIDITY changed, and the folder could not be listed completely")

    def _bind(self, uids: Sequence[int]) -> int:
        kept = 0
        for start in range(0, len(uids), ENUMERATE_AT_ONCE):
            if self._stop():
                break
            chunk = uids[start : start + ENUMERATE_AT_ONCE]
            listed = self._upstream.enumerate_uids(chunk)
            ids = self._message_ids(chunk)
            bound = self._store.bind(self._folder.id, [(message, ids.get(message.uid, "")) for message in listed])
            self._report.new += len(listed) - bound
            kept += bound
        return kept


def _lower(now: int | None, before: int | None) -> bool:
    return now is not None and before is not None and now < before


def is_doubtful(gone: int, known: int, *, emptied: bool) -> bool:
    """Whether so many deletions, or all at once, are believed only on a second connection's word."""
    return gone > 0 and (emptied or gone > max(50, known // 5))
