"""One sync pass per mirror, one `serve` per data directory: advisory locks that die with their holder."""

import fcntl
import os
from pathlib import Path

from mirror.errors import MirrorBusy


class Lock:
    """An exclusive flock on a file. Kernel-held: a killed process frees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> "Lock":
        if not self.acquire():
            raise MirrorBusy(f"another process holds {self._path}")
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def acquire(self) -> bool:
        """Take the lock without waiting. False when another process, or another Lock, holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def is_in_place(self) -> bool:
        """Whether this lock is held, on the file that is at its path now."""
        if self._descriptor is None:
            return False
        try:
            return self._path.stat().st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Free the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
