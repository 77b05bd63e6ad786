"""The rows of a content: what a mail says, written. Every function runs within the caller's transaction."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from mirror.columns import people_key, subject_key, zone_of
from mirror.listing import Listed
from mirror.message import Address
from mirror.mirrored import State
from mirror.query.words import unindex
from mirror.record import CONTENT_VERSION, EnvelopeRecord, Record
from mirror.schema import SPILL_BITS

_NEAR = 32
"""Ids looked at one by one."""
_ID_EPOCH = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) // 60


def add_content(db: sqlite3.Connection, message: Listed, next_free: dict[int, int]) -> int:
    """Add a content row whose id sorts by INTERNALDATE; a full minute spills upward. next_free: per minute, so far."""
    seconds = int(message.internaldate.timestamp())
    base = _first_id(seconds)
    candidate = _free_id(db, next_free.get(base, base))
    next_free[base] = candidate + 1
    zone = zone_of(message.internaldate)
    db.execute(
        "INSERT INTO content (id, internaldate, internaldate_zone, size, sent_day, email_id) VALUES (?, ?, ?, ?, ?, ?)",
        (candidate, seconds, zone, message.size, _day(seconds, zone), message.email_id or None),
    )
    return candidate


def _free_id(db: sqlite3.Connection, lowest: int) -> int:
    """A free id not below this: the first, where it is near; behind many taken ones, one about twice as far at most.

    A mailbox that got more mail than a minute has ids, for days on end, is one run of them: walking it for each
    message would cost hours.
    """
    candidate = lowest
    for (taken,) in db.execute("SELECT id FROM content WHERE id >= ? ORDER BY id LIMIT ?", (lowest, _NEAR)):
        if taken != candidate:
            return candidate
        candidate += 1
    taken, step = candidate - 1, _NEAR
    if candidate - lowest < _NEAR:
        return candidate
    while _is_taken(db, taken + step):
        taken += step
        step *= 2
    free = taken + step
    while free - taken > 1:
        middle = (taken + free) // 2
        if _is_taken(db, middle):
            taken = middle
        else:
            free = middle
    return free


def _is_taken(db: sqlite3.Connection, content_id: int) -> bool:
    return db.execute("SELECT 1 FROM content WHERE id = ?", (content_id,)).fetchone() is not None


def earliest_id(since: datetime | None) -> int:
    """The lowest id that a content of this time or later can have."""
    return -(2**62) if since is None else _first_id(int(since.timestamp()))


def _first_id(seconds: int) -> int:
    return max(seconds // 60 - _ID_EPOCH, -(2**40)) << SPILL_BITS


def _day(seconds: int, zone: int) -> int:
    return (seconds + zone * 60) // 86_400


def write_envelope(db: sqlite3.Connection, content_id: int, envelope: EnvelopeRecord, state: State) -> None:
    """Fill in what the envelope says, and bring the content to at least this state."""
    sent_day = None if envelope.sent is None or envelope.sent_zone is None else _day(envelope.sent, envelope.sent_zone)
    db.execute(
        "UPDATE content SET state = max(state, ?), sent_day = coalesce(?, sent_day), sent = ?, sent_zone = ?,"
        " subject = ?, subject_key = ?, from_key = ?, to_key = ?, sender = ?, recipient = ?, cc = ?, bcc = ?,"
        " reply_to = ?, message_id = ?, in_reply_to = ?, refs = ? WHERE id = ?",
        (int(state), sent_day, *envelope, content_id),
    )


def read_envelope_record(db: sqlite3.Connection, content_id: int, below: State) -> EnvelopeRecord | None:
    """What a content's envelope says so far; None when the content is not there, or at that state already."""
    row = db.execute(
        "SELECT sent, sent_zone, subject, subject_key, from_key, to_key, sender, recipient, cc, bcc, reply_to,"
        " message_id, in_reply_to, refs FROM content WHERE id = ? AND state < ?",
        (content_id, int(below)),
    ).fetchone()
    return None if row is None else EnvelopeRecord(*row)


def write_text(db: sqlite3.Connection, content_id: int, digest: bytes, record: Record) -> None:
    """Fill in everything but the envelope."""
    state = State.TEXT if record.normalised is not None else State.WHOLE
    db.execute(
        "UPDATE content SET state = ?, digest = ?, content_version = ?, preview = ?, attachments = ?, findings = ?"
        " WHERE id = ?",
        (int(state), digest, CONTENT_VERSION, record.preview, record.attachments, record.findings, content_id),
    )
    db.execute(
        "INSERT OR REPLACE INTO body (content, text, headers, source) VALUES (?, ?, ?, ?)",
        (content_id, record.text, record.headers, record.source),
    )
    if record.normalised is not None:
        db.execute("INSERT INTO form (content, normalised) VALUES (?, ?)", (content_id, record.normalised))


def renew_sort_keys(db: sqlite3.Connection, content_id: int) -> int:
    """The sort keys of a content as fold() of today makes them. Returns 1."""
    row = db.execute("SELECT subject, sender, recipient FROM content WHERE id = ?", (content_id,)).fetchone()
    if row is not None:
        people = [[Address(name, address) for name, address in json.loads(stored)] for stored in row[1:]]
        keys = (subject_key(row[0]), *map(people_key, people), content_id)
        db.execute("UPDATE content SET subject_key = ?, from_key = ?, to_key = ? WHERE id = ?", keys)
    return 1


def drop_contents(db: sqlite3.Connection, content_ids: Sequence[int]) -> None:
    indexed = [
        content
        for content in content_ids
        if db.execute("SELECT 1 FROM content WHERE id = ? AND state >= 2", (content,)).fetchone() is not None
    ]
    unindex(db, indexed)
    db.executemany("DELETE FROM content WHERE id = ?", [(content,) for content in content_ids])
