r"""Bring one mirror to agree with its upstream mailbox. This docstring is the specification of the algorithm.

A *pass* repeats two steps until nothing is left to do: **look** (which folders, which messages, which flags), and
**fill** (headers, then texts, newest first). Filling stops every LOOK_EVERY seconds, and when somebody asks, for
another look, so that new mail is noticed while a first sync is under way. The rows are the checkpoint: a message is
first stored by uid, flags, date and size alone, and what has no text yet is what is still to fetch. A pass can be cut
at any point; the next one resumes. A long pass is run in turns, between which other accounts get theirs.

Look
1.  LIST, with STATUS along where the server can (RFC 5819), else STATUS pipelined. What it says of an open folder does
    not count. A folder missing from LIST is only marked, and dropped when the next pass, on another connection, misses
    it too. One whose MAILBOXID (RFC 8474) has another name was renamed; else one that vanished, or whose name has
    another UIDVALIDITY now, while another with its UIDVALIDITY, UIDNEXT and MESSAGES appeared; it is compared in full.
2.  A folder whose UIDVALIDITY, UIDNEXT, MESSAGES and HIGHESTMODSEQ are those of its checkpoint agrees: it is not
    opened. Without HIGHESTMODSEQ flags may have changed all the same: the newest are asked for each time. With QRESYNC
    INBOX stays open between passes, for ten minutes at most: NOOP tells whether anything stirred in it, and STATUS of a
    large one takes long.
3.  Any other folder is opened with EXAMINE, INBOX first:
    - UIDVALIDITY differs (`!=`: a lower number is a change too), or UIDNEXT is lower than before (a restored backup):
      its rows lose their uids. Every message is enumerated anew with its Message-ID, and a row of the same email id,
      or Message-ID, size and INTERNALDATE, keeps its id and content (RFC 3501 2.3.1.1), unless rows of different
      content agree in these. What is not recognised is fetched, and then known by its digest. An interrupted pass goes
      on where it was. The rest of the rows go once the enumeration is complete.
    - never enumerated, or HIGHESTMODSEQ went backwards: uids, flags, sizes and dates are compared in full.
    - else: new uids from the checkpoint's UIDNEXT on (never trusting `n:*` alone), and changed flags: those that
      EXAMINE told of (QRESYNC), else CHANGEDSINCE, else those of the newest messages. Now and then everything is
      compared: hourly without CONDSTORE, daily with it.
    - where sizes and dates are compared and differ, the uid may name another message: the Message-ID decides, and
      another message replaces the old one.
4.  The local uids are read *before* the remote ones, and only those can be found deleted. Nothing is deleted on an
    enumeration whose number is not the session's EXISTS. VANISHED is heard after every command, the fetching of mail
    included, for it is not said twice. The pass believes a folder only when the number of its rows equals EXISTS;
    otherwise uids are compared in full, three times at most. Deletions above max(50, 20 %), and a folder that is
    suddenly empty, are believed only on the word of another connection, which takes the place of the first.
5.  Then, and only then, the checkpoint moves, to the values the server gave when the folder was *opened*.

Fill
6.  What a reader waits for comes first, between any two batches. Then headers, so that listing works early (the newest
    of a large folder, and a few texts, as soon as it is enumerated; of a first sync FIRST_TEXTS before the other
    headers, and before the older messages of a large folder are enumerated), then texts, INBOX and newest first, a few
    batches of each folder in turn, from BATCH messages to twice that, or BATCH_BYTES. A batch is asked for before the
    one ahead of it is read, so that the line is never idle (on servers that bear it), and parsed while the one ahead of
    it is stored. A large message comes in pieces and goes through a file to its parser: no process holds it but the
    parser.
7.  The parse attempt is recorded before it starts. A batch during which this process died is parsed by tens, then one
    by one; a message that costs a child is stored with what can be read of it, and quarantined when that costs a child
    too. Before that is held against a message, a plain mail is parsed: when it fails as well, the fault is ours, and
    the pass ends instead of putting the mailbox off.
8.  A batch the server refuses is asked for in halves. A message it does not send is asked for again, alone; after
    three passes it is put off, for longer each time. It is shown in `status` and holds up nothing else. A server that
    sends none of several messages is at fault, not they. What the server sends is counted by the UTC day. Once the
    day's limit is reached (sync.daily_bytes, else what is known of the server), headers, mail of the last day and what
    a reader waits for are still fetched; other texts wait for midnight, and the pass ends without them.
9.  What older cleaning rules made is cleaned again from its stored source, newest first. Sanitized HTML is made last:
    no search waits for it. Content that no message has used for a while is deleted, and attachments above their total.

A copy or a moved message whose email id (EMAILID, X-GM-MSGID) is known is not fetched again; any other is known by its
digest once it was. It goes on with the id of one that left, or whose folder vanished (Courier gives a renamed folder
another UIDVALIDITY). Flags that a pass read before a write of ours do not undo it.

Failures: UpstreamRefused and UpstreamBroken concern one folder, which is marked, and the pass goes on without it. A
folder that was never opened, or not for a day, and that the server refuses to open, is closed: no fault, and tried
again hourly. One whose UIDVALIDITY changed more than three times in a row is marked and looked at after 1, 2, 4 … 24
hours, or as soon as STATUS shows the number that is known.
UpstreamUnavailable, UpstreamThrottled, AuthenticationRefused and ParserBroken (held against no mail) end the pass. A
capability that the server announces and breaks is not used for a week. Work on many rows is done in transactions of a
tenth of a second, of which each leaves a state that the next pass can go on from; no network call is made in one.
"""

