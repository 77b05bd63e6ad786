"""One client connection: how long it may take to say what it wants, and how many there may be.

uvicorn waits for ever for a request that never comes. Whoever reaches the port could hold every file descriptor of the
process with connections that say nothing, before any token is looked at.
"""

import asyncio
import contextlib
import logging
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""From the connection, or the first byte of a further request, to the end of a request's head."""
KEPT_SECONDS = 30.0
"""From an answer to the first byte of a further request."""
BODY_SECONDS = 30.0
"""From there to the end of its body."""
_LAST_CHANCE_SECONDS = 1.0
"""What came in while this process was too busy to look counts: it looks once more before it hangs up."""
_MOST_CONNECTIONS = 4_096
_MOST_FILES = 65_536


def raise_open_files() -> None:
    """Let this process open as many files as the operating system allows it to ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """How many connections may be open: half of the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft // 2)


KEPT = object()
"""A connection that had an answer and has said nothing since."""


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 connection with a time limit on each request, and a place among so many."""

    _watched: object = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's base says the same
        """A client connected."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            log.warning("too many connections, the newest is closed")
            transport.abort()
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came in. The first of it ends the time that a kept connection may be silent."""
        if self._watched is KEPT:
            self._watched = None
        super().data_received(data)

    def handle_events(self) -> None:
        """Read what has come in, or was kept back while the request before was answered."""
        super().handle_events()
        self._watch()

    def _watch(self) -> None:
        state = self._state()
        if state is self._watched or self.transport.is_closing():
            return
        self._stop_watching()
        self._watched = state
        seconds = {h11.IDLE: HEAD_SECONDS, KEPT: KEPT_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(state)
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self._give_last_chance)

    def _state(self) -> object:
        state = self.conn.their_state
        is_kept = state is h11.IDLE and self.cycle is not None and not self.conn.trailing_data[0]
        return KEPT if is_kept else state

    def _give_last_chance(self) -> None:
        self._deadline = self.loop.call_later(_LAST_CHANCE_SECONDS, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
