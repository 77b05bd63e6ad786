"""Attachments kept offline: content-addressed files beside the mirror, and the rows that name them.

A file is written, fsynced and renamed into place before the row that names it; a row goes before its file. What a crash
leaves behind is a file without a row, and `sweep` removes those. A blob's modification time is when it was last used:
when the total is exceeded, the oldest go first.
"""

import contextlib
import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from mirror.database import private_folder, transaction

GRACE = 600.0
"""Seconds that a file without a row is left alone: another process may be reading it."""
STRAYS_EVERY = 3_600.0
"""Seconds between two looks at every file."""


Written = tuple[int, str, bytes, int]
"""Content id, section number, digest and size of a part that is on the disk."""


def blob_path(folder: Path, digest: bytes) -> Path:
    """Where a mirror keeps the bytes with this SHA-256."""
    name = digest.hex()
    return folder / "blobs" / name[:2] / name[2:]


class Blobs:
    """The blobs of one mirror, for the holder of its lock."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self._folder = folder
        self._connection = connection
        self._strays_due = 0.0

    def keep(self, content_id: int, parts: Sequence[tuple[str, bytes]]) -> None:
        """Keep these parts (section number, decoded bytes) of a content."""
        self.name(self.write([(content_id, parts)]))

    def write(self, contents: Sequence[tuple[int, Sequence[tuple[str, bytes]]]]) -> list[Written]:
        """Write the parts of these contents to the disk, to be named then. May run beside the connection's thread."""
        written = []
        folders = set()
        for content_id, parts in contents:
            for part, data in parts:
                digest = hashlib.sha256(data).digest()
                path = blob_path(self._folder, digest)
                if self._write(path, data):
                    folders.add(path.parent)
                written.append((content_id, part, digest, len(data)))
        for folder in folders:
            _fsync_folder(folder)
        return written

    def name(self, written: Sequence[Written]) -> None:
        """The rows of parts that are on the disk."""
        with transaction(self._connection) as db:
            for content_id, part, digest, size in written:
                if db.execute("SELECT 1 FROM content WHERE id = ?", (content_id,)).fetchone() is not None:
                    db.execute("INSERT OR IGNORE INTO blob (digest, size) VALUES (?, ?)", (digest, size))
                    db.execute("INSERT OR REPLACE INTO attachment_blob VALUES (?, ?, ?)", (content_id, part, digest))

    @staticmethod
    def _write(path: Path, data: bytes) -> bool:
        """Write a file, unless it is there. Whether it was written."""
        if path.exists():
            os.utime(path)
            return False
        private_folder(path.parent)
        waiting = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            waiting.rename(path)
        except BaseException:
            waiting.unlink(missing_ok=True)
            raise
        return True

    def total(self) -> int:
        """Bytes of everything kept."""
        return int(self._connection.execute("SELECT coalesce(sum(size), 0) FROM blob").fetchone()[0])

    def sweep(self, limit: int) -> int:
        """Drop blobs that no content names any more, then the least recently used above the limit (bytes), then strays.

        Returns how many files went.
        """
        return self._sweep_named(limit) + self._remove_strays()

    def sweep_after(self, limit: int, *, changed: bool) -> None:
        """The same after a pass: nothing when it changed nothing, and strays are looked for hourly."""
        if time.monotonic() >= self._strays_due:
            self.sweep(limit)
            self._strays_due = time.monotonic() + STRAYS_EVERY
        elif changed:
            self._sweep_named(limit)

    def _sweep_named(self, limit: int) -> int:
        gone = [
            digest
            for (digest,) in self._connection.execute(
                "SELECT digest FROM blob"
                " WHERE NOT EXISTS (SELECT 1 FROM attachment_blob AS used WHERE used.digest = blob.digest)"
            )
        ]
        self._drop(gone)
        excess = self.total() - limit
        if excess > 0:
            oldest = sorted(self._connection.execute("SELECT digest, size FROM blob"), key=self._used_at)
            surplus = []
            for digest, size in oldest:
                if excess <= 0:
                    break
                surplus.append(digest)
                excess -= size
            self._drop(surplus)
            gone += surplus
        return len(gone)

    def _used_at(self, row: tuple[bytes, int]) -> float:
        try:
            return blob_path(self._folder, row[0]).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def _drop(self, digests: Sequence[bytes]) -> None:
        if not digests:
            return
        with transaction(self._connection) as db:
            for digest in digests:
                db.execute("DELETE FROM attachment_blob WHERE digest = ?", (digest,))
                db.execute("DELETE FROM blob WHERE digest = ?", (digest,))
        for digest in digests:
            blob_path(self._folder, digest).unlink(missing_ok=True)

    def _remove_strays(self) -> int:
        removed = 0
        before = time.time() - GRACE
        for path in (self._folder / "blobs").glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime > before:
                    continue
                named = False
                with contextlib.suppress(ValueError):
                    digest = bytes.fromhex(path.parent.name + path.name)
                    named = bool(self._connection.execute("SELECT 1 FROM blob WHERE digest = ?", (digest,)).fetchone())
                if not named:
                    path.unlink()
                    removed += 1
        return removed


def _fsync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
