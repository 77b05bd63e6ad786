"""A folder whose UIDVALIDITY changed: its rows get new uids, in steps of which each may be the last before a crash.

begin_generation makes every row of the folder one of an earlier generation. unbind takes their uids away, bind gives
the new ones to those that are recognised, drop_unbound ends the rest. A folder that still has unbound rows was
interrupted, and is rebound again from where it is.
"""

import sqlite3
import time
from collections.abc import Sequence

from mirror.database import in_slices, transaction
from mirror.listing import Listed
from mirror.store_messages import StoredMessages, flags_json, unlink

_AT_ONCE = 500


class StoredRebinding(StoredMessages):
    """Writes the rows of a folder whose UIDVALIDITY changed."""

    _connection: sqlite3.Connection

    def begin_generation(self, folder_id: int, uidvalidity: int) -> None:
        """The uids of this folder count anew from now on: one more change in a row."""
        with transaction(self._connection) as db:
            db.execute(
                "UPDATE folder SET uidvalidity = ?, generation = generation + 1, enumerated = 0, uidnext = NULL,"
                " highestmodseq = NULL, upstream_messages = NULL, resets = resets + 1, reset_at = ? WHERE id = ?",
                (uidvalidity, time.time(), folder_id),
            )

    def has_unbound(self, folder_id: int) -> bool:
        """Whether messages of an earlier generation wait for their uids."""
        row = self._connection.execute(
            "SELECT EXISTS (SELECT 1 FROM message JOIN folder ON folder.id = message.folder WHERE message.folder = ?"
            " AND (message.uid < 0 OR message.generation < folder.generation))",
            (folder_id,),
        ).fetchone()
        return bool(row[0])

    def unbind(self, folder_id: int) -> None:
        """Take the uids of messages of earlier generations away."""
        changed = _AT_ONCE
        while changed == _AT_ONCE:
            with transaction(self._connection) as db:
                changed = db.execute(
                    "UPDATE message SET uid = -id WHERE id IN (SELECT message.id FROM message JOIN folder"
                    " ON folder.id = message.folder WHERE message.folder = ? AND message.uid > 0"
                    " AND message.generation < folder.generation LIMIT ?)",
                    (folder_id, _AT_ONCE),
                ).rowcount

    def bind(self, folder_id: int, identified: Sequence[tuple[Listed, str]]) -> int:
        """Give listed messages, each with its Message-ID, to the unbound rows they belong to; add what is new.

        A row is the same message by its email id, or by Message-ID, size and INTERNALDATE unless rows of different
        content agree in these. What is not recognised is fetched again, and then known by its digest. Returns how many
        rows kept their id.
        """
        generation = self._generation(folder_id)
        next_free: dict[int, int] = {}

        def one(db: sqlite3.Connection, pair: tuple[Listed, str]) -> int:
            message, message_id = pair
            if db.execute("SELECT 1 FROM message WHERE folder = ? AND uid = ?", (folder_id, message.uid)).fetchone():
                return 0
            same = _unbound(db, folder_id, message, message_id)
            if same is None:
                self._insert(db, folder_id, generation, message, next_free)
                return 0
            db.execute(
                "UPDATE message SET uid = ?, generation = ?, flags = ?, modseq = ? WHERE id = ?",
                (message.uid, generation, flags_json(message.flags), message.modseq, same),
            )
            return 1

        ordered = sorted(identified, key=lambda pair: (pair[0].internaldate, pair[0].uid))
        return in_slices(self._connection, ordered, one)

    def count_unbound(self, folder_id: int) -> int:
        """How many messages of an earlier generation have no uid yet."""
        return int(
            self._connection.execute(
                "SELECT count(*) FROM message WHERE folder = ? AND uid < 0", (folder_id,)
            ).fetchone()[0]
        )

    def drop_unbound(self, folder_id: int) -> int:
        """Messages of an earlier generation that upstream no longer has."""
        found = self._connection.execute("SELECT id FROM message WHERE folder = ? AND uid < 0", (folder_id,)).fetchall()
        return in_slices(self._connection, found, lambda db, row: unlink(db, row[0]))


def _unbound(db: sqlite3.Connection, folder_id: int, message: Listed, message_id: str) -> int | None:
    at = int(message.internaldate.timestamp())
    if message.email_id:
        row = db.execute(
            "SELECT message.id FROM content CROSS JOIN message ON message.content = content.id"
            " WHERE content.email_id = ? AND content.internaldate = ? AND message.folder = ? AND message.uid < 0"
            " ORDER BY message.id LIMIT 1",
            (message.email_id, at, folder_id),
        ).fetchone()
        if row is not None:
            return int(row[0])
    if not message_id:
        return None
    rows = db.execute(
        "SELECT message.id, content.id, content.digest FROM content CROSS JOIN message ON message.content = content.id"
        " WHERE content.message_id = ? AND content.size = ? AND content.internaldate = ? AND message.folder = ?"
        " AND message.uid < 0 ORDER BY message.id",
        (message_id, message.size, at, folder_id),
    ).fetchall()
    if not rows or len({content if digest is None else digest for _, content, digest in rows}) > 1:
        return None
    return int(rows[0][0])
