"""One folder brought to agree with upstream: steps 3 to 5 of the algorithm in `mirror.sync`."""

import logging
import time
from collections.abc import Callable

from mirror.errors import UpstreamBroken
from mirror.listing import Listed, Opened
from mirror.parsing import Crash, Parsers
from mirror.report import FolderReport
from mirror.store import Checkpoint, FolderRow, Store
from mirror.upstream import Upstream

logger = logging.getLogger(__name__)

ENUMERATE_AT_ONCE = 2_000
"""Messages asked for, and stored, at a time."""
RECONCILE_EVERY = 3_600.0
"""Seconds after which flags are compared in full on servers without CONDSTORE."""
NEWEST_FLAGS = 400
"""Messages whose flags are compared on every pass on servers without CONDSTORE."""


def sync_folder(
    upstream: Upstream,
    store: Store,
    folder: FolderRow,
    report: FolderReport,
    *,
    parsers: Parsers,
    connect: Callable[[], Upstream],
) -> None:
    """Make one folder's rows agree with upstream, and move its checkpoint. connect: a second connection, to confirm.

    Raises UpstreamBroken, and believes nothing of it, when the server contradicts itself.
    """
    began = time.time()
    opened = upstream.examine(folder.raw)
    if folder.uidvalidity is None:
        store.set_uidvalidity(folder.id, opened.uidvalidity)
    elif folder.uidvalidity != opened.uidvalidity:
        _rebind(upstream, store, folder, opened, report, parsers)
        return
    full = not folder.enumerated or _went_back(folder, opened)
    if not full:
        report.new += _add_new(upstream, store, folder, opened)
    reconciled = _update_flags(upstream, store, folder, opened, report, began, full=full)
    if full or store.count(folder.id) != upstream.exists:
        _compare_uids(upstream, store, folder, opened, report, connect)
    _checkpoint(store, folder, opened, reconciled=reconciled)


def _went_back(folder: FolderRow, opened: Opened) -> bool:
    def lower(now: int | None, before: int | None) -> bool:
        return now is not None and before is not None and now < before

    return lower(opened.uidnext, folder.uidnext) or lower(opened.highestmodseq, folder.highestmodseq)


def _checkpoint(store: Store, folder: FolderRow, opened: Opened, *, reconciled: bool) -> None:
    seen = Checkpoint(opened.uidvalidity, opened.uidnext, opened.highestmodseq, store.count(folder.id))
    store.checkpoint(folder.id, seen, reconciled=reconciled)


def _add_new(upstream: Upstream, store: Store, folder: FolderRow, opened: Opened) -> int:
    first = max(store.uids(folder.id), default=0) + 1 if folder.uidnext is None else folder.uidnext
    if opened.uidnext is not None and opened.uidnext <= first:
        return 0
    # "n:*" always matches the last message, even when its UID is below n (RFC 3501 6.4.8).
    return store.add_listed(
        folder.id, [message for message in upstream.enumerate(f"{first}:*") if message.uid >= first]
    )


def _update_flags(
    upstream: Upstream,
    store: Store,
    folder: FolderRow,
    opened: Opened,
    report: FolderReport,
    began: float,
    *,
    full: bool,
) -> bool:
    """Adopt changed flags. Whether all were compared."""
    uids = sorted(store.uids(folder.id))
    if not uids or opened.exists == 0:
        return True
    if not full and opened.highestmodseq is not None and folder.highestmodseq is not None:
        if opened.highestmodseq != folder.highestmodseq:
            changed = upstream.flags("1:*", changed_since=folder.highestmodseq)
            report.changed += store.update_flags(folder.id, changed, began)
        return True
    overdue = folder.reconciled_at is None or time.time() - folder.reconciled_at > RECONCILE_EVERY
    first = 1 if full or overdue else uids[max(0, len(uids) - NEWEST_FLAGS)]
    report.changed += store.update_flags(folder.id, upstream.flags(f"{first}:*"), began)
    return first == 1


def _compare_uids(
    upstream: Upstream,
    store: Store,
    folder: FolderRow,
    opened: Opened,
    report: FolderReport,
    connect: Callable[[], Upstream],
) -> None:
    for _ in range(3):
        # The local set is read first: what another process adds meanwhile cannot look deleted.
        local = set(store.uids(folder.id))
        remote = upstream.uids()
        gone = _confirmed(folder, opened, local - remote, len(local), connect, emptied=not remote)
        report.removed += store.remove(folder.id, gone)
        new = sorted(remote - local)
        for start in range(0, len(new), ENUMERATE_AT_ONCE):
            report.new += store.add_listed(folder.id, upstream.enumerate_uids(new[start : start + ENUMERATE_AT_ONCE]))
        if store.count(folder.id) == upstream.exists:
            return
    raise UpstreamBroken(
        f"the folder has {upstream.exists} messages by EXISTS, but {store.count(folder.id)} could be listed"
    )


def _confirmed(
    folder: FolderRow,
    opened: Opened,
    gone: set[int],
    known: int,
    connect: Callable[[], Upstream],
    *,
    emptied: bool,
) -> set[int]:
    """Those of the vanished uids that are gone; many, or all at once, only on a second connection's word."""
    if not gone or (len(gone) <= max(50, known // 5) and not emptied):
        return gone
    with connect() as second:
        if second.examine(folder.raw).uidvalidity != opened.uidvalidity:
            raise UpstreamBroken("UIDVALIDITY changed while deletions were confirmed")
        return gone - second.uids()


def _rebind(
    upstream: Upstream, store: Store, folder: FolderRow, opened: Opened, report: FolderReport, parsers: Parsers
) -> None:
    uids = sorted(upstream.uids())
    listed: list[Listed] = []
    blocks: dict[int, bytes] = {}
    for start in range(0, len(uids), ENUMERATE_AT_ONCE):
        chunk = uids[start : start + ENUMERATE_AT_ONCE]
        listed += upstream.enumerate_uids(chunk)
        blocks |= upstream.headers(chunk, "MESSAGE-ID")
    if len(listed) != upstream.exists:
        raise UpstreamBroken("UIDVALIDITY changed, and the folder could not be listed completely")
    envelopes = dict(zip(blocks, parsers.envelopes(list(blocks.values())), strict=True))
    identified = []
    for message in listed:
        envelope = envelopes.get(message.uid)
        identified.append((message, "" if envelope is None or isinstance(envelope, Crash) else envelope.message_id))
    before = store.count(folder.id)
    kept = store.rebind(folder.id, opened.uidvalidity, identified)
    logger.warning("uidvalidity changed", extra={"folder": folder.id, "kept": kept, "dropped": before - kept})
    report.new += len(listed) - kept
    report.removed += before - kept
    _checkpoint(store, folder, opened, reconciled=True)
