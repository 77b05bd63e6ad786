"""The message rows of a mirror: which messages a folder has, by uid, and their flags."""

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from mirror.content_rows import add_content
from mirror.database import in_slices, transaction
from mirror.listing import Listed, Place
from mirror.query.rows import place

FlagsLine = tuple[int, Sequence[str], int]
"""uid, flags, modseq."""


class StoredMessages:
    """Writes message rows."""

    _connection: sqlite3.Connection

    def uids(self, folder_id: int) -> set[int]:
        """The uid of every message in a folder."""
        return {
            row[0]
            for row in self._connection.execute("SELECT uid FROM message WHERE folder = ? AND uid > 0", (folder_id,))
        }

    def uids_within(self, folder_id: int, ranges: Iterable[tuple[int, int]]) -> set[int]:
        """The uids a folder has here within these runs, however long they are."""
        return {
            row[0]
            for first, last in ranges
            for row in self._connection.execute(
                "SELECT uid FROM message WHERE folder = ? AND uid BETWEEN ? AND ?", (folder_id, max(1, first), last)
            )
        }

    def highest_uid(self, folder_id: int) -> int:
        """The highest uid of a folder; 0 when it has none."""
        row = self._connection.execute(
            "SELECT uid FROM message WHERE folder = ? AND uid > 0 ORDER BY uid DESC LIMIT 1", (folder_id,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def uid_before(self, folder_id: int, newest: int) -> int:
        """The lowest uid of the newest so many of a folder; 1 when it has no more than these."""
        row = self._connection.execute(
            "SELECT uid FROM message WHERE folder = ? AND uid > 0 ORDER BY uid DESC LIMIT 1 OFFSET ?",
            (folder_id, newest - 1),
        ).fetchone()
        return 1 if row is None else int(row[0])

    def known(self, folder_id: int, first: int, last: int) -> dict[int, tuple[int, int, str]]:
        """(size, INTERNALDATE in seconds, Message-ID) by uid, of a run of uids."""
        rows = self._connection.execute(
            "SELECT message.uid, content.size, content.internaldate, content.message_id FROM message"
            " JOIN content ON content.id = message.content WHERE message.folder = ? AND message.uid BETWEEN ? AND ?",
            (folder_id, first, last),
        )
        return {uid: (size, at, message_id) for uid, size, at, message_id in rows}

    def count(self, folder_id: int) -> int:
        """How many messages a folder has here, those of an earlier UIDVALIDITY that have no uid yet left out."""
        return int(
            self._connection.execute(
                "SELECT count(*) FROM message WHERE folder = ? AND uid > 0", (folder_id,)
            ).fetchone()[0]
        )

    def add_listed(self, folder_id: int, listed: Iterable[Listed]) -> int:
        """Add messages of a folder, known by uid, flags, date and size only; known uids are left alone.

        One whose email id is known shares that content, and takes over the id of a message that left it: a move.
        Returns how many were new.
        """
        ordered = sorted(listed, key=lambda message: (message.internaldate, message.uid))
        if not ordered:
            return 0
        generation = self._generation(folder_id)
        next_free: dict[int, int] = {}

        def add(db: sqlite3.Connection, message: Listed) -> int:
            known = db.execute("SELECT 1 FROM message WHERE folder = ? AND uid = ?", (folder_id, message.uid))
            if known.fetchone() is not None:
                return 0
            self._insert(db, folder_id, generation, message, next_free)
            return 1

        return in_slices(self._connection, ordered, add)

    def _generation(self, folder_id: int) -> int:
        return int(self._connection.execute("SELECT generation FROM folder WHERE id = ?", (folder_id,)).fetchone()[0])

    @staticmethod
    def _insert(
        db: sqlite3.Connection, folder_id: int, generation: int, message: Listed, next_free: dict[int, int]
    ) -> None:
        content = departed = None
        if message.email_id:
            row = db.execute(
                "SELECT id FROM content WHERE email_id = ? AND internaldate = ?",
                (message.email_id, int(message.internaldate.timestamp())),
            ).fetchone()
            if row is not None:
                content = row[0]
                departed = take_over(db, content, folder_id)
                db.execute("UPDATE content SET orphaned_at = NULL WHERE id = ?", (content,))
        if content is None:
            content = add_content(db, message, next_free)
        db.execute(
            "INSERT INTO message (id, folder, content, uid, generation, flags, modseq) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (departed, folder_id, content, message.uid, generation, flags_json(message.flags), message.modseq),
        )

    def set_sizes(self, folder_id: int, sizes: Iterable[tuple[int, int]]) -> None:
        """(uid, size) of messages that are the same although the server now says another size (Exchange)."""
        in_slices(
            self._connection,
            sizes,
            lambda db, pair: (
                db.execute(
                    "UPDATE content SET size = ? WHERE id = (SELECT content FROM message WHERE folder = ? AND uid = ?)",
                    (pair[1], folder_id, pair[0]),
                ).rowcount
            ),
        )

    def update_flags(self, folder_id: int, changed: Iterable[FlagsLine], pass_began: float) -> int:
        """Adopt (uid, flags, modseq) of a sync pass that began at pass_began. Returns how many rows changed.

        Data older than a write of ours (a lower modseq, or a pass that began before it) does not undo it.
        """

        def adopt(db: sqlite3.Connection, line: FlagsLine) -> int:
            uid, flags, modseq = line
            return db.execute(
                "UPDATE message SET flags = ?1, modseq = max(modseq, ?2) WHERE folder = ?3 AND uid = ?4"
                " AND flags <> ?1 AND (flags_written_at < ?5 OR (?2 > modseq AND modseq > 0))",
                (flags_json(flags), modseq, folder_id, uid, pass_began),
            ).rowcount

        return in_slices(self._connection, changed, adopt)

    def set_flags(self, message_id: int, flags: Collection[str], modseq: int = 0) -> None:
        """Flags that upstream has just confirmed for a write of ours."""
        self._connection.execute(
            "UPDATE message SET flags = ?, modseq = max(modseq, ?), flags_written_at = ? WHERE id = ?",
            (flags_json(flags), modseq, time.time(), message_id),
        )

    def move(self, message_id: int, folder_id: int, uidvalidity: int | None, uid: int | None) -> bool:
        """Adopt a move of ours: the message goes on in another folder. Whether its place there is known.

        When it is not (the server did not say, or numbers that folder anew), the message leaves, and gets its id back
        when a sync finds it.
        """
        with transaction(self._connection) as db:
            found = db.execute(
                "SELECT generation FROM folder WHERE id = ? AND uidvalidity = ?", (folder_id, uidvalidity)
            ).fetchone()
            if found is None or uid is None:
                unlink(db, message_id)
                return False
            # A sync that was quicker has listed it already, under an id that nobody was told.
            for (other,) in db.execute(
                "SELECT id FROM message WHERE folder = ? AND uid = ? AND id <> ?", (folder_id, uid, message_id)
            ).fetchall():
                unlink(db, other)
                db.execute("DELETE FROM departed WHERE message = ?", (other,))
            db.execute(
                "UPDATE message SET folder = ?, uid = ?, generation = ?, modseq = 0 WHERE id = ?",
                (folder_id, uid, found[0], message_id),
            )
        return True

    def at(self, folder_id: int, uidvalidity: int | None, uid: int | None) -> tuple[int, int] | None:
        """(message id, content id) of what a folder has at a uid; None when it has nothing there or counts anew."""
        row = self._connection.execute(
            "SELECT message.id, message.content FROM message JOIN folder ON folder.id = message.folder"
            " WHERE folder = ? AND folder.uidvalidity = ? AND uid = ?",
            (folder_id, uidvalidity, uid),
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def forget(self, message_id: int) -> None:
        """Adopt a deletion of ours."""
        with transaction(self._connection) as db:
            unlink(db, message_id)

    def remove(self, folder_id: int, uids: Iterable[int]) -> int:
        """Messages that upstream no longer has. Their content stays for a while: a move may be found."""

        def go(db: sqlite3.Connection, uid: int) -> int:
            row = db.execute("SELECT id FROM message WHERE folder = ? AND uid = ?", (folder_id, uid)).fetchone()
            return 0 if row is None else unlink(db, row[0])

        return in_slices(self._connection, sorted(uids), go)

    def remove_all(self, folder_id: int) -> int:
        """Empty a folder that is no longer mirrored."""
        found = self._connection.execute("SELECT id FROM message WHERE folder = ?", (folder_id,)).fetchall()
        if not found:
            return 0
        self._connection.execute("UPDATE folder SET enumerated = 0, as_of = NULL WHERE id = ?", (folder_id,))
        return in_slices(self._connection, found, lambda db, row: unlink(db, row[0]))

    def place(self, message_id: int) -> Place | None:
        """Where a message is upstream; None when the mirror no longer has it, or does not know its uid just now."""
        return place(self._connection, message_id)


def unlink(db: sqlite3.Connection, message_id: int) -> int:
    """Take one message out of its folder; remember its id for a while. Returns 1, or 0 when there is none."""
    row = db.execute("DELETE FROM message WHERE id = ? RETURNING content, folder", (message_id,)).fetchone()
    if row is None:
        return 0
    now = time.time()
    db.execute(
        "INSERT OR REPLACE INTO departed (message, content, at, folder) VALUES (?, ?, ?, ?)",
        (message_id, row[0], now, row[1]),
    )
    db.execute(
        "UPDATE content SET orphaned_at = ? WHERE id = ?"
        " AND NOT EXISTS (SELECT 1 FROM message WHERE content = content.id)",
        (now, row[0]),
    )
    return 1


_ANCESTORS = """
    SELECT id, folder FROM (
        SELECT message AS id, folder, at, folder > 0 AND NOT EXISTS (
            SELECT 1 FROM folder WHERE folder.id = departed.folder AND missing = 0
        ) AS is_orphan
        FROM departed WHERE content = :content
        UNION ALL
        SELECT message.id, folder.id, 0, 1 FROM message JOIN folder ON folder.id = message.folder
        WHERE message.content = :content AND folder.missing > 0
    )
    ORDER BY is_orphan AND folder < :folder DESC, is_orphan, at DESC, id LIMIT 1
    """


def take_over(db: sqlite3.Connection, content_id: int, folder_id: int) -> int | None:
    """The id that a message new to a folder goes on with: of one that left this content, or its folder, lately.

    A folder younger than one that vanished may be that one renamed: it goes on with the ids from there. A folder that
    was there before received what was moved.
    """
    row = db.execute(_ANCESTORS, {"content": content_id, "folder": folder_id}).fetchone()
    if row is None:
        return None
    db.execute("DELETE FROM departed WHERE message = ?", (row[0],))
    if db.execute("DELETE FROM message WHERE id = ?", (row[0],)).rowcount:
        # Should its folder be there again, every message in it is looked for.
        db.execute("UPDATE folder SET enumerated = 0 WHERE id = ?", (row[1],))
    return int(row[0])


def flags_json(flags: Iterable[str]) -> str:
    """Flags as they are stored."""
    return _flags_json(frozenset(flags))


@lru_cache(maxsize=1_024)
def _flags_json(flags: frozenset[str]) -> str:
    return json.dumps(sorted(flags), ensure_ascii=False)
