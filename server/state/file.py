"""The open `state.db`: two connections, one transaction a call, on the disk before a call returns."""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from server.state.schema import migrate
from server.unusable import FileUnusable

log = logging.getLogger(__name__)


class StateUnavailable(FileUnusable):
    """`state.db` cannot be read or written now: locked for too long, damaged, gone, or the disk is full."""


class StateFile:
    """The file and its connections. Safe to share between threads; each call is one transaction.

    A file that was put in the place of the one that is open (a backup, restored) is used from the next call on; what it
    says of tokens counts. Every call raises StateUnavailable when the file cannot be used, or has gone: a new one would
    know of no revocation.
    """

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = data_dir
        self._path = path = data_dir / "state.db"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        # Two connections: a request that only wants its token checked must not wait for a writer's fsync.
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._log_path = path.with_name("state.db-wal")
        self._open()

    def close(self) -> None:
        """Close the file; the object is of no use afterwards."""
        with self._write_lock, self._read_lock:
            self._reads.close()
            self._writes.close()

    def is_usable(self) -> bool:
        """Whether the file can be read at this moment."""
        try:
            return bool(self._select("SELECT 1"))
        except StateUnavailable:
            return False

    def _open(self) -> None:
        with self._usable():
            file = self._inode()
            self._writes = _connect(self._path)
            migrate(self._writes)
            self._reads = _connect(self._path)
            self._reads.execute("SELECT 1 FROM token").fetchone()
            self._file, self._log = file, _inode_of(self._log_path)

    def _follow(self) -> None:
        """Use the file that has the name: a revocation goes into that one."""
        if self._inode() == self._file:
            return
        with self._write_lock, self._read_lock:
            if self._inode() == self._file:
                return
            # SQLite finds a file's log by its name, and would play that of the old file into the new one.
            is_stale = self._log != 0 and _inode_of(self._log_path) == self._log
            self._reads.close()
            self._writes.close()
            if is_stale:
                for suffix in ("-wal", "-shm"):
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._open()
            log.warning("state.db was replaced: tokens and journal are those of the file that is there now")

    def _inode(self) -> int:
        try:
            return self._path.stat().st_ino
        except OSError as exc:
            raise StateUnavailable(f"{self._path} is not there any more: put it back") from exc

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise StateUnavailable(f"{self._path} cannot be used: {exc}") from exc

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._follow()
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

    def _cut_log(self) -> None:
        """Empty the log, whose old pages hold what has been deleted since. Left for the next time when it is in use."""
        with self._write_lock, self._usable():
            self._writes.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _select(self, statement: str, values: Sequence[str | float] = ()) -> list[tuple[Any, ...]]:
        self._follow()
        with self._read_lock, self._usable():
            return self._reads.execute(statement, values).fetchall()


def _inode_of(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    return connection
