"""The mirror's file, written: one transaction per call, every one of them BEGIN IMMEDIATE and short.

A message's content goes through the states of `mirror.mirrored.State`. The rows are the checkpoint: what is not yet
TEXT is what is still to fetch, so that a sync can be cut at any point and resumed from what is stored.
"""

import json
import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mirror.attempts import Attempts
from mirror.blobs import Blobs
from mirror.content import CONTENT_VERSION, Content, Envelope
from mirror.content_rows import add_content, drop_contents, moment, write_envelope, write_text
from mirror.database import connect, private_folder, transaction
from mirror.errors import MirrorCorrupt
from mirror.fold import FOLD_VERSION
from mirror.listing import Listed, ListedFolder, Place
from mirror.mirrored import State
from mirror.query.words import index, unindex
from mirror.schema import migrate

ORPHAN_GRACE = 600.0
"""Seconds that content without a message is kept, so that a move seen later re-uses it."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A message whose content is still to fetch."""

    message: int
    content: int
    uid: int
    size: int
    state: int


@dataclass(frozen=True, slots=True)
class FolderRow:
    """What the sync remembers of a folder."""

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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the server said of a folder at the start of a pass that completed."""

    uidvalidity: int
    uidnext: int | None
    highestmodseq: int | None
    messages: int


class Store:
    """One mirror's file, for writing. Made and brought to the newest schema on opening; the folder is 0700.

    repair: set a damaged file aside under another name and begin an empty mirror, which upstream fills again; set_aside
    then names the old file. For the holder of the mirror's lock only. Raises MirrorCorrupt without it, and MirrorTooNew
    when a newer program wrote the file.
    """

    def __init__(self, folder: Path, *, repair: bool = False) -> None:
        private_folder(folder)
        self.path = folder / "mirror.db"
        self.set_aside: Path | None = None
        try:
            self._connection = self._open()
        except MirrorCorrupt:
            if not repair:
                raise
            self.set_aside = self._move_aside()
            self._connection = self._open()
        self.attempts = Attempts(self._connection)
        self.blobs = Blobs(folder, self._connection)

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = None
        try:
            connection = connect(self.path)
            migrate(connection)
            self._begin_mirror(connection)
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
            "INSERT OR IGNORE INTO mirror (id, epoch, fold_version) VALUES (1, ?, ?)",
            (secrets.randbits(32), FOLD_VERSION),
        )
        if connection.execute("SELECT fold_version FROM mirror").fetchone()[0] != FOLD_VERSION:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO fts (fts) VALUES ('rebuild')")
            connection.execute("UPDATE mirror SET fold_version = ?", (FOLD_VERSION,))
            connection.execute("COMMIT")

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

    def end_pass(self, report: str, error: str) -> None:
        """The pass ended: its report as JSON, and why it failed in plain words ("" when it did not)."""
        self._connection.execute(
            "UPDATE mirror SET pass_ended_at = ?, report = ?, error = ?", (time.time(), report, error)
        )

    def pass_since(self, asked: float) -> tuple[str, str] | None:
        """(report, error) of a pass that began after this time and has ended; None as long as there is none."""
        row = self._connection.execute(
            "SELECT report, error FROM mirror WHERE pass_began_at >= ? AND pass_ended_at >= pass_began_at", (asked,)
        ).fetchone()
        return None if row is None else (row[0], row[1])

    # -- folders

    def folders(self) -> list[FolderRow]:
        """Every folder known, INBOX first, then by name."""
        rows = self._connection.execute(
            "SELECT id, raw, name, role, selectable, wanted, generation, uidvalidity, uidnext, highestmodseq,"
            " upstream_messages, enumerated, reconciled_at, as_of FROM folder WHERE missing = 0"
            " ORDER BY upper(name) <> 'INBOX', name"
        )
        return [FolderRow(*row) for row in rows]

    def set_folders(self, listed: Sequence[ListedFolder], *, drop_missing_after: int = 2) -> list[str]:
        """Adopt a complete LIST. A folder is dropped only when it is missing from that many of them in a row.

        Returns the names of the folders dropped.
        """
        with transaction(self._connection) as db:
            known = {raw: folder for folder, raw in db.execute("SELECT id, raw FROM folder")}
            present = {folder.raw for folder in listed}
            for raw, folder_id in known.items():
                if raw not in present:
                    db.execute("UPDATE folder SET missing = missing + 1 WHERE id = ?", (folder_id,))
            taken = dict(db.execute("SELECT name, raw FROM folder"))
            for folder in listed:
                name = folder.name
                while taken.get(name, folder.raw) != folder.raw:
                    name += "'"
                taken[name] = folder.raw
                db.execute(
                    "INSERT INTO folder (raw, name, delimiter, attributes, role, selectable, wanted)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (raw) DO UPDATE SET missing = 0, name = excluded.name,"
                    " delimiter = excluded.delimiter, attributes = excluded.attributes, role = excluded.role,"
                    " selectable = excluded.selectable, wanted = excluded.wanted",
                    (
                        folder.raw, name, folder.delimiter, json.dumps(folder.attributes), folder.role,
                        folder.selectable, folder.wanted,
                    ),
                )  # fmt: skip
            gone = db.execute("SELECT id, name FROM folder WHERE missing >= ?", (drop_missing_after,)).fetchall()
            for folder_id, _ in gone:
                self._unlink(
                    db, [row[0] for row in db.execute("SELECT id FROM message WHERE folder = ?", (folder_id,))]
                )
                db.execute("DELETE FROM folder WHERE id = ?", (folder_id,))
        return [name for _, name in gone]

    def rename_folder(self, folder_id: int, renamed: ListedFolder) -> None:
        """The folder goes on under another name, with all its messages."""
        with transaction(self._connection) as db:
            db.execute("DELETE FROM folder WHERE raw = ? AND id <> ?", (renamed.raw, folder_id))
            db.execute(
                "UPDATE folder SET raw = ?, name = ?, missing = 0, role = ? WHERE id = ?",
                (renamed.raw, renamed.name, renamed.role, folder_id),
            )

    def set_folder_error(self, folder_id: int, error: str) -> None:
        """Remember why a folder could not be synced ("" for no fault)."""
        self._connection.execute("UPDATE folder SET error = ? WHERE id = ? AND error <> ?", (error, folder_id, error))

    def checkpoint(self, folder_id: int, seen: Checkpoint, *, reconciled: bool, enumerated: bool = True) -> None:
        """A pass over this folder completed and agrees with upstream."""
        now = time.time()
        with transaction(self._connection) as db:
            db.execute(
                "UPDATE folder SET uidvalidity = ?, uidnext = ?, highestmodseq = ?, upstream_messages = ?, as_of = ?,"
                " enumerated = ?, error = '', reconciled_at = CASE WHEN ? THEN ? ELSE reconciled_at END WHERE id = ?",
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
                "UPDATE folder SET as_of = ?, error = '' WHERE id = ?", [(now, folder) for folder in folder_ids]
            )

    def set_uidvalidity(self, folder_id: int, uidvalidity: int) -> None:
        """A folder opened for the first time: what its uids count within."""
        self._connection.execute("UPDATE folder SET uidvalidity = ? WHERE id = ?", (uidvalidity, folder_id))

    # -- messages

    def uids(self, folder_id: int) -> dict[int, int]:
        """Message id by uid of every message in a folder."""
        return dict(self._connection.execute("SELECT uid, id FROM message WHERE folder = ?", (folder_id,)))

    def count(self, folder_id: int) -> int:
        """How many messages a folder has here."""
        return int(
            self._connection.execute("SELECT count(*) FROM message WHERE folder = ?", (folder_id,)).fetchone()[0]
        )

    def add_listed(self, folder_id: int, listed: Iterable[Listed]) -> int:
        """Add messages of a folder, known by uid, flags, date and size only; known uids are left alone.

        Returns how many were new.
        """
        added = 0
        ordered = sorted(listed, key=lambda message: (message.internaldate, message.uid))
        with transaction(self._connection) as db:
            generation = db.execute("SELECT generation FROM folder WHERE id = ?", (folder_id,)).fetchone()[0]
            next_free: dict[int, int] = {}
            for message in ordered:
                known = db.execute("SELECT 1 FROM message WHERE folder = ? AND uid = ?", (folder_id, message.uid))
                if known.fetchone() is None:
                    content = add_content(db, message, next_free)
                    self._insert_message(db, folder_id, generation, message, content)
                    added += 1
        return added

    @staticmethod
    def _insert_message(db: sqlite3.Connection, folder_id: int, generation: int, message: Listed, content: int) -> None:
        db.execute(
            "INSERT INTO message (folder, content, uid, generation, flags, modseq) VALUES (?, ?, ?, ?, ?, ?)",
            (folder_id, content, message.uid, generation, _flags_json(message.flags), message.modseq),
        )

    def update_flags(self, folder_id: int, changed: Iterable[tuple[int, Sequence[str], int]], pass_began: float) -> int:
        """Adopt (uid, flags, modseq) of a sync pass that began at pass_began. Returns how many rows changed.

        Data older than a write of ours (a lower modseq, or a pass that began before it) does not undo it.
        """
        count = 0
        with transaction(self._connection) as db:
            for uid, flags, modseq in changed:
                cursor = db.execute(
                    "UPDATE message SET flags = ?, modseq = max(modseq, ?) WHERE folder = ? AND uid = ?"
                    " AND flags <> ? AND (flags_written_at < ? OR (? > modseq AND modseq > 0))",
                    (_flags_json(flags), modseq, folder_id, uid, _flags_json(flags), pass_began, modseq),
                )
                count += cursor.rowcount
        return count

    def set_flags(self, message_id: int, flags: Collection[str], modseq: int = 0) -> None:
        """Flags that upstream has just confirmed for a write of ours."""
        self._connection.execute(
            "UPDATE message SET flags = ?, modseq = max(modseq, ?), flags_written_at = ? WHERE id = ?",
            (_flags_json(flags), modseq, time.time(), message_id),
        )

    def remove(self, folder_id: int, uids: Collection[int]) -> int:
        """Messages that upstream no longer has. Their content stays for a while: a move may be found."""
        with transaction(self._connection) as db:
            found = [
                row[0]
                for uid in uids
                for row in db.execute("SELECT id FROM message WHERE folder = ? AND uid = ?", (folder_id, uid))
            ]
            self._unlink(db, found)
        return len(found)

    def remove_all(self, folder_id: int) -> int:
        """Empty a folder that is no longer mirrored."""
        if not self.count(folder_id):
            return 0
        removed = self.remove(folder_id, self.uids(folder_id))
        self._connection.execute("UPDATE folder SET enumerated = 0, as_of = NULL WHERE id = ?", (folder_id,))
        return removed

    @staticmethod
    def _unlink(db: sqlite3.Connection, message_ids: Sequence[int]) -> None:
        now = time.time()
        for message_id in message_ids:
            content = db.execute("DELETE FROM message WHERE id = ? RETURNING content", (message_id,)).fetchone()[0]
            db.execute("INSERT OR REPLACE INTO departed VALUES (?, ?, ?)", (message_id, content, now))
            db.execute(
                "UPDATE content SET orphaned_at = ? WHERE id = ?"
                " AND NOT EXISTS (SELECT 1 FROM message WHERE content = content.id)",
                (now, content),
            )

    def sweep(self, *, before: float | None = None) -> int:
        """Delete content that no message has used since then (default: the grace period). Returns how many."""
        limit = time.time() - ORPHAN_GRACE if before is None else before
        total = 0
        while True:
            with transaction(self._connection) as db:
                rows = db.execute(
                    "SELECT id FROM content WHERE orphaned_at <= ? ORDER BY id LIMIT 250", (limit,)
                ).fetchall()
                db.execute("DELETE FROM departed WHERE at <= ?", (limit,))
                drop_contents(db, [row[0] for row in rows])
            total += len(rows)
            if len(rows) < 250:
                return total

    def place(self, message_id: int) -> Place | None:
        """Where a message is upstream; None when the mirror no longer has it."""
        row = self._connection.execute(
            "SELECT folder.raw, folder.uidvalidity, message.uid, content.size, content.internaldate,"
            " content.internaldate_zone FROM message JOIN folder ON folder.id = message.folder"
            " JOIN content ON content.id = message.content WHERE message.id = ?",
            (message_id,),
        ).fetchone()
        if row is None:
            return None
        return Place(row[0], row[1], row[2], row[3], moment(row[4], row[5]))

    # -- content

    def holes(self, folder_id: int, state: State, limit: int, *, since: datetime | None = None) -> list[Hole]:
        """Messages of a folder whose content is below a state, newest first; those to be tried later are left out."""
        rows = self._connection.execute(
            "SELECT message.id, content.id, message.uid, content.size, content.state"
            " FROM content CROSS JOIN message ON message.content = content.id AND message.folder = ?"
            " WHERE content.state < 2 AND content.state < ? AND content.internaldate >= ?"
            " AND NOT EXISTS (SELECT 1 FROM attempt WHERE attempt.content = content.id AND next_try > ?)"
            " ORDER BY content.id DESC LIMIT ?",
            (folder_id, int(state), _since_seconds(since), time.time(), limit),
        )
        return [Hole(*row) for row in rows]

    def count_holes(self, folder_id: int, *, since: datetime | None = None) -> int:
        """How many messages of a folder have no text yet."""
        row = self._connection.execute(
            "SELECT count(*) FROM content CROSS JOIN message ON message.content = content.id AND message.folder = ?"
            " WHERE content.state < 2 AND content.internaldate >= ?",
            (folder_id, _since_seconds(since)),
        ).fetchone()
        return int(row[0])

    def wanted_holes(self, limit: int) -> list[tuple[int, Hole]]:
        """(folder id, hole) of messages a reader waits for; a wish that cannot be granted any more is dropped."""
        with transaction(self._connection) as db:
            db.execute(
                "DELETE FROM wanted WHERE at < ?"
                " OR NOT EXISTS (SELECT 1 FROM content WHERE id = wanted.content AND state < 2)",
                (time.time() - 60,),
            )
            rows = db.execute(
                "SELECT message.folder, message.id, content.id, message.uid, content.size, content.state FROM wanted"
                " JOIN content ON content.id = wanted.content JOIN message ON message.content = content.id"
                " GROUP BY content.id LIMIT ?",
                (limit,),
            ).fetchall()
        return [(row[0], Hole(*row[1:])) for row in rows]

    def want(self, content_id: int) -> None:
        """A reader waits for the text of this content."""
        self._connection.execute("INSERT OR REPLACE INTO wanted VALUES (?, ?)", (content_id, time.time()))

    def set_envelopes(self, envelopes: Iterable[tuple[int, Envelope]]) -> None:
        """Envelopes read from header blocks: (content id, envelope). They are listed from now on."""
        with transaction(self._connection) as db:
            for content_id, envelope in sorted(envelopes, key=lambda pair: pair[0]):
                write_envelope(db, content_id, envelope, State.HEADERS)

    def set_texts(self, contents: Iterable[tuple[int, bytes, Content]]) -> None:
        """Parsed contents: (content id, SHA-256 of the raw message, content). They are searchable from now on.

        A copy (equal digest and INTERNALDATE) gives its messages to the content that is already stored.
        """
        with transaction(self._connection) as db:
            written = []
            for content_id, digest, content in sorted(contents, key=lambda item: item[0]):
                if db.execute("SELECT 1 FROM content WHERE id = ? AND state < 2", (content_id,)).fetchone() is None:
                    continue
                twin = db.execute(
                    "SELECT other.id FROM content AS other, content AS own WHERE own.id = ? AND other.digest = ?"
                    " AND other.internaldate = own.internaldate AND other.id <> own.id AND other.state >= 2",
                    (content_id, digest),
                ).fetchone()
                if twin is not None and self._merge(db, content_id, twin[0]):
                    continue
                write_text(db, content_id, digest, content)
                db.execute("DELETE FROM attempt WHERE content = ?", (content_id,))
                written.append(content_id)
            index(db, written)

    def _merge(self, db: sqlite3.Connection, content_id: int, twin: int) -> bool:
        """Hand the messages of a content to its twin; a departed message of the twin lends its id (a move)."""
        clash = db.execute(
            "SELECT 1 FROM message AS a, message AS b WHERE a.content = ? AND b.content = ? AND a.folder = b.folder"
            " AND a.uid = b.uid",
            (content_id, twin),
        ).fetchone()
        if clash is not None:
            return False
        for (message_id,) in db.execute("SELECT id FROM message WHERE content = ?", (content_id,)).fetchall():
            departed = db.execute("SELECT message FROM departed WHERE content = ? ORDER BY at DESC", (twin,)).fetchone()
            if departed is None:
                db.execute("UPDATE message SET content = ? WHERE id = ?", (twin, message_id))
            else:
                db.execute("DELETE FROM departed WHERE message = ?", departed)
                db.execute("UPDATE message SET id = ?, content = ? WHERE id = ?", (departed[0], twin, message_id))
        db.execute("UPDATE content SET orphaned_at = NULL WHERE id = ?", (twin,))
        db.execute("DELETE FROM content WHERE id = ?", (content_id,))
        return True

    def outdated(self, limit: int) -> list[tuple[int, bytes]]:
        """(content id, source) of contents that an older version of the cleaning rules made, newest first."""
        rows = self._connection.execute(
            "SELECT content.id, body.source FROM content JOIN body ON body.content = content.id"
            " WHERE content.state >= 2 AND content.content_version < ? AND body.source IS NOT NULL"
            " ORDER BY content.id DESC LIMIT ?",
            (CONTENT_VERSION, limit),
        )
        return [(content, source) for content, source in rows]

    def replace_texts(self, contents: Iterable[tuple[int, Content | None]]) -> None:
        """Contents cleaned again (content id, content); None leaves the old form, and does not try again."""
        with transaction(self._connection) as db:
            for content_id, content in sorted(contents, key=lambda item: item[0]):
                row = db.execute("SELECT digest FROM content WHERE id = ? AND state >= 2", (content_id,)).fetchone()
                if row is None:
                    continue
                if content is None:
                    db.execute("UPDATE content SET content_version = ? WHERE id = ?", (CONTENT_VERSION, content_id))
                    continue
                unindex(db, [content_id])
                db.execute("UPDATE content SET state = 2 WHERE id = ?", (content_id,))
                write_text(db, content_id, row[0], content)
                index(db, [content_id])

    def normalised(self, limit: int) -> list[tuple[int, str]]:
        """(content id, normalised HTML) of contents whose sanitized form is still to make, newest first."""
        rows = self._connection.execute(
            "SELECT content.id, body.normalised FROM content JOIN body ON body.content = content.id"
            " WHERE content.state = 2 ORDER BY content.id DESC LIMIT ?",
            (limit,),
        )
        return [(content, zlib.decompress(form).decode("utf-8")) for content, form in rows]

    def set_html(self, forms: Iterable[tuple[int, str]]) -> None:
        """Sanitized HTML forms: (content id, HTML or "" for none)."""
        with transaction(self._connection) as db:
            for content_id, html in forms:
                stored = zlib.compress(html.encode("utf-8"), 6) if html else None
                db.execute("UPDATE body SET html = ?, normalised = NULL WHERE content = ?", (stored, content_id))
                db.execute("UPDATE content SET state = 3 WHERE id = ? AND state = 2", (content_id,))

    # -- re-binding after a UIDVALIDITY change

    def rebind(self, folder_id: int, uidvalidity: int, listed: Sequence[tuple[Listed, str]]) -> int:
        """Give the messages of a folder the uids of a new UIDVALIDITY; listed is all upstream has, with Message-IDs.

        A message is the same one when Message-ID, size and INTERNALDATE are equal, multiset-wise; it keeps its id,
        flags of upstream are adopted. The rest of the old rows go, what is new is added. Returns how many were kept.
        """
        with transaction(self._connection) as db:
            db.execute(
                "UPDATE folder SET uidvalidity = ?, generation = generation + 1, enumerated = 0 WHERE id = ?",
                (uidvalidity, folder_id),
            )
            generation = db.execute("SELECT generation FROM folder WHERE id = ?", (folder_id,)).fetchone()[0]
            old: dict[tuple[str, int, int], list[int]] = {}
            for message_id, *key in db.execute(
                "SELECT message.id, content.message_id, content.size, content.internaldate FROM message"
                " JOIN content ON content.id = message.content WHERE message.folder = ? AND content.state >= 1"
                " ORDER BY message.uid DESC",
                (folder_id,),
            ).fetchall():
                old.setdefault((key[0], key[1], key[2]), []).append(message_id)
            db.execute("UPDATE message SET uid = -id WHERE folder = ?", (folder_id,))
            next_free: dict[int, int] = {}
            kept = 0
            for message, rfc_id in sorted(listed, key=lambda pair: (pair[0].internaldate, pair[0].uid)):
                same = old.get((rfc_id, message.size, int(message.internaldate.timestamp())))
                if same:
                    kept += 1
                    db.execute(
                        "UPDATE message SET uid = ?, generation = ?, flags = ?, modseq = ? WHERE id = ?",
                        (message.uid, generation, _flags_json(message.flags), message.modseq, same.pop()),
                    )
                else:
                    self._insert_message(db, folder_id, generation, message, add_content(db, message, next_free))
            self._unlink(
                db, [row[0] for row in db.execute("SELECT id FROM message WHERE folder = ? AND uid < 0", (folder_id,))]
            )
        return kept


def _flags_json(flags: Iterable[str]) -> str:
    return json.dumps(sorted(set(flags)), ensure_ascii=False)


def _since_seconds(since: datetime | None) -> int:
    return -(2**62) if since is None else int(since.timestamp())
