"""The rows of a content: what a mail says, written. Every function runs within the caller's transaction."""

import json
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from mirror.content import CONTENT_VERSION, Content, Envelope, base_subject
from mirror.fold import fold_keeping_separators
from mirror.listing import Listed
from mirror.message import Address
from mirror.mirrored import State
from mirror.query.words import unindex
from mirror.schema import SPILL_BITS

_ID_EPOCH = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) // 60
_KEY_BYTES = 64


def _zone(at: datetime) -> int:
    offset = at.utcoffset()
    return 0 if offset is None else int(offset.total_seconds() // 60)


def add_content(db: sqlite3.Connection, message: Listed, next_free: dict[int, int]) -> int:
    """Add a content row whose id sorts by INTERNALDATE; a full minute spills upward. next_free: per minute, so far."""
    seconds = int(message.internaldate.timestamp())
    base = _first_id(seconds)
    candidate = next_free.get(base, base)
    for (taken,) in db.execute("SELECT id FROM content WHERE id >= ? ORDER BY id", (candidate,)):
        if taken != candidate:
            break
        candidate += 1
    next_free[base] = candidate + 1
    zone = _zone(message.internaldate)
    db.execute(
        "INSERT INTO content (id, internaldate, internaldate_zone, size, sent_day, email_id) VALUES (?, ?, ?, ?, ?, ?)",
        (candidate, seconds, zone, message.size, _day(seconds, zone), message.email_id or None),
    )
    return candidate


def earliest_id(since: datetime | None) -> int:
    """The lowest id that a content of this time or later can have."""
    return -(2**62) if since is None else _first_id(int(since.timestamp()))


def _first_id(seconds: int) -> int:
    return max(seconds // 60 - _ID_EPOCH, -(2**40)) << SPILL_BITS


def _day(seconds: int, zone: int) -> int:
    return (seconds + zone * 60) // 86_400


def write_envelope(db: sqlite3.Connection, content_id: int, envelope: Envelope, state: State) -> None:
    sent = None if envelope.date is None else int(envelope.date.timestamp())
    sent_zone = None if envelope.date is None else _zone(envelope.date)
    db.execute(
        "UPDATE content SET state = max(state, ?), subject = ?, sent = ?, sent_zone = ?,"
        " sent_day = coalesce(?, sent_day), subject_key = ?, from_key = ?, to_key = ?, sender = ?, recipient = ?,"
        " cc = ?, bcc = ?, reply_to = ?, message_id = ?, in_reply_to = ?, refs = ? WHERE id = ?",
        (
            int(state), envelope.subject, sent, sent_zone, _day_of(sent, sent_zone),
            _sort_key(base_subject(envelope.subject)), _people_key(envelope.from_), _people_key(envelope.to),
            _addresses(envelope.from_), _addresses(envelope.to), _addresses(envelope.cc), _addresses(envelope.bcc),
            _addresses(envelope.reply_to), envelope.message_id, envelope.in_reply_to, json.dumps(envelope.references),
            content_id,
        ),
    )  # fmt: skip


def _day_of(sent: int | None, zone: int | None) -> int | None:
    return None if sent is None or zone is None else _day(sent, zone)


def write_text(db: sqlite3.Connection, content_id: int, digest: bytes, content: Content) -> None:
    write_envelope(db, content_id, content.envelope, State.TEXT)
    attachments = [asdict(attachment) for attachment in content.attachments]
    db.execute(
        "UPDATE content SET digest = ?, content_version = ?, preview = ?, attachments = ?, findings = ? WHERE id = ?",
        (
            digest, CONTENT_VERSION, content.preview, json.dumps(attachments, ensure_ascii=False),
            json.dumps(content.findings), content_id,
        ),
    )  # fmt: skip
    waiting = zlib.compress(content.normalised_html.encode("utf-8"), 1) if content.normalised_html else None
    db.execute(
        "INSERT OR REPLACE INTO body (content, text, headers, normalised, source) VALUES (?, ?, ?, ?, ?)",
        (content_id, content.text, json.dumps(content.envelope.headers, ensure_ascii=False), waiting, content.source),
    )
    if waiting is None:
        db.execute("UPDATE content SET state = 3 WHERE id = ?", (content_id,))


def renew_sort_keys(db: sqlite3.Connection, content_id: int) -> int:
    """The sort keys of a content as fold() of today makes them. Returns 1."""
    row = db.execute("SELECT subject, sender, recipient FROM content WHERE id = ?", (content_id,)).fetchone()
    if row is not None:
        people = [[Address(name, address) for name, address in json.loads(stored)] for stored in row[1:]]
        keys = (_sort_key(base_subject(row[0])), *map(_people_key, people), content_id)
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


def _addresses(addresses: Sequence[Address]) -> str:
    return json.dumps([[address.name, address.address] for address in addresses], ensure_ascii=False)


def _people_key(addresses: Sequence[Address]) -> str:
    return _sort_key(addresses[0].name or addresses[0].address) if addresses else ""


def _sort_key(text: str) -> str:
    """The folded text, cut at 64 bytes on a character."""
    return fold_keeping_separators(text).encode("utf-8")[:_KEY_BYTES].decode("utf-8", "ignore")
