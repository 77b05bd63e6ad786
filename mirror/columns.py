"""An envelope as the columns of the tables, with what they sort by."""

import json
from collections.abc import Sequence
from datetime import datetime

from mirror.envelope import Envelope, base_subject
from mirror.fold import fold_keeping_separators
from mirror.message import Address
from mirror.record import EnvelopeRecord

_KEY_BYTES = 64


def envelope_record(envelope: Envelope) -> EnvelopeRecord:
    """The record of an envelope."""
    sent = envelope.date
    return EnvelopeRecord(
        sent=None if sent is None else int(sent.timestamp()),
        sent_zone=None if sent is None else zone_of(sent),
        subject=envelope.subject,
        subject_key=subject_key(envelope.subject),
        from_key=people_key(envelope.from_),
        to_key=people_key(envelope.to),
        sender=_addresses(envelope.from_),
        recipient=_addresses(envelope.to),
        cc=_addresses(envelope.cc),
        bcc=_addresses(envelope.bcc),
        reply_to=_addresses(envelope.reply_to),
        message_id=envelope.message_id,
        in_reply_to=envelope.in_reply_to,
        refs=json.dumps(envelope.references) if envelope.references else "[]",
    )


def zone_of(at: datetime) -> int:
    """Minutes east of UTC."""
    offset = at.utcoffset()
    return 0 if offset is None else int(offset.total_seconds() // 60)


def subject_key(subject: str) -> str:
    """What a subject sorts by."""
    return _sort_key(base_subject(subject))


def people_key(addresses: Sequence[Address]) -> str:
    """What people sort by: the first one's name, or address."""
    return _sort_key(addresses[0].name or addresses[0].address) if addresses else ""


def _sort_key(text: str) -> str:
    """The folded text, cut at 64 bytes on a character."""
    return fold_keeping_separators(text).encode("utf-8")[:_KEY_BYTES].decode("utf-8", "ignore")


def _addresses(addresses: Sequence[Address]) -> str:
    if not addresses:
        return "[]"
    return json.dumps([[address.name, address.address] for address in addresses], ensure_ascii=False)
