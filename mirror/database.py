"""SQLite as every part of the program opens it."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from mirror.fold import fold, people

BUSY_TIMEOUT = 5.0
"""Seconds a writer waits for another; every transaction is kept far below that."""


def connect(path: Path) -> sqlite3.Connection:
    """A writable connection on a mirror's file, with the SQL functions its views need. Creates nothing by itself."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT, check_same_thread=False)
    connection.create_function("fold", 1, fold, deterministic=True)
    connection.create_function("people", 1, people, deterministic=True)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")
    return connection


def private_folder(path: Path) -> Path:
    """The folder, made 0700 with its parents where it is not there yet."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    return path


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One write transaction: all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
