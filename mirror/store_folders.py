"""The folder rows of a mirror."""

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.database import in_slices, transaction
from mirror.listing import ListedFolder
from mirror.store_messages import StoredMessages

_COLUMNS = (
    "id, raw, name, role, selectable, wanted, generation, uidvalidity, uidnext, highestmodseq, upstream_messages,"
    " enumerated, reconciled_at, as_of, mailbox_id, missing, error, closed_until, resets, reset_at"
)


@dataclass(frozen=True, slots=True)
class FolderRow:
    """What the sync remembers of a folder.

    missing: how many passes in a row did not list it. closed_until, resets, reset_at: see `mirror.schema`.
    """

    id: int
    raw: bytes
    name: str
    role: str
    selectable: bool
    wanted: bool
    generation: int
    uidvalidity: int | None
    uidnext: int | None
    highestmodseq: int | None
    upstream_messages: int | None
    enumerated: bool
    reconciled_at: float | None
    as_of: float | None
    mailbox_id: str
    missing: int
    error: str
    closed_until: float
    resets: int
    reset_at: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the server said of a folder at the start of a pass that completed."""

    uidvalidity: int
    uidnext: int | None
    highestmodseq: int | None
    messages: int


class StoredFolders(StoredMessages):
    """Writes folder rows."""

    _connection: sqlite3.Connection

    def folders(self, *, missing: bool = False) -> list[FolderRow]:
        """Every folder known, INBOX first, then by name. missing: those too that the last pass did not list."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM folder WHERE missing = 0 OR ? ORDER BY upper(name) <> 'INBOX', name",  # noqa: S608 - our own columns
            (missing,),
        )
        return [FolderRow(*row) for row in rows]

    def folder(self, folder_id: int) -> FolderRow | None:
        """One folder as it is now."""
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM folder WHERE id = ?", (folder_id,)).fetchone()  # noqa: S608 - our own columns
        return None if row is None else FolderRow(*row)

    def set_folders(
        self, listed: Sequence[ListedFolder], *, drop_missing_after: int = 2, count_missing: bool = True
    ) -> list[str]:
        """Adopt a complete LIST. A folder is dropped only when it is missing from that many passes in a row.

        count_missing: False for a further LIST of the same pass. Returns the names of the folders dropped.
        """
        if self._knows(listed):
            return []
        with transaction(self._connection) as db:
            present = {folder.raw for folder in listed}
            for folder_id, raw in db.execute("SELECT id, raw FROM folder").fetchall():
                if raw not in present:
                    db.execute(
                        "UPDATE folder SET missing = iif(?, missing + 1, max(missing, 1)) WHERE id = ?",
                        (count_missing, folder_id),
                    )
            taken = dict(db.execute("SELECT name, raw FROM folder"))
            for folder in listed:
                _set_folder(db, folder, taken)
            gone = db.execute("SELECT id, name FROM folder WHERE missing >= ?", (drop_missing_after,)).fetchall()
        for folder_id, _ in gone:
            self.drop_folder(folder_id)
        return [name for _, name in gone]

    def _knows(self, listed: Sequence[ListedFolder]) -> bool:
        """Whether the rows say what was listed already, and nothing else."""
        rows = self._connection.execute(
            "SELECT raw, name, delimiter, attributes, role, selectable, wanted FROM folder WHERE missing = 0"
            " UNION ALL SELECT raw, NULL, NULL, NULL, NULL, NULL, NULL FROM folder WHERE missing"
        )
        return {row[0]: row for row in rows} == {folder.raw: _row_of(folder, folder.name) for folder in listed}

    def add_folder(self, folder: ListedFolder) -> None:
        """Adopt a folder that we have made; the others stay as they are."""
        with transaction(self._connection) as db:
            _set_folder(db, folder, dict(db.execute("SELECT name, raw FROM folder")))

    def drop_folder(self, folder_id: int) -> None:
        """Forget a folder. Its content stays for a while: it may turn up elsewhere."""
        self.remove_all(folder_id)
        self._connection.execute("DELETE FROM folder WHERE id = ?", (folder_id,))

    def rename_folders(self, renamed: Mapping[int, ListedFolder]) -> None:
        """Folders go on under other names, with all their messages, whoever had those names before.

        Each is compared with upstream in full by the pass that follows: the rename was recognised, not announced.
        """
        raws = {folder.raw for folder in renamed.values()}
        names = {folder.name for folder in renamed.values()}
        for folder in self.folders(missing=True):
            if folder.raw in raws and folder.id not in renamed:
                self.drop_folder(folder.id)
        with transaction(self._connection) as db:
            for folder_id, raw, name in db.execute("SELECT id, raw, name FROM folder").fetchall():
                if folder_id in renamed or name in names:
                    # Out of the way first: two folders may have changed names with each other.
                    aside = raw if folder_id not in renamed else b"\0%d" % folder_id
                    db.execute("UPDATE folder SET raw = ?, name = ? WHERE id = ?", (aside, f"\0{folder_id}", folder_id))
            taken = dict(db.execute("SELECT name, raw FROM folder"))
            for folder_id, to in renamed.items():
                db.execute(
                    "UPDATE folder SET raw = ?, name = ?, missing = 0, role = ?, enumerated = 0 WHERE id = ?",
                    (to.raw, _free_name(to, taken), to.role, folder_id),
                )

    def set_mailbox_ids(self, ids: Mapping[bytes, str]) -> None:
        """What the server calls each folder, by raw name, for good (RFC 8474)."""
        in_slices(
            self._connection,
            ids.items(),
            lambda db, item: (
                db.execute(
                    "UPDATE folder SET mailbox_id = ?1 WHERE raw = ?2 AND mailbox_id <> ?1", (item[1], item[0])
                ).rowcount
            ),
        )

    def set_folder_error(self, folder_id: int, error: str, *, closed_until: float = 0.0) -> None:
        """Remember why a folder could not be synced ("" for no fault), and that it is not to be opened until then."""
        self._connection.execute(
            "UPDATE folder SET error = ?1, closed_until = ?2 WHERE id = ?3 AND (error, closed_until) <> (?1, ?2)",
            (error, closed_until, folder_id),
        )

    def checkpoint(self, folder_id: int, seen: Checkpoint, *, reconciled: bool, enumerated: bool = True) -> None:
        """A pass over this folder completed and agrees with upstream."""
        now = time.time()
        self._connection.execute(
            "UPDATE folder SET uidvalidity = ?, uidnext = ?, highestmodseq = ?, upstream_messages = ?, as_of = ?,"
            " enumerated = ?, error = '', closed_until = 0,"
            " reconciled_at = CASE WHEN ? THEN ? ELSE reconciled_at END WHERE id = ?",
            (
                seen.uidvalidity, seen.uidnext, seen.highestmodseq, seen.messages, now,
                enumerated, reconciled, now, folder_id,
            ),
        )  # fmt: skip

    def touch(self, folder_ids: Sequence[int]) -> None:
        """These folders were found unchanged just now."""
        now = time.time()
        with transaction(self._connection) as db:
            db.executemany(
                "UPDATE folder SET as_of = ?, error = '', closed_until = 0, resets = 0 WHERE id = ?",
                [(now, folder) for folder in folder_ids],
            )

    def set_steady(self, folder_id: int) -> None:
        """A folder was opened and had the UIDVALIDITY it had before."""
        self._connection.execute("UPDATE folder SET resets = 0 WHERE id = ? AND resets", (folder_id,))

    def set_uidvalidity(self, folder_id: int, uidvalidity: int) -> None:
        """A folder opened for the first time: what its uids count within."""
        self._connection.execute("UPDATE folder SET uidvalidity = ? WHERE id = ?", (uidvalidity, folder_id))


def _set_folder(db: sqlite3.Connection, folder: ListedFolder, taken: dict[str, bytes]) -> None:
    name = _free_name(folder, taken)
    db.execute(
        "INSERT INTO folder (raw, name, delimiter, attributes, role, selectable, wanted)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (raw) DO UPDATE SET missing = 0, name = excluded.name,"
        " delimiter = excluded.delimiter, attributes = excluded.attributes, role = excluded.role,"
        " selectable = excluded.selectable, wanted = excluded.wanted",
        _row_of(folder, name),
    )


def _row_of(folder: ListedFolder, name: str) -> tuple[bytes, str, str | None, str, str, bool, bool]:
    attributes = json.dumps(folder.attributes)
    return folder.raw, name, folder.delimiter, attributes, folder.role, folder.selectable, folder.wanted


def _free_name(folder: ListedFolder, taken: dict[str, bytes]) -> str:
    """The folder's name, marked where another folder shows the same one; taken is brought up to date."""
    name = folder.name
    while taken.get(name, folder.raw) != folder.raw:
        name += "'"
    taken[name] = folder.raw
    return name
