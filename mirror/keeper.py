"""One mirror kept in step with its mailbox by one process: its lock, its passes, its back-off, its IDLE.

The first process that asks holds the mirror's lock for as long as it lives; a keeper that does not hold it tries again
every few seconds, so that it takes over when the holder is gone. A pass that fails is followed by a pause of 1, 2, 4 …
300 seconds with full jitter, or as long as the server asks for. A login refused twice ends the attempts until the
configuration or the secret changes (`mirror.rest`). A nudge ends a pause, but not one that the server asked for, and
neither does a worker that is started anew. A pass that takes long is done in turns, so that a first sync does not keep
other accounts waiting; its connection is kept for the next pass.
"""

import logging
import math
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from config.provider import Provider
from mirror.arenas import give_back
from mirror.backfill import BACKLOG, BATCH
from mirror.credential import Configured, Credential
from mirror.database import private_folder
from mirror.errors import (
    AuthenticationRefused,
    MirrorError,
    UpstreamRefused,
    UpstreamThrottled,
    UpstreamUnavailable,
    in_plain_words,
)
from mirror.lock import Lock
from mirror.parsing import Parsers
from mirror.report import Progress, Report
from mirror.rest import LOGINS_REFUSED
from mirror.store import Store
from mirror.sync import Pass
from mirror.upstream import Upstream
from mirror.wake import WakeUps

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 300.0
NOT_TRIED = "It is not tried again before the configuration or the secret changes, or a day has passed"
IDLE_RENEWAL = 600.0
"""Seconds in IDLE before it is renewed; servers hang up after 30 minutes (RFC 2177)."""
TURN = 60.0
"""Seconds of a pass after which other accounts get their turn."""
TAKE_OVER_EVERY = 2.0
"""Seconds between two tries to hold a mirror that another process keeps."""
CLEAN_AGAIN = 3_600.0
"""Seconds until a clean-up that something stood in the way of is tried again."""
_SHORTEST_IDLE = 0.5
"""Seconds between two nudges of a server that never stops talking."""


