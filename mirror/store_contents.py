"""The content rows of a mirror: what is still to fetch, what has been read, what nobody uses any more.

A message's content goes through the states of `mirror.mirrored.State`. The rows are the checkpoint: what is not yet
TEXT is what is still to fetch, so that a sync can be cut at any point and resumed from what is stored.
"""

import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mirror.content import CONTENT_VERSION, Content, Envelope
from mirror.content_rows import drop_contents, earliest_id, write_envelope, write_text
from mirror.database import in_slices, transaction
from mirror.mirrored import State
from mirror.query.words import index, unindex
from mirror.store_messages import take_departed

ORPHAN_GRACE = 600.0
"""Seconds that content without a message is kept, so that a move seen later re-uses it."""
TEXTS_AT_ONCE = 500_000
"""Characters of text stored and indexed in one transaction."""
_WISH_SECONDS = 60.0
_SWEPT_AT_ONCE = 20

Parsed = tuple[int, bytes, Content]
"""Content id, SHA-256 of the raw message, content."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A message whose content is still to fetch."""

    message: int
    content: int
    uid: int
    size: int
    state: int


_HOLES = """
    SELECT message.id, content.id, message.uid, content.size, content.state
    FROM message INDEXED BY {index} CROSS JOIN content ON content.id = message.content
    WHERE message.folder = ? AND message.state < {state} AND message.content >= ? AND message.uid > 0
        AND content.internaldate >= ?
        AND NOT EXISTS (SELECT 1 FROM attempt WHERE attempt.content = message.content AND next_try > ?)
    ORDER BY message.content DESC LIMIT ?
    """
_TEXTLESS = _HOLES.format(index="message_textless", state=2)
_HEADERLESS = _HOLES.format(index="message_headerless", state=1)


class StoredContents:
    """Writes content rows."""

    _connection: sqlite3.Connection

    def holes(self, folder_id: int, state: State, limit: int, *, since: datetime | None = None) -> list[Hole]:
        """Messages of a folder whose content is below a state, newest first; those to be tried later are left out."""
        rows = self._connection.execute(
            _HEADERLESS if state == State.HEADERS else _TEXTLESS,
            (folder_id, earliest_id(since), _since_seconds(since), time.time(), limit),
        )
        return [Hole(*row) for row in rows]

    def count_holes(self, folder_id: int, *, since: datetime | None = None) -> int:
        """About how many messages of a folder have no text yet: those of the first minute, and put off, included."""
        row = self._connection.execute(
            "SELECT count(*) FROM message INDEXED BY message_textless WHERE folder = ? AND state < 2 AND content >= ?",
            (folder_id, earliest_id(since)),
        ).fetchone()
        return int(row[0])

    def want(self, content_id: int) -> None:
        """A reader waits for the text of this content."""
        self._connection.execute("INSERT OR REPLACE INTO wanted VALUES (?, ?)", (content_id, time.time()))

    def wanted_holes(self, limit: int) -> list[tuple[int, Hole]]:
        """(folder id, hole) of messages a reader waits for."""
        if self._connection.execute("SELECT 1 FROM wanted LIMIT 1").fetchone() is None:
            return []
        rows = self._connection.execute(
            "SELECT message.folder, message.id, content.id, message.uid, content.size, content.state FROM wanted"
            " JOIN content ON content.id = wanted.content JOIN message ON message.content = content.id"
            " JOIN folder ON folder.id = message.folder"
            " WHERE wanted.at >= ? AND content.state < 2 AND message.uid > 0 AND folder.wanted AND NOT folder.missing"
            " GROUP BY content.id ORDER BY wanted.at LIMIT ?",
            (time.time() - _WISH_SECONDS, limit),
        ).fetchall()
        return [(row[0], Hole(*row[1:])) for row in rows]

    def grant(self, content_ids: Iterable[int]) -> None:
        """Wishes that were looked after, with what result ever; and those that are too old or were granted anyway."""
        with transaction(self._connection) as db:
            db.executemany("DELETE FROM wanted WHERE content = ?", [(content,) for content in content_ids])
            db.execute(
                "DELETE FROM wanted WHERE at < ?"
                " OR NOT EXISTS (SELECT 1 FROM content WHERE id = wanted.content AND state < 2)",
                (time.time() - _WISH_SECONDS,),
            )

    def set_envelopes(self, envelopes: Iterable[tuple[int, Envelope]]) -> None:
        """Envelopes read from header blocks: (content id, envelope). They are listed from now on."""

        def write(db: sqlite3.Connection, pair: tuple[int, Envelope]) -> int:
            if db.execute("SELECT 1 FROM content WHERE id = ? AND state < 1", (pair[0],)).fetchone() is None:
                return 0
            write_envelope(db, *pair, State.HEADERS)
            return 1

        in_slices(self._connection, sorted(envelopes, key=lambda pair: pair[0]), write)

    def set_texts(self, contents: Iterable[Parsed]) -> None:
        """Parsed contents, searchable from now on.

        A copy (equal digest and INTERNALDATE) gives its messages to the content that is already stored.
        """
        for group in _groups(sorted(contents, key=lambda item: item[0])):
            with transaction(self._connection) as db:
                index(
                    db, [content_id for content_id, digest, content in group if _store(db, content_id, digest, content)]
                )

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

        def replace(db: sqlite3.Connection, pair: tuple[int, Content | None]) -> int:
            content_id, content = pair
            row = db.execute("SELECT digest FROM content WHERE id = ? AND state >= 2", (content_id,)).fetchone()
            if row is None:
                return 0
            if content is None:
                db.execute("UPDATE content SET content_version = ? WHERE id = ?", (CONTENT_VERSION, content_id))
                return 0
            unindex(db, [content_id])
            db.execute("UPDATE content SET state = 2 WHERE id = ?", (content_id,))
            write_text(db, content_id, row[0], content)
            index(db, [content_id])
            return 1

        in_slices(self._connection, sorted(contents, key=lambda item: item[0]), replace)

    def normalised(self, limit: int) -> list[tuple[int, str]]:
        """(content id, normalised HTML) of contents whose sanitized form is still to make, newest first."""
        rows = self._connection.execute(
            "SELECT content, normalised FROM body INDEXED BY body_normalised WHERE normalised IS NOT NULL"
            " ORDER BY content DESC LIMIT ?",
            (limit,),
        )
        return [(content, zlib.decompress(form).decode("utf-8")) for content, form in rows]

    def set_html(self, forms: Iterable[tuple[int, str]]) -> None:
        """Sanitized HTML forms: (content id, HTML or "" for none)."""

        def write(db: sqlite3.Connection, pair: tuple[int, bytes | None]) -> int:
            db.execute("UPDATE body SET html = ?, normalised = NULL WHERE content = ?", (pair[1], pair[0]))
            return db.execute("UPDATE content SET state = 3 WHERE id = ? AND state = 2", (pair[0],)).rowcount

        packed = [(content, zlib.compress(html.encode("utf-8"), 6) if html else None) for content, html in forms]
        in_slices(self._connection, packed, write)

    def sweep(self, *, before: float | None = None) -> int:
        """Delete content that no message has used since then (default: the grace period). Returns how many."""
        limit = time.time() - ORPHAN_GRACE if before is None else before
        total = 0
        while True:
            with transaction(self._connection) as db:
                rows = db.execute(
                    "SELECT id FROM content WHERE orphaned_at <= ? ORDER BY id LIMIT ?", (limit, _SWEPT_AT_ONCE)
                ).fetchall()
                db.execute("DELETE FROM departed WHERE at <= ?", (limit,))
                drop_contents(db, [row[0] for row in rows])
                if rows:
                    db.execute("UPDATE mirror SET swept = swept + ?", (len(rows),))
            total += len(rows)
            if len(rows) < _SWEPT_AT_ONCE:
                return total