import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from config.provider import SyncRule
from mirror.backfill import BATCH, Backfill
from mirror.budget import Budget
from mirror.errors import (
    FolderClosed,
    ParserBroken,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamUnavailable,
    in_plain_words,
)
from mirror.folder_names import renames, with_roles, with_rule
from mirror.listing import FolderStatus, ListedFolder
from mirror.parsing import Parsers
from mirror.reconcile import Reconciliation
from mirror.report import FolderReport, Progress, Report
from mirror.store import FolderRow, Store
from mirror.store_contents import ORPHAN_GRACE
from mirror.upstream import Upstream

logger = logging.getLogger(__name__)

LOOK_EVERY = 20.0
"""Seconds of filling between two looks."""
RESETS_AT_MOST = 3
"""Changes of a folder's UIDVALIDITY in a row that are followed at once."""
UNSTEADY_SECONDS = 3_600.0
"""How long a folder with more of them is left alone, twice as long after each further one …"""
UNSTEADY_AT_MOST = 86_400.0
CLOSED_SECONDS = 3_600.0
"""After how long a folder that the server refuses to open is tried again."""
BELIEVED_CLOSED_AFTER = 86_400.0
"""How long a folder that could be opened before must be refused until that is no fault any more."""


class Pass:
    """One pass over one mirror, whose lock the caller holds.

    connect makes a logged-in connection; upstream is one that is open already. stop is asked between batches. nudges
    counts the times somebody asked for a look: one more of them interrupts the filling. batch: messages in one FETCH to
    begin with; fewer for a server that hangs up on one of them.
    """

    def __init__(
        self,
        store: Store,
        rule: SyncRule,
        parsers: Parsers,
        connect: Callable[[], Upstream],
        *,
        stop: Callable[[], bool] = lambda: False,
        nudges: Callable[[], int] = lambda: 0,
        notice: Callable[[Progress], None] = lambda _: None,
        batch: int = BATCH,
        upstream: Upstream | None = None,
    ) -> None:
        self._store = store
        self._rule = rule
        self._parsers = parsers
        self._connect = connect
        self._stop = stop
        self._nudges = nudges
        self._seen_nudges = nudges()
        self._upstream = upstream
        self._octets = 0
        self._budget = Budget(store, self.take_received)
        self._looks = 0
        self._started = time.time()
        self.finished = False
        self.report = Report()
        self._backfill = Backfill(
            store, parsers, self.report, self.session, self._budget,
            rule=rule, hurry=self._hurry, notice=notice, batch=batch,
        )  # fmt: skip

    def run(self, seconds: float = math.inf, *, keep_session: bool = False) -> Report:
        """Look and fill until nothing is left (then `finished` is true) or so many seconds have passed; repeatable.

        keep_session: leave the connection open, for take_session. Raises UpstreamUnavailable, AuthenticationRefused,
        ParserBroken or StoreError.
        """
        began = time.monotonic()
        try:
            if not self._looks:
                self._store.attempts.adopt_interrupted()
                if not any(folder.enumerated for folder in self._store.folders()):
                    self._parsers.get_ready()
            while not self.finished and not self._stop():
                self._seen_nudges = self._nudges()
                self.look()
                until = time.monotonic() + LOOK_EVERY
                left = self._backfill.fill(until)
                left = self._backfill.index_lines(until) or left
                left = self._backfill.clean_again(until) or self._backfill.make_html(until) or left
                self.finished = not left
                if time.monotonic() - began > seconds:
                    break
            if self.finished:
                swept = self._store.sweep(before=min(self._started, time.time() - ORPHAN_GRACE))
                self._store.blobs.sweep_after(
                    self._rule.attachments.total, changed=bool(swept or self.report.work or self.report.searchable_s)
                )
                if keep_session:
                    self._rest()
        except ParserBroken:
            self._store.attempts.forgive()
            raise
        finally:
            if self._upstream is not None:
                self._store.distrust(self._upstream.distrusted)
            if not keep_session:
                self.close()
                self._store.add_fetched(self.take_received())
            self.report.seconds += time.monotonic() - began
        return self.report

    def _rest(self) -> None:
        """Leave INBOX open on a connection that is kept: the next pass then hears whether anything stirred in it."""
        inbox = [folder for folder in self._store.folders() if folder.raw.upper() == b"INBOX" and folder.enumerated]
        if inbox and inbox[0].wanted and self._upstream is not None and self._upstream.is_open:
            with contextlib.suppress(UpstreamRefused, UpstreamBroken, UpstreamUnavailable):
                self._upstream.rest(inbox[0].raw)

    def session(self) -> Upstream:
        """The pass's connection, made when it is first needed and again after it was lost."""
        if self._upstream is None or not self._upstream.is_open:
            self._count()
            self._upstream = self._connect()
            known = self._upstream.quirk.daily_bytes
            self._budget.limit = known if self._rule.daily_bytes is None else self._rule.daily_bytes
            self._store.set_account(self._upstream.rung, self._budget.limit, self._rule.starts())
        return self._upstream

    def take_received(self) -> int:
        """How many octets the server sent since the last call."""
        self._count()
        octets, self._octets = self._octets, 0
        return octets

    def _count(self) -> None:
        if self._upstream is not None:
            self._octets += self._upstream.take_received()

    @property
    def looked(self) -> bool:
        """Whether the folders have been compared: what fails later fails while mail is fetched."""
        return self._looks > 0

    def take_session(self) -> Upstream | None:
        """The open connection, which is the caller's from now on."""
        self._count()
        upstream, self._upstream = self._upstream, None
        return upstream if upstream is not None and upstream.is_open else None

    def close(self) -> None:
        """End the connection, where one is open: for a pass that is not gone on with."""
        if self._upstream is not None:
            self._count()
            self._upstream.close()
            self._upstream = None

    def _renewed(self) -> Upstream:
        """Another connection in place of the present one: an account has no more of them than it needs."""
        if self._upstream is not None:
            self._store.distrust(self._upstream.distrusted)
        self.close()
        return self.session()

    def _hurry(self) -> bool:
        return self._stop() or self._nudges() != self._seen_nudges

    def look(self) -> None:
        """Compare every folder with upstream and store what differs."""
        listed, statuses = self._listed()
        self._adopt_renames(listed, statuses)
        dropped = self._store.set_folders(listed, count_missing=not self._looks)
        self._store.set_mailbox_ids({raw: status.mailbox_id for raw, status in statuses.items() if status.mailbox_id})
        self.report.dropped.extend(dropped)
        self._looks += 1
        agreeing = []
        for folder in self._store.folders():
            if self._stop():
                break
            report = self.report.folders.setdefault(folder.id, FolderReport(folder.name))
            if not folder.wanted or not folder.selectable:
                report.removed += self._store.remove_all(folder.id)
            elif _agrees(folder, statuses.get(folder.raw)):
                agreeing.append(folder.id)
                report.messages = folder.upstream_messages or 0
                continue
            elif folder.closed_until > time.time():
                report.error, report.closed = folder.error, True
            elif _is_unsteady(folder, statuses.get(folder.raw)):
                report.error = folder.error
            else:
                self._sync_folder(folder, report)
            report.messages = self._store.count(folder.id)
        self._store.touch(agreeing)

    def _listed(self) -> tuple[list[ListedFolder], dict[bytes, FolderStatus]]:
        fresh = self._upstream is None or not self._upstream.is_open
        try:
            listed, statuses = self.session().list_folders()
        except UpstreamUnavailable:
            if fresh:
                raise
            # A connection kept from an earlier pass has been closed meanwhile.
            listed, statuses = self.session().list_folders()
        known = {folder.raw for folder in self._store.folders()}
        if not self._looks and not fresh and known - {folder.raw for folder in listed}:
            # What is missing is believed only on the word of two connections.
            listed, statuses = self._renewed().list_folders()
        if known and not any(folder.raw.upper() == b"INBOX" for folder in listed):
            raise UpstreamBroken("LIST shows no INBOX any more")
        listed = with_rule(with_roles(listed), self._rule)
        opened = [folder.raw for folder in listed if folder.selectable and folder.wanted]
        if missing := [raw for raw in opened if raw not in statuses]:
            statuses |= self.session().statuses(missing)
        return listed, statuses

    def _adopt_renames(self, listed: Sequence[ListedFolder], statuses: dict[bytes, FolderStatus]) -> None:
        if renamed := renames(self._store.folders(missing=True), listed, statuses):
            logger.info("folders renamed", extra={"folders": len(renamed)})
            self._store.rename_folders(renamed)

    def _sync_folder(self, folder: FolderRow, report: FolderReport) -> None:
        started = time.monotonic()
        report.error, report.closed = "", False
        try:
            Reconciliation(
                self.session(), self._store, folder, report,
                parsers=self._parsers, renew=self._renewed, stop=self._stop,
                begun=partial(self._backfill.add_first, folder.id),
            ).run()  # fmt: skip
            now = self._store.folder(folder.id)
            if now is not None and not folder.enumerated and not self._stop():
                self._backfill.add_newest(now)
            if now is not None and now.resets > RESETS_AT_MOST:
                report.error = f"its UIDVALIDITY changed {now.resets} times in a row: looked at less often from now on"
                self._store.set_folder_error(folder.id, report.error)
        except (UpstreamRefused, UpstreamBroken) as exc:
            # This folder only: the others go on.
            report.error = in_plain_words(exc)
            report.closed = isinstance(exc, FolderClosed) and _was_never_open(folder)
            self._store.set_folder_error(
                folder.id, report.error, closed_until=time.time() + CLOSED_SECONDS if report.closed else 0.0
            )
            logger.warning("folder not synced", extra={"folder": folder.id, "kind": type(exc).__name__})
        report.seconds += time.monotonic() - started


def _was_never_open(folder: FolderRow) -> bool:
    """Whether nothing of a folder was seen lately: a refusal to open it is then what it is, and no fault."""
    return folder.as_of is None or time.time() - folder.as_of > BELIEVED_CLOSED_AFTER


def _is_unsteady(folder: FolderRow, status: FolderStatus | None) -> bool:
    """Whether a folder is left alone for now because its UIDVALIDITY never stays."""
    if folder.resets <= RESETS_AT_MOST or (status is not None and status.uidvalidity == folder.uidvalidity):
        return False
    pause = min(UNSTEADY_SECONDS * 2.0 ** (folder.resets - RESETS_AT_MOST - 1), UNSTEADY_AT_MOST)
    return time.time() - folder.reset_at < pause


def _agrees(folder: FolderRow, status: FolderStatus | None) -> bool:
    return (
        status is not None
        and folder.enumerated
        and None not in (status.uidnext, status.highestmodseq)
        and (status.uidvalidity, status.uidnext, status.messages, status.highestmodseq)
        == (folder.uidvalidity, folder.uidnext, folder.upstream_messages, folder.highestmodseq)
    )