class Keeper:
    """Keeps one mirror. run() may be called from any thread, at any time; passes never overlap."""

    def __init__(
        self,
        name: str,
        folder: Path,
        provider: Provider,
        parsers: Parsers,
        stopping: threading.Event,
        credential: Credential | None = None,
    ) -> None:
        self.name = name
        self.provider = provider
        self.wake_ups: WakeUps | None = None
        self.folder = private_folder(folder)
        self._lock = Lock(folder / "lock")
        self._credential = credential or Configured(provider, provider.imap)
        self._parsers = parsers
        self._stopping = stopping
        self._store: Store | None = None
        self._running = threading.Lock()
        self._again = threading.Event()
        self._nudges = 0
        self._pass: Pass | None = None
        self._session: Upstream | None = None
        self._is_damaged = False
        self._throttled_until = 0.0
        self._not_before = 0.0
        self._retry = False
        self._logins = 0
        self._failures = 0
        self._batch = BATCH
        self._not_cleaned_before = 0.0

    def hold(self) -> bool:
        """Take the mirror's lock, or find that this keeper has it. False: another process keeps this mirror."""
        if self._store is not None:
            if self._lock.is_in_place() and self._store.is_in_place():
                return True
            # The folder is disposable: somebody disposed of it while we held it.
            logger.error("mirror removed, built again from upstream", extra={"mirror": self.name})
            self.close()
        private_folder(self.folder)
        if not self._lock.acquire():
            return False
        self.wake_ups = WakeUps(self.folder)
        self._store = Store(self.folder, repair=True, is_damaged=self._is_damaged)
        self._is_damaged = False
        if self._store.set_aside is not None:
            logger.error("mirror damaged, built again from upstream", extra={"kept_as": self._store.set_aside.name})
        return True

    @property
    def is_held(self) -> bool:
        """Whether this keeper holds its mirror."""
        return self._store is not None

    def close(self) -> None:
        """Let the mirror go."""
        if self._pass is not None:
            self._pass.close()
            self._pass = None
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._store is not None:
            self._store.close()
            self._store = None
        if self.wake_ups is not None:
            self.wake_ups.close()
            self.wake_ups = None
        self._lock.release()

    def nudge(self) -> None:
        """Somebody asked for a look: a pause ends, a pass under way looks again soon and is followed by another."""
        self._not_before = self._throttled_until
        self._nudges += 1
        self._again.set()

    def run(self) -> None:
        """Make a pass, or a turn of one, if this keeper holds the mirror and is not pausing. Never raises."""
        if not self._running.acquire(blocking=False):
            self._again.set()
            return
        try:
            while not self._stopping.is_set():
                if self._pass is None:  # a nudge between two turns asks for the pass after this one
                    self._again.clear()
                if time.monotonic() < self._not_before:
                    self._retry = True
                    self._keep_throttled()
                    break
                if not self._attempt() or not (self._again.is_set() and self._pass is None):
                    break
        finally:
            self._running.release()

    def is_due(self) -> bool:
        """Whether to run now: after a failure, to go on with a pass, to try for the lock. True once for each."""
        due = self._retry and time.monotonic() >= self._not_before
        if due:
            self._retry = False
        return due

    def _login(self) -> bytes:
        """What the server is shown, and which server: another one of these is another login."""
        endpoint = self.provider.imap
        secret = self._credential.mark()
        user = self.provider.login(endpoint)[0]
        shown = (endpoint.host, str(endpoint.port), endpoint.security, self.provider.auth, user, secret)
        return "\0".join(shown).encode("utf-8", "surrogateescape")

    def _is_resting(self, store: Store) -> bool:
        """Whether the server is to be left alone: whoever waits for a pass is told that none will be made."""
        if (left := store.rest.seconds_left()) > 0:
            self._throttled_until = time.monotonic() + left
            self._come_back(left)
        elif not store.rest.is_refused(self._login()):
            return False
        store.begin_pass()
        store.end_pass("{}", store.error())
        return True

    def _keep_throttled(self) -> None:
        if self._store is not None and (left := self._throttled_until - time.monotonic()) > 0:
            self._store.rest.throttle(left)

    def _attempt(self) -> bool:
        """Make a pass or a turn of one. Whether it succeeded."""
        try:
            if not self.hold():
                self._come_back(TAKE_OVER_EVERY)
                return False
            if self._pass is None and self._store is not None and self._is_resting(self._store):
                return False
            report, error = self._turn(), ""
            self._clean_up()
        except AuthenticationRefused as exc:
            report, error = None, in_plain_words(exc)
            if self._store is not None and self._store.rest.refuse(self._login()) >= LOGINS_REFUSED:
                error += f". {NOT_TRIED}"
        except UpstreamThrottled as exc:
            self._throttled_until = time.monotonic() + exc.seconds
            report, error = None, f"{in_plain_words(exc)}. Nothing is asked of it for {exc.seconds:.0f} s"
        except MirrorError as exc:
            report, error = None, in_plain_words(exc)
            if isinstance(exc, UpstreamUnavailable) and self._pass is not None and self._pass.looked:
                self._batch = max(1, self._batch // 2)
        except sqlite3.DatabaseError as exc:
            report, error = None, f"the mirror's file cannot be used: {exc}. Check the disk that data_dir is on"
            if not isinstance(exc, sqlite3.OperationalError):
                # Damage, not a full disk or a lock: set the file aside and begin again.
                self._is_damaged = True
                self.close()
        except Exception as exc:
            # The account goes on with a pause; the traceback is in the log.
            logger.exception("a pass failed unexpectedly", extra={"mirror": self.name})
            report, error = None, f"an unexpected fault ({type(exc).__name__}); see the worker's log"
        self._settle(report, error)
        return report is not None

    def _clean_up(self) -> None:
        """Once a week, after a pass: what gone messages left behind goes too."""
        if self._store is None or self._pass is not None:
            return
        self._store.forget_set_aside()
        if self._store.is_cleanup_due() and time.monotonic() >= self._not_cleaned_before:
            try:
                is_done = self._store.clean_up(self._stopping.is_set)
            except sqlite3.OperationalError as exc:
                logger.warning("clean-up put off", extra={"mirror": self.name, "reason": str(exc)})
                is_done = False
            self._not_cleaned_before = 0.0 if is_done else time.monotonic() + CLEAN_AGAIN

    def _come_back(self, seconds: float) -> None:
        self._not_before = time.monotonic() + seconds
        self._retry = True

    def _settle(self, report: Report | None, error: str) -> None:
        if report is not None:
            self._failures = 0
            self._not_before = 0.0
            if self._pass is None:
                self._batch = BATCH
            else:
                self._come_back(0)
            return
        octets = 0
        if self._pass is not None:
            self._pass.close()
            octets = self._pass.take_received()
            self._pass = None
        self._failures += 1
        wait = random.uniform(0.1, min(LONGEST_PAUSE, 2.0 ** (self._failures - 1)))  # noqa: S311 - jitter
        self._come_back(max(wait, self._throttled_until - time.monotonic()))
        logger.warning("pass failed", extra={"mirror": self.name, "pause": round(wait, 1), "reason": error})
        if self._store is not None:
            self._store.end_pass("{}", error, octets)
            self._keep_throttled()

    def clean_up(self) -> bool:
        """A clean-up now; the mirror must be held. False: something stood in the way."""
        return self._store is not None and self._store.clean_up(self._stopping.is_set)

    def one_pass(self, notice: Callable[[Progress], None] = lambda _: None) -> Report:
        """A whole pass now, whatever was refused before; the mirror must be held. Raises what the pass raises."""
        try:
            return self._turn(math.inf, notice)
        except AuthenticationRefused:
            if self._store is not None:
                self._store.rest.refuse(self._login())
            raise

    def _turn(self, seconds: float = TURN, notice: Callable[[Progress], None] = lambda _: None) -> Report:
        if self._store is None:
            raise MirrorError(f"{self.name} is not held by this process")
        if self._pass is None:
            self._store.begin_pass()
            self._pass = Pass(
                self._store, self.provider.sync, self._parsers, self._connect,
                stop=self._stopping.is_set, nudges=lambda: self._nudges, notice=notice, batch=self._batch,
                upstream=self._session,
            )  # fmt: skip
            self._session = None
        report = self._pass.run(seconds, keep_session=True)
        if self._pass.finished:
            self._session = self._pass.take_session()
            self._store.end_pass(report.as_json(), "", self._pass.take_received())
            self._pass = None
            self._parsers.rest()
            if report.work >= BACKLOG:
                self._store.shrink()
                give_back()
            if report.work:
                done = {"messages": report.work, "seconds": round(report.seconds, 2)}
                logger.info("pass done", extra={"mirror": self.name, **done})
        return report

    def _connect(self) -> Upstream:
        without = self._store.distrusted() if self._store is not None else ()
        upstream = Upstream.connect(self.provider, without=without, credential=self._credential)
        self._logins += 1
        if self._store is not None:
            self._store.rest.accept()
        return upstream

    def idle(self, nudged: Callable[["Keeper"], None]) -> None:
        """Listen to INBOX until the process stops: a thread of its own. nudged: called when a pass should be made.

        It logs in only after a pass did, and after a refusal only once another pass did.
        """
        refused_after = 0
        while not self._stopping.is_set():
            if self._store is None or self._logins == refused_after or self._failures:
                self._stopping.wait(1.0)
                continue
            try:
                with Upstream.connect(self.provider, credential=self._credential) as upstream:
                    if not upstream.has("IDLE"):
                        return
                    upstream.examine(b"INBOX")
                    while not self._stopping.is_set():
                        if upstream.idle(IDLE_RENEWAL, lambda: nudged(self)):
                            nudged(self)
                        self._stopping.wait(_SHORTEST_IDLE)
            except UpstreamThrottled as exc:
                self._throttled_until = max(self._throttled_until, time.monotonic() + exc.seconds)
                self._not_before = max(self._not_before, self._throttled_until)
                self._stopping.wait(exc.seconds)
            except AuthenticationRefused:
                refused_after = self._logins
            except UpstreamRefused:
                self._stopping.wait(LONGEST_PAUSE)
            except MirrorError:
                # The server may be gone: a pass finds out and says so, instead of the next interval.
                nudged(self)
                self._stopping.wait(random.uniform(1.0, 10.0))  # noqa: S311 - jitter
