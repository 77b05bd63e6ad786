"""SQLite as every part of the program opens it."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from mirror.fold import fold, people

BUSY_TIMEOUT = 5.0
"""Seconds a writer waits for another; every transaction is kept far below that."""
SLICE = 0.1
"""Seconds after which long work commits and begins another transaction, so that other writers get their turn."""

T = TypeVar("T")


def connect(path: Path) -> sqlite3.Connection:
    """A writable connection on a mirror's file, with the SQL functions its views need. Creates nothing by itself."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT, check_same_thread=False)
    connection.create_function("fold", 1, fold, deterministic=True)
    connection.create_function("people", 1, people, deterministic=True)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA cache_size = -16384")  # KiB: the index's hot pages of a backlog
    return connection


def use_memory(connection: sqlite3.Connection, *, is_wanted: bool = True) -> None:
    """Keep in memory, or not, what SQLite would write to temporary files.

    Each statement that a trigger follows notes the pages that it changes, to be able to undo it: in a file, that costs
    as much as the change. Not for what builds or sorts whole tables.
    """
    connection.execute("PRAGMA temp_store = MEMORY" if is_wanted else "PRAGMA temp_store = FILE")


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


def in_slices(connection: sqlite3.Connection, items: Iterable[T], work: Callable[[sqlite3.Connection, T], int]) -> int:
    """Work on each item in its turn, in as many short transactions as it takes; the sum of what work returned.

    A process that dies on the way leaves the items before done and the others untouched.
    """
    rest = iter(items)
    total = 0
    done = False
    while not done:
        with transaction(connection) as db:
            end = time.monotonic() + SLICE
            done = True
            for item in rest:
                total += work(db, item)
                if time.monotonic() >= end:
                    done = False
                    break
    return total