def _groups(contents: Sequence[Parsed]) -> Iterator[list[Parsed]]:
    group: list[Parsed] = []
    characters = 0
    for item in contents:
        group.append(item)
        characters += len(item[2].text) + 2_000
        if characters >= TEXTS_AT_ONCE:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _store(db: sqlite3.Connection, content_id: int, digest: bytes, content: Content) -> bool:
    """Write a text. Whether it is to be indexed: not when it is stored already, here or in a twin."""
    if db.execute("SELECT 1 FROM content WHERE id = ? AND state < 2", (content_id,)).fetchone() is None:
        return False
    twin = db.execute(
        "SELECT other.id FROM content AS other, content AS own WHERE own.id = ? AND other.digest = ?"
        " AND other.internaldate = own.internaldate AND other.id <> own.id AND other.state >= 2",
        (content_id, digest),
    ).fetchone()
    if twin is not None and _merge(db, content_id, twin[0]):
        return False
    write_text(db, content_id, digest, content)
    db.execute("DELETE FROM attempt WHERE content = ?", (content_id,))
    return True


def _merge(db: sqlite3.Connection, content_id: int, twin: int) -> bool:
    """Hand the messages of a content to its twin; a departed message of the twin lends its id (a move)."""
    clash = db.execute(
        "SELECT 1 FROM message AS a, message AS b WHERE a.content = ? AND b.content = ? AND a.folder = b.folder"
        " AND a.uid = b.uid",
        (content_id, twin),
    ).fetchone()
    if clash is not None:
        return False
    for (message_id,) in db.execute("SELECT id FROM message WHERE content = ?", (content_id,)).fetchall():
        departed = take_departed(db, twin)
        db.execute(
            "UPDATE message SET id = ?, content = ? WHERE id = ?",
            (message_id if departed is None else departed, twin, message_id),
        )
    db.execute(
        "UPDATE content SET orphaned_at = NULL,"
        " email_id = coalesce(email_id, (SELECT email_id FROM content WHERE id = ?)) WHERE id = ?",
        (content_id, twin),
    )
    db.execute("DELETE FROM content WHERE id = ?", (content_id,))
    return True


def _since_seconds(since: datetime | None) -> int:
    return -(2**62) if since is None else int(since.timestamp())
