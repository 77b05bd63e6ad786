"""A content as the tables take it: made by a parsing child, so that the one writer only inserts.

A record is nothing but numbers, strings and octets. It comes from a process that has looked inside a mail, so it is
looked at (`is_sound`) before it goes into a statement.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import NamedTuple

from mirror.content import Content, Envelope, base_subject, clean_html
from mirror.fold import fold_keeping_separators
from mirror.message import Address
from mirror.terms import Terms, terms_of

_KEY_BYTES = 64
_TEXTS = frozenset([str])
_WAITING_LEVEL, _KEPT_LEVEL = 1, 6


class EnvelopeRecord(NamedTuple):
    """The columns that an envelope fills. sent: seconds since 1970 and minutes east of UTC, or neither."""

    sent: int | None
    sent_zone: int | None
    subject: str
    subject_key: str
    from_key: str
    to_key: str
    sender: str
    recipient: str
    cc: str
    bcc: str
    reply_to: str
    message_id: str
    in_reply_to: str
    refs: str

    def is_sound(self) -> bool:
        """Whether the tables can take every value."""
        moment = self[:2]
        is_moment = moment == (None, None) or all(type(each) is int and abs(each) < 1 << 62 for each in moment)
        return is_moment and {type(each) for each in self[2:]} == _TEXTS and all(map(_is_text, self[2:]))


class Record(NamedTuple):
    """The columns that a content fills.

    smallest: decoded octets of the smallest attachment, None for no attachment. normalised: compressed, waits for the
    sanitizer; None when there is no HTML.
    """

    envelope: EnvelopeRecord
    text: str
    preview: str
    attachments: str
    smallest: int | None
    findings: str
    headers: str
    normalised: bytes | None
    source: bytes
    terms: Terms

    def is_sound(self) -> bool:
        """Whether the tables can take every value."""
        texts = (self.text, self.preview, self.attachments, self.findings, self.headers, *self.terms)
        return (
            type(self.envelope) is EnvelopeRecord
            and self.envelope.is_sound()
            and type(self.terms) is Terms
            and {type(each) for each in texts} == _TEXTS
            and all(map(_is_text, texts))
            and (self.smallest is None or type(self.smallest) is int)
            and (self.normalised is None or type(self.normalised) is bytes)
            and type(self.source) is bytes
        )


def record_of(content: Content) -> Record:
    """The record of a content."""
    envelope = envelope_record(content.envelope)
    html = content.normalised_html
    people = (content.envelope.from_, content.envelope.to, content.envelope.cc, content.envelope.bcc)
    return Record(
        envelope=envelope,
        text=content.text,
        preview=content.preview,
        attachments=json.dumps([asdict(attachment) for attachment in content.attachments], ensure_ascii=False),
        smallest=min((attachment.size for attachment in content.attachments), default=None),
        findings=json.dumps(content.findings),
        headers=json.dumps(content.envelope.headers, ensure_ascii=False),
        normalised=zlib.compress(html.encode("utf-8"), _WAITING_LEVEL) if html else None,
        source=content.source,
        terms=terms_of(content.text, content.envelope.subject, [_searchable(each) for each in people]),
    )


def sanitized(normalised: bytes) -> bytes | None:
    """The HTML form that readers get, compressed, of a record's normalised HTML; None when nothing is left."""
    html = clean_html(zlib.decompress(normalised).decode("utf-8"))
    return zlib.compress(html.encode("utf-8"), _KEPT_LEVEL) if html else None


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


def _searchable(addresses: Sequence[Address]) -> str:
    """`mirror.fold.people` of the stored form of the addresses."""
    return ", ".join(f"{each.name} <{each.address}>" if each.name else each.address for each in addresses)


def _is_text(text: str) -> bool:
    """Whether it can be stored: no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
