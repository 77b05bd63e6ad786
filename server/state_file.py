"""The open `state.db`: two connections, one transaction a call, on the disk before a call returns."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from server.state_schema import migrate
from server.unusable import FileUnusable


class StateUnavailable(FileUnusable):
    """`state.db` cannot be read or written now: locked for too long, damaged, gone, or the disk is full."""


class StateFile:
    """The file and its connections. Safe to share between threads; each call is one transaction.

    Every call raises StateUnavailable when the file cannot be used.
    """

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path = data_dir / "state.db"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._file = path.stat().st_ino
        # Two connections: a request that only wants its token checked must not wait for a writer's fsync.
        with self._usable():
            self._write_lock, self._writes = threading.Lock(), _connect(path)
            migrate(self._writes)
            self._read_lock, self._reads = threading.Lock(), _connect(path)

    def close(self) -> None:
        """Close the file; the object is of no use afterwards."""
        with self._write_lock, self._read_lock:
            self._reads.close()
            self._writes.close()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        # A revocation goes into the file that has the name: what is open must be that file.
        try:
            is_open = self._path.stat().st_ino == self._file
        except OSError:
            is_open = False
        if not is_open:
            raise StateUnavailable(f"{self._path} was removed or replaced while it was open: start postmirror again")
        try:
            yield
        except sqlite3.Error as exc:
            raise StateUnavailable(f"{self._path} cannot be used: {exc}") from exc

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._usable():
            self._writes.execute("BEGIN IMMEDIATE")
            try:
                yield self._writes
                self._writes.execute("COMMIT")
            except BaseException:
                # A full disk ends the transaction by itself; a lock that refuses the commit does not.
                if self._writes.in_transaction:
                    self._writes.execute("ROLLBACK")
                raise

    def _select(self, statement: str, values: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        with self._read_lock, self._usable():
            return self._reads.execute(statement, values).fetchall()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection
