"""Whether clients read just now: said by each process that serves them to the one that syncs, by the time of a file.

A file's time costs the reader one system call a second, the worker one for each share of mail, and an idle program
nothing; a row would be a write, and a datagram a message for each call.
"""

import contextlib
import os
import time
from pathlib import Path

NAME = "reading"
LASTS = 3.0
"""Seconds for which a read counts."""
_SHOWN_EVERY = 1.0


class Presence:
    """Clients of the mirrors below one data directory, whichever process serves them."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME
        self._shown = -_SHOWN_EVERY

    def show(self) -> None:
        """A client reads. What cannot be said (a full disk) costs it nothing but a slower answer."""
        now = time.monotonic()
        if now - self._shown < _SHOWN_EVERY:
            return
        self._shown = now
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.utime(descriptor)
            finally:
                os.close(descriptor)

    def is_felt(self) -> bool:
        """Whether a client has read within the last seconds."""
        try:
            read_at = self._path.stat().st_mtime
        except OSError:
            return False
        # A clock that was put back must not slow the sync down until it has caught up.
        return abs(time.time() - read_at) < LASTS
