"""The mirror's file, written: every transaction BEGIN IMMEDIATE and short.

The rows of folders, messages and contents are in store_folders, store_messages, store_rebinding and store_contents.
"""

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from mirror.attempts import Attempts
from mirror.blobs import Blobs
from mirror.content_rows import earliest_id, renew_sort_keys
from mirror.database import connect, in_slices, private_folder, transaction, use_memory
from mirror.errors import MirrorCorrupt
from mirror.fold import FOLD_VERSION
from mirror.pace import utc_day
from mirror.query.merging import Between
from mirror.query.vocabulary import Vocabulary
from mirror.query.words import rebuild
from mirror.rest import Rest
from mirror.schema import migrate
from mirror.spool import sweep_spool
from mirror.store_cleanup import StoredCleanup
from mirror.store_contents import Hole, StoredContents
from mirror.store_folders import Checkpoint, FolderRow, StoredFolders
from mirror.store_rebinding import StoredRebinding

__all__ = ["Checkpoint", "FolderRow", "Hole", "Store"]

DISTRUST_SECONDS = 7 * 86_400.0
"""How long a capability that a server broke is not used with it."""


class Store(StoredFolders, StoredRebinding, StoredContents, StoredCleanup):
    """One mirror's file, for writing. Made and brought to the newest schema on opening; the folder is 0700.

    repair: set a damaged file aside under another name and begin an empty mirror, which upstream fills again
    (set_aside then names the old file), and make the index anew after a change of fold(). is_damaged: it is known to
    be damaged, though it may open. For the holder of the lock only. Raises MirrorCorrupt without it, and MirrorTooNew
    when a newer program wrote the file.
    """

    def __init__(self, folder: Path, *, repair: bool = False, is_damaged: bool = False) -> None:
        private_folder(folder)
        self.path = folder / "mirror.db"
        self.set_aside: Path | None = None
        if is_damaged and self.path.exists():
            self.set_aside = self._move_aside()
        try:
            self._connection = self._open()
        except MirrorCorrupt:
            if not repair:
                raise
            self.set_aside = self._move_aside()
            self._connection = self._open()
        self._vocabulary = Vocabulary()
        self._between = Between()
        self._inode = self.path.stat().st_ino
        if repair:
            self._fold_again()
            self.forget_set_aside()
            sweep_spool(folder)
        self.attempts = Attempts(self._connection)
        self.blobs = Blobs(folder, self._connection)
        self.rest = Rest(self._connection)

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = None
        try:
            connection = connect(self.path)
            migrate(connection)
            self._begin_mirror(connection)
            use_memory(connection)
        except sqlite3.DatabaseError as exc:
            if connection is not None:
                connection.close()
            if isinstance(exc, sqlite3.OperationalError) and "malformed" not in str(exc):
                raise
            raise MirrorCorrupt(f"{self.path}: {exc}") from exc
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        return connection

    @staticmethod
    def _begin_mirror(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR IGNORE INTO mirror (id, epoch, fold_version, cleaned_at) VALUES (1, ?, ?, ?)",
            (secrets.randbits(32), FOLD_VERSION, time.time()),
        )

    def _fold_again(self) -> None:
        """Make index and sort keys anew when another version of fold() made them. Cut short, it begins again."""
        db = self._connection
        if db.execute("SELECT fold_version FROM mirror").fetchone()[0] == FOLD_VERSION:
            return
        batches = rebuild(db)
        more = True
        while more:
            with transaction(db):
                more = next(batches, None) is not None
        ids = [row[0] for row in db.execute("SELECT id FROM content WHERE state >= 1 ORDER BY id").fetchall()]
        in_slices(db, ids, renew_sort_keys)
        db.execute("UPDATE mirror SET fold_version = ?", (FOLD_VERSION,))

    def _move_aside(self) -> Path:
        target = self.path.with_name(f"mirror.damaged-{time.strftime('%Y%m%d-%H%M%S')}.db")
        self.path.rename(target)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        return target

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def is_in_place(self) -> bool:
        """Whether the file that is open is still the one at its path."""
        try:
            return self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def shrink(self) -> None:
        """Let go of what a backlog is stored faster with: pages of the file, words that are known to be in it."""
        self._connection.execute("PRAGMA shrink_memory")
        self._vocabulary.forget()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # -- passes

    def want_pass(self) -> float:
        """Ask whoever keeps this mirror for a pass. Returns the time of asking, for `pass_since`."""
        now = time.time()
        self._connection.execute("UPDATE mirror SET pass_wanted_at = ?", (now,))
        return now

    def begin_pass(self) -> None:
        """A pass begins now."""
        self._connection.execute("UPDATE mirror SET pass_began_at = ?", (time.time(),))

    def end_pass(self, report: str, error: str, octets: int = 0) -> None:
        """The pass ended: its report as JSON, and why it failed in plain words ("" when it did not).

        octets: received and not counted yet.
        """
        self._connection.execute(
            "UPDATE mirror SET pass_ended_at = ?1, report = ?2, error = ?3, fetched_on = ?4,"
            " fetched = iif(fetched_on = ?4, fetched, 0) + ?5, fetched_ever = fetched_ever + ?5",
            (time.time(), report, error, utc_day(time.time()), octets),
        )

    def error(self) -> str:
        """Why the last pass failed, in plain words; "" when it did not."""
        return str(self._connection.execute("SELECT error FROM mirror").fetchone()[0])

    def pass_since(self, asked: float) -> tuple[str, str] | None:
        """(report, error) of a pass that began after this time and has ended; None as long as there is none."""
        row = self._connection.execute(
            "SELECT report, error FROM mirror WHERE pass_began_at >= ? AND pass_ended_at >= pass_began_at", (asked,)
        ).fetchone()
        return None if row is None else (row[0], row[1])

    # -- the account

    def distrusted(self) -> dict[str, str]:
        """Capabilities that this server broke lately, each with the reason."""
        held = json.loads(self._connection.execute("SELECT distrusted FROM mirror").fetchone()[0])
        return {name: reason for name, (until, reason) in held.items() if until > time.time()}

    def distrust(self, broken: Mapping[str, str]) -> None:
        """Remember capabilities that the server broke."""
        if not broken:
            return
        until = time.time() + DISTRUST_SECONDS
        held = {name: (until, reason) for name, reason in {**self.distrusted(), **broken}.items()}
        self._connection.execute("UPDATE mirror SET distrusted = ?", (json.dumps(held),))

    def set_account(self, rung: str, daily_bytes: int, since: datetime | None) -> None:
        """What of the server's extensions is in use, how much it lets an account fetch in a day, what is mirrored."""
        self._connection.execute(
            "UPDATE mirror SET rung = ?1, daily_bytes = ?2, mirrored_from = ?3"
            " WHERE (rung, daily_bytes, mirrored_from) <> (?1, ?2, ?3)",
            (rung, daily_bytes, earliest_id(since)),
        )

    def add_fetched(self, octets: int, rate: float = 0.0) -> int:
        """Count octets received. Returns how many there are today, in UTC.

        rate: how many octets of texts a second are being fetched, where that is known.
        """
        row = self._connection.execute(
            "UPDATE mirror SET fetch_rate = iif(?1 > 0, ?1, fetch_rate), fetched_on = ?2,"
            " fetched = iif(fetched_on = ?2, fetched, 0) + ?3, fetched_ever = fetched_ever + ?3 RETURNING fetched",
            (rate, utc_day(time.time()), octets),
        ).fetchone()
        return int(row[0])
