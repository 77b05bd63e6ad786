"""Contents made into records. Only parsing children and tests import this: it brings everything that reads HTML."""

import json
import zlib
from collections.abc import Sequence

from mirror.columns import envelope_record
from mirror.content import Content
from mirror.message import Address, Kept
from mirror.record import Record
from mirror.terms import terms_of

_WAITING_LEVEL = 1


def record_of(content: Content, kept: Kept = ()) -> Record:
    """The record of a content, with the attachments to keep."""
    envelope = envelope_record(content.envelope)
    html = content.normalised_html
    people = (content.envelope.from_, content.envelope.to, content.envelope.cc, content.envelope.bcc)
    return Record(
        envelope=envelope,
        text=content.text,
        preview=content.preview,
        attachments=json.dumps([attachment.as_row() for attachment in content.attachments], ensure_ascii=False),
        smallest=min((attachment.size for attachment in content.attachments), default=None),
        findings=json.dumps(content.findings),
        headers=json.dumps(content.envelope.headers, ensure_ascii=False),
        normalised=zlib.compress(html.encode("utf-8"), _WAITING_LEVEL) if html else None,
        source=content.source,
        terms=terms_of(
            content.text, content.envelope.subject, [_searchable(each) for each in people], content.envelope.headers
        ),
        kept=kept,
    )


def _searchable(addresses: Sequence[Address]) -> str:
    """`mirror.fold.people` of the stored form of the addresses."""
    return ", ".join(f"{each.name} <{each.address}>" if each.name else each.address for each in addresses)
