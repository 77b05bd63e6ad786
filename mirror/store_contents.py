"""The content rows of a mirror: what is still to fetch, what has been read, what nobody uses any more.

A message's content goes through the states of `mirror.mirrored.State`. The rows are the checkpoint: what is not yet
TEXT is what is still to fetch, so that a sync can be cut at any point and resumed from what is stored.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mirror.content_rows import drop_contents, earliest_id, read_envelope_record, write_envelope, write_text
from mirror.database import in_slices, transaction
from mirror.mirrored import State
from mirror.query import lacking, lines, merging
from mirror.query.fresh_words import are_many, take_in
from mirror.query.vocabulary import Vocabulary
from mirror.query.words import add, unindex
from mirror.record import CONTENT_VERSION, EnvelopeRecord, Record
from mirror.store_messages import take_over

ORPHAN_GRACE = 600.0
"""Seconds that content without a message is kept, so that a move seen later re-uses it."""
TEXTS_AT_ONCE = 500_000
"""Characters of text stored and indexed in the first transaction; then as many as take about WRITE_SECONDS."""
_MOST_TEXTS = 4_000_000
WRITE_SECONDS = 0.12
_CHARACTERS_OF_A_ROW = 2_000
_WISH_SECONDS = 60.0
_SWEPT_AT_ONCE = 20
_LINES_AT_ONCE = 200

Parsed = tuple[int, bytes, Record]
"""Content id, SHA-256 of the raw message, record of what it says."""


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
_ANY_OUTDATED = "SELECT 1 FROM content INDEXED BY content_outdated WHERE state >= 2 AND content_version < ? LIMIT 1"
_TEXTLESS = _HOLES.format(index="message_textless", state=2)
_HEADERLESS = _HOLES.format(index="message_headerless", state=1)


class StoredContents:
    """Writes content rows."""

    _connection: sqlite3.Connection
    _vocabulary: Vocabulary
    _between: merging.Between
    _settling: Iterator[None] | None = None
    _texts_at_once = TEXTS_AT_ONCE

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

    def lacks_texts(self) -> bool:
        """Whether any message has no text yet, be it wanted or not."""
        row = self._connection.execute("SELECT 1 FROM message INDEXED BY message_textless WHERE state < 2 LIMIT 1")
        return row.fetchone() is not None

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

    def set_envelopes(self, envelopes: Iterable[tuple[int, EnvelopeRecord]]) -> None:
        """Envelopes read from header blocks: (content id, record). They are listed from now on."""

        def write(db: sqlite3.Connection, pair: tuple[int, EnvelopeRecord]) -> int:
            if db.execute("SELECT 1 FROM content WHERE id = ? AND state < 1", (pair[0],)).fetchone() is None:
                return 0
            write_envelope(db, *pair, State.HEADERS)
            return 1

        in_slices(self._connection, sorted(envelopes, key=lambda pair: pair[0]), write)

    def set_texts(self, contents: Iterable[Parsed]) -> None:
        """Parsed contents, searchable from now on.

        A copy (equal digest and INTERNALDATE) gives its messages to the content that is already stored.
        """
        waiting = sorted(contents, key=lambda item: item[0])
        self._settling = None  # what it was about to do may be done otherwise now
        while waiting:
            count = _within(waiting, self._texts_at_once)
            began = time.monotonic()
            try:
                with transaction(self._connection) as db:
                    stored = [item for item in waiting[:count] if _store(db, *item)]
                    is_backlog = merging.are_put_off(db)
                    terms = [(content_id, record.terms) for content_id, _, record in stored]
                    add(db, terms, self._vocabulary, is_backlog=is_backlog)
            except BaseException:
                self._vocabulary.forget()
                raise
            self._adapt(time.monotonic() - began)
            if is_backlog:
                self._work_off()
            del waiting[:count]

    def _work_off(self) -> None:
        """What the index puts off during a backlog, where it has become much."""
        if self._between.is_due():
            with transaction(self._connection) as db:
                self._between.step(db)
        if are_many(self._connection):
            taking = take_in(self._connection)
            is_left = True
            while is_left:
                with transaction(self._connection):
                    is_left = next(taking, False) is None

    def _adapt(self, seconds: float) -> None:
        """Let the next transaction take about as long as it may."""
        if seconds > WRITE_SECONDS:
            self._texts_at_once = max(TEXTS_AT_ONCE, self._texts_at_once // 2)
        elif seconds < WRITE_SECONDS / 2:
            self._texts_at_once = min(_MOST_TEXTS, self._texts_at_once * 3 // 2)

    def begin_backlog(self) -> None:
        """Many texts follow: the index is merged afterwards, by settle()."""
        self._settling = None
        with transaction(self._connection) as db:
            merging.put_off(db)
        self._between.begin(self._connection)

    def settle(self, goes_on: Callable[[], bool]) -> None:
        """Merge what a backlog left of the index, step by step, as long as it goes on."""
        while goes_on() and self.settle_a_little():
            pass
        self._settling = None

    def settle_a_little(self) -> bool:
        """One step of that. Whether more are left."""
        if self._settling is None:
            if not merging.are_put_off(self._connection):
                return False
            self._settling = merging.steps(self._connection)
        with transaction(self._connection):
            is_left = next(self._settling, False) is None
        if not is_left:
            self._settling = None
        return is_left

    def index_lines(self) -> bool:
        """Take more into the parts of the index that are made behind the rest. Whether some are left.

        Those are the header lines of an older version's mirror, and the contents without a word that nearly all have.
        """
        if not lines.is_whole(self._connection):
            with transaction(self._connection) as db:
                return lines.fill(db, _LINES_AT_ONCE) or not lacking.is_whole(db)
        if lacking.is_whole(self._connection):
            return False
        with transaction(self._connection) as db:
            return lacking.fill(db)

    def outdated(self, limit: int) -> list[tuple[int, bytes]]:
        """(content id, source) of contents that an older version of the cleaning rules made, newest first."""
        if self._connection.execute(_ANY_OUTDATED, (CONTENT_VERSION,)).fetchone() is None:
            return []
        rows = self._connection.execute(
            "SELECT content.id, body.source FROM content JOIN body ON body.content = content.id"
            " WHERE content.state >= 2 AND content.content_version < ? AND body.source IS NOT NULL"
            " ORDER BY content.id DESC LIMIT ?",
            (CONTENT_VERSION, limit),
        )
        return [(content, source) for content, source in rows]

    def replace_texts(self, contents: Iterable[tuple[int, Record | None]]) -> None:
        """Contents cleaned again (content id, record); None leaves the old form, and does not try again."""

        def replace(db: sqlite3.Connection, pair: tuple[int, Record | None]) -> int:
            content_id, record = pair
            row = db.execute("SELECT digest FROM content WHERE id = ? AND state >= 2", (content_id,)).fetchone()
            if row is None:
                return 0
            if record is None:
                db.execute("UPDATE content SET content_version = ? WHERE id = ?", (CONTENT_VERSION, content_id))
                return 0
            unindex(db, [content_id])
            db.execute("DELETE FROM form WHERE content = ?", (content_id,))
            write_envelope(db, content_id, record.envelope, State.TEXT)
            write_text(db, content_id, row[0], record)
            add(db, [(content_id, record.terms)], Vocabulary())
            return 1

        self._vocabulary.forget()
        in_slices(self._connection, sorted(contents, key=lambda item: item[0]), replace)

    def normalised(self, limit: int, *, below: int = 2**62) -> list[tuple[int, bytes]]:
        """(content id, normalised HTML) of contents whose sanitized form is still to make, newest first.

        below: only contents with a lower id.
        """
        rows = self._connection.execute(
            "SELECT content, normalised FROM form INDEXED BY form_normalised WHERE normalised IS NOT NULL"
            " AND content < ? ORDER BY content DESC LIMIT ?",
            (below, limit),
        )
        return [(content, form) for content, form in rows]

    def set_html(self, forms: Iterable[tuple[int, bytes | None]]) -> None:
        """Sanitized HTML forms: (content id, HTML compressed or None for none)."""

        def write(db: sqlite3.Connection, pair: tuple[int, bytes | None]) -> int:
            db.execute("UPDATE form SET html = ?, normalised = NULL WHERE content = ?", (pair[1], pair[0]))
            return db.execute("UPDATE content SET state = 3 WHERE id = ? AND state = 2", (pair[0],)).rowcount

        in_slices(self._connection, forms, write)

    def sweep(self, *, before: float | None = None) -> int:
        """Delete content that no message has used since then (default: the grace period). Returns how many."""
        self._vocabulary.forget()
        limit = time.time() - ORPHAN_GRACE if before is None else before
        total = 0
        while True:
            with transaction(self._connection) as db:
                rows = db.execute(
                    "SELECT id FROM content INDEXED BY content_orphan WHERE orphaned_at <= ? ORDER BY id LIMIT ?",
                    (limit, _SWEPT_AT_ONCE),
                ).fetchall()
                db.execute("DELETE FROM departed WHERE at <= ?", (limit,))
                drop_contents(db, [row[0] for row in rows])
                if rows:
                    db.execute("UPDATE mirror SET swept = swept + ?", (len(rows),))
            total += len(rows)
            if len(rows) < _SWEPT_AT_ONCE:
                return total


def _within(contents: Sequence[Parsed], limit: int) -> int:
    """How many of these contents, one at least, have so many characters of text."""
    characters = 0
    for count, (_, _, record) in enumerate(contents):
        characters += len(record.text) + _CHARACTERS_OF_A_ROW
        if count and characters > limit:
            return count
    return len(contents)


def _store(db: sqlite3.Connection, content_id: int, digest: bytes, record: Record) -> bool:
    """Write a text. Whether it is to be indexed: not when it is stored already, here or in a twin."""
    known = read_envelope_record(db, content_id, State.TEXT)
    if known is None:
        return False
    twin = db.execute(
        "SELECT other.id FROM content AS other, content AS own WHERE own.id = ? AND other.digest = ?"
        " AND other.internaldate = own.internaldate AND other.id <> own.id AND other.state >= 2",
        (content_id, digest),
    ).fetchone()
    if twin is not None and _merge(db, content_id, twin[0]):
        return False
    if record.envelope != known:
        # Mostly the headers came first: their columns are in six indexes, and stay as they are.
        write_envelope(db, content_id, record.envelope, State.ENUMERATED)
    write_text(db, content_id, digest, record)
    db.execute("DELETE FROM attempt WHERE content = ?", (content_id,))
    return True


def _merge(db: sqlite3.Connection, content_id: int, twin: int) -> bool:
    """Hand the messages of a content to its twin; one that left it lends its id (a move, a renamed folder)."""
    clash = db.execute(
        "SELECT 1 FROM message AS a, message AS b WHERE a.content = ? AND b.content = ? AND a.folder = b.folder"
        " AND a.uid = b.uid",
        (content_id, twin),
    ).fetchone()
    if clash is not None:
        return False
    rows = db.execute("SELECT id, folder FROM message WHERE content = ? ORDER BY id", (content_id,)).fetchall()
    for message_id, folder_id in rows:
        departed = take_over(db, twin, folder_id)
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
