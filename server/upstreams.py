"""The IMAP sessions of the web process: one per mailbox, opened for a write or a download and kept for a minute."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from config.provider import Provider
from mirror.credential import Credentials, as_configured
from mirror.errors import MessageChanged, UpstreamError, UpstreamRefused, UpstreamUnavailable
from mirror.upstream import Upstream

KEPT_SECONDS = 60.0
CONNECT_TIMEOUT = 4.0
READ_TIMEOUT = 4.5
_QUEUE_SECONDS = 4.0
_FOUND_DEAD_SECONDS = 0.5

T = TypeVar("T")


@dataclass(slots=True)
class _Session:
    """The one session of a mailbox. account: what it was opened with; used: when it was last of use."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    upstream: Upstream | None = None
    account: Provider | None = None
    used: float = 0.0


class Upstreams:
    """Sessions by mailbox. Safe to share between threads; work on one mailbox waits its turn."""

    def __init__(self, credentials: Credentials = as_configured) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._closer: threading.Timer | None = None

    def run(self, mailbox: tuple[str, str], account: Provider, work: Callable[[Upstream], T]) -> T:
        """The result of work on this mailbox's session.

        work must be safe to repeat: it is called again on a new session when a kept one turns out to be dead. Raises
        what it raises, and UpstreamUnavailable when the server cannot be reached or the session's turn does not come.
        """
        with self._lock:
            session = self._sessions.setdefault(mailbox, _Session())
        if not session.lock.acquire(timeout=_QUEUE_SECONDS):
            raise UpstreamUnavailable("the session of this mailbox is busy")
        try:
            return self._run(session, mailbox, account, work)
        finally:
            session.used = time.monotonic()
            session.lock.release()
            self._close_later()

    def attempt(self, mailbox: tuple[str, str], account: Provider, work: Callable[[Upstream, bool], T]) -> T:
        """The same for work that is not safe to repeat: it is told whether an earlier call may have got somewhere."""
        calls = 0

        def once(upstream: Upstream) -> T:
            nonlocal calls
            calls += 1
            return work(upstream, calls > 1)

        return self.run(mailbox, account, once)

    def _run(self, session: _Session, mailbox: tuple[str, str], account: Provider, work: Callable[[Upstream], T]) -> T:
        if session.account != account or time.monotonic() - session.used > KEPT_SECONDS:
            _close(session)
        kept, began = session.upstream is not None, time.monotonic()
        try:
            return self._work(session, mailbox, account, work)
        except UpstreamUnavailable:
            # A kept session that is found dead at once was closed while it was unused. A slow failure is no such thing.
            if not kept or time.monotonic() - began > _FOUND_DEAD_SECONDS:
                raise
        return self._work(session, mailbox, account, work)

    def _work(self, session: _Session, mailbox: tuple[str, str], account: Provider, work: Callable[[Upstream], T]) -> T:
        try:
            return work(self._opened(session, mailbox, account))
        except (MessageChanged, UpstreamRefused):
            raise
        except BaseException:
            # Whatever it was, it may have come in the middle of an exchange: the session cannot be trusted any more.
            _abandon(session)
            raise

    def _opened(self, session: _Session, mailbox: tuple[str, str], account: Provider) -> Upstream:
        if session.upstream is None:
            session.upstream = Upstream.connect(
                account,
                connect_timeout=CONNECT_TIMEOUT,
                read_timeout=READ_TIMEOUT,
                credential=self._credentials(*mailbox, account, account.imap),
            )
            session.account = account
        return session.upstream

    def _close_later(self) -> None:
        with self._lock:
            if self._closer is None:
                self._closer = threading.Timer(KEPT_SECONDS, self._close_unused)
                self._closer.daemon = True
                self._closer.start()

    def _close_unused(self) -> None:
        with self._lock:
            self._closer = None
            sessions = list(self._sessions.values())
        still_open = False
        for session in sessions:
            if session.upstream is None:
                continue
            if time.monotonic() - session.used < KEPT_SECONDS or not session.lock.acquire(blocking=False):
                still_open = True
                continue
            try:
                _close(session)
            finally:
                session.lock.release()
        if still_open:
            self._close_later()

    def close(self) -> None:
        """End every session that is not at work."""
        with self._lock:
            if self._closer is not None:
                self._closer.cancel()
                self._closer = None
            sessions = list(self._sessions.values())
        for session in sessions:
            if session.lock.acquire(timeout=1):
                try:
                    _close(session)
                finally:
                    session.lock.release()


def _close(session: _Session) -> None:
    upstream, session.upstream = session.upstream, None
    if upstream is not None:
        with suppress(UpstreamError, OSError):
            upstream.close()


def _abandon(session: _Session) -> None:
    upstream, session.upstream = session.upstream, None
    if upstream is not None:
        upstream.abandon()
