"""When tokens were last used: written at most once a minute for each, and never on the way of an answer."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from server.state.store import State, StateUnavailable

log = logging.getLogger(__name__)

EVERY = 60.0


class LastUses:
    """Notes uses. Safe to share between threads."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._written: dict[str, float] = {}
        self._writer = ThreadPoolExecutor(1, "last use")

    def saw(self, name: str) -> None:
        """A token was used now."""
        now = time.monotonic()
        if now - self._written.get(name, -EVERY) < EVERY:
            return
        with self._lock:
            if now - self._written.get(name, -EVERY) < EVERY:
                return
            self._written[name] = now
        self._writer.submit(self._write, name)

    def close(self) -> None:
        """Write what is left."""
        self._writer.shutdown()

    def _write(self, name: str) -> None:
        try:
            self._state.used(name)
        except StateUnavailable as exc:
            log.warning("tokens: the last use cannot be written (%s)", exc)
