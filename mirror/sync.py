r"""Bring one mirror to agree with its upstream mailbox. This docstring is the specification of the algorithm.

A *pass* repeats two steps until nothing is left to do: **look** (which folders, which messages, which flags), and
**fill** (headers, then texts, newest first). Filling stops every LOOK_EVERY seconds for another look, so that new
mail is noticed while a first sync is under way. The rows are the checkpoint: a message is first stored by uid, flags,
date and size alone, and what has no text yet is what is still to fetch. A pass can be cut at any point; the next one
resumes.

Look
1.  LIST, with STATUS along where the server can (RFC 5819), else STATUS pipelined. A folder missing from LIST is only
    marked, and dropped when the next LIST misses it too; one that vanished while another with equal UIDVALIDITY,
    UIDNEXT and MESSAGES appeared was renamed.
2.  A folder whose UIDVALIDITY, UIDNEXT, MESSAGES and HIGHESTMODSEQ are those of its checkpoint agrees: it is not
    opened. Without HIGHESTMODSEQ flags may have changed all the same: the newest are asked for each time, all of them
    hourly.
3.  Any other folder is opened with EXAMINE, INBOX first:
    - UIDVALIDITY differs (`!=`: a lower number is a change too): every message is enumerated anew with its
      Message-ID, and rows whose (Message-ID, size, INTERNALDATE) match, multiset-wise, keep their id and content (RFC
      3501 2.3.1.1).
    - never enumerated, UIDNEXT or HIGHESTMODSEQ went backwards: uids and flags are compared in full.
    - else: new uids from the checkpoint's UIDNEXT on (never trusting `n:*` alone), changed flags by CHANGEDSINCE.
4.  The local uids are read *before* the remote ones, and only those can be found deleted. The pass believes a folder
    only when the number of its rows equals the session's EXISTS; otherwise uids are compared in full, three times at
    most. Deletions above max(50, 20 %), and a folder that is suddenly empty, are confirmed on a second connection.
5.  Then, and only then, the checkpoint moves, to the values the server gave when the folder was *opened*.

Fill
6.  What a reader waits for comes first. Then headers, so that listing works early, then texts, INBOX and newest
    first, in batches of BATCH messages or BATCH_BYTES. While one batch is parsed, the next is fetched.
7.  The parse attempt is recorded before it starts. A batch during which this process died is parsed one by one; a
    message that costs a child is stored with what can be read of it, and quarantined when that costs a child too.
8.  A message the server does not send is asked for again, alone; after three passes it is put off, for longer each
    time. It is shown in `status` and holds up nothing else.
9.  What older cleaning rules made is cleaned again from its stored source, newest first. Sanitized HTML is made last:
    no search waits for it. Content that no message has used for a while is deleted, and attachments above their total.

Failures: UpstreamRefused concerns one folder, which is marked, and the pass goes on. UpstreamUnavailable and
AuthenticationRefused end the pass. Nothing is rolled back but the transaction under way; no network call is made in
one.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from config.identity import SyncRule
from mirror.backfill import BATCH, Backfill
from mirror.errors import UpstreamBroken, UpstreamRefused
from mirror.listing import FolderStatus, ListedFolder
from mirror.parsing import Parsers
from mirror.reconcile import sync_folder
from mirror.report import FolderReport, Progress, Report
from mirror.store import FolderRow, Store
from mirror.upstream import Upstream

logger = logging.getLogger(__name__)

LOOK_EVERY = 20.0
"""Seconds of filling between two looks."""


class Pass:
    """One pass over one mirror, whose lock the caller holds.

    connect makes a logged-in connection. stop is asked between batches. batch: messages in one FETCH; fewer for a
    server that hangs up on one of them.
    """

    def __init__(
        self,
        store: Store,
        rule: SyncRule,
        parsers: Parsers,
        connect: Callable[[], Upstream],
        *,
        stop: Callable[[], bool] = lambda: False,
        notice: Callable[[Progress], None] = lambda _: None,
        batch: int = BATCH,
    ) -> None:
        self._store = store
        self._rule = rule
        self._parsers = parsers
        self._connect = connect
        self._stop = stop
        self._upstream: Upstream | None = None
        self.report = Report()
        self._backfill = Backfill(
            store, parsers, self.report, rule=rule, stop=stop, notice=notice, batch=batch
        )

    def run(self) -> Report:
        """Look and fill until nothing is left. Raises UpstreamUnavailable, AuthenticationRefused or StoreError."""
        began = time.monotonic()
        try:
            self._store.attempts.adopt_interrupted()
            again = True
            while again and not self._stop():
                self.look()
                again = self._backfill.fill(self.upstream, time.monotonic() + LOOK_EVERY)
            self._backfill.clean_again()
            self._backfill.make_html()
            self._store.sweep()
            self._store.blobs.sweep(self._rule.attachments.total)
        finally:
            if self._upstream is not None:
                self._upstream.close()
            self.report.seconds = time.monotonic() - began
        return self.report

    @property
    def upstream(self) -> Upstream:
        """The pass's connection, made when it is first needed and again after it was lost."""
        if self._upstream is None or not self._upstream.is_open:
            self._upstream = self._connect()
        return self._upstream

    def look(self) -> None:
        """Compare every folder with upstream and store what differs."""
        listed, statuses = self.upstream.list_folders()
        listed = [self._with_rule(folder) for folder in listed]
        opened = [folder.raw for folder in listed if folder.selectable and folder.wanted]
        if missing := [raw for raw in opened if raw not in statuses]:
            statuses |= self.upstream.statuses(missing)
        self._adopt_renames(listed, statuses)
        for name in self._store.set_folders(listed):
            self.report.dropped.append(name)
        agreeing = []
        for folder in self._store.folders():
            report = self.report.folders.setdefault(folder.id, FolderReport(folder.name))
            if not folder.wanted or not folder.selectable:
                report.removed += self._store.remove_all(folder.id)
            elif _agrees(folder, statuses.get(folder.raw)):
                agreeing.append(folder.id)
            else:
                self._sync_folder(folder, report)
            report.messages = self._store.count(folder.id)
        self._store.touch(agreeing)

    def _with_rule(self, folder: ListedFolder) -> ListedFolder:
        def named(patterns: Sequence[str]) -> bool:
            return any(fnmatchcase(folder.name, pattern) or folder.role == pattern for pattern in patterns)

        return replace(folder, wanted=named(self._rule.folders) and not named(self._rule.exclude))

    def _adopt_renames(self, listed: Sequence[ListedFolder], statuses: dict[bytes, FolderStatus]) -> None:
        known = {folder.raw: folder for folder in self._store.folders()}
        present = {folder.raw for folder in listed}
        vanished = [folder for raw, folder in known.items() if raw not in present and folder.enumerated]
        for newcomer in listed:
            status = statuses.get(newcomer.raw)
            if newcomer.raw in known or status is None or status.messages == 0:
                continue
            same = [
                old
                for old in vanished
                if (old.uidvalidity, old.uidnext, old.upstream_messages)
                == (status.uidvalidity, status.uidnext, status.messages)
            ]
            if len(same) == 1:
                vanished.remove(same[0])
                self._store.rename_folder(same[0].id, newcomer)

    def _sync_folder(self, folder: FolderRow, report: FolderReport) -> None:
        started = time.monotonic()
        report.error = ""
        try:
            sync_folder(self.upstream, self._store, folder, report, parsers=self._parsers, connect=self._connect)
        except (UpstreamRefused, UpstreamBroken) as exc:
            # This folder only: the others go on.
            report.error = str(exc)
            self._store.set_folder_error(folder.id, str(exc))
            logger.warning("folder not synced", extra={"folder": folder.id, "kind": type(exc).__name__})
        report.seconds += time.monotonic() - started


def _agrees(folder: FolderRow, status: FolderStatus | None) -> bool:
    return (
        status is not None
        and folder.enumerated
        and None not in (status.uidnext, status.highestmodseq)
        and (status.uidvalidity, status.uidnext, status.messages, status.highestmodseq)
        == (folder.uidvalidity, folder.uidnext, folder.upstream_messages, folder.highestmodseq)
    )
