"""Storing a mail in a folder, with the proof that it is there."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import compat32

from mirror.columns import envelope_record
from mirror.envelope import read_envelope
from mirror.errors import UpstreamUnavailable
from mirror.listing import Arrived, Listed
from mirror.store import Store
from mirror.upstream import Upstream

_MESSAGE_ID = re.compile(rb"^Message-ID:[ \t\r\n]*<([!-;=?-~]{1,900})>", re.IGNORECASE | re.MULTILINE)
_LEVEL = re.compile(rb"(?:multipart|message)/", re.IGNORECASE)
_LEVELS = 50
_LINE_END = re.compile(rb"\r\n|\r|\n")


class NoMessage(ValueError):
    """The bytes begin with no header field, or hold a NUL."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a mail was stored. listed: as a sync would list it, None when the server does not say where it is."""

    arrived: Arrived
    listed: Listed | None


def store_mail(
    upstream: Upstream, folder: bytes, raw: bytes, flags: Collection[str], again: bool, earlier: Collection[str] = ()
) -> Stored:
    """Store a mail, unless an earlier try did: this call's (again), or one of before by a Message-ID of its own.

    Where the server does not say the uid, the Message-ID finds it. A mail without one is not tried twice.
    """
    message_id = message_id_of(raw)
    arrived = next(filter(None, (upstream.find_message_id(folder, each) for each in earlier)), None)
    if again and arrived is None:
        if not message_id:
            raise UpstreamUnavailable("the connection was lost; whether the mail was stored is not known")
        arrived = upstream.find_message_id(folder, message_id)
    if arrived is None:
        arrived = upstream.append(folder, raw, flags, datetime.now(UTC))
    if arrived.uid is None and message_id:
        arrived = upstream.find_message_id(folder, message_id) or arrived
    return Stored(arrived, None if arrived.uid is None else upstream.arrived(folder, arrived.uid))


def add_to_mirror(store: Store, folder_id: int, stored: Stored, header: bytes | None) -> int | None:
    """The mirror's id of a message that upstream has just stored; None when the mirror cannot tell yet.

    header: of a mail that we have written ourselves, so that it is listed at once; others are read by a parsing child.
    """
    row, arrived = store.folder(folder_id), stored.arrived
    if stored.listed is None or row is None or row.uidvalidity != arrived.uidvalidity:
        return None
    store.add_listed(folder_id, [stored.listed])
    found = store.at(folder_id, arrived.uidvalidity, arrived.uid)
    if found is None:
        return None
    if header is not None:
        store.set_envelopes([(found[1], envelope_record(read_envelope(header)))])
    store.want(found[1])
    return found[0]


def message_id_of(raw: bytes) -> str:
    """The Message-ID of a mail without its angle brackets, "" when it has none that can be searched for."""
    match = _MESSAGE_ID.search(header_of(raw))
    return match[1].decode("ascii") if match else ""


def characters_of(raw: bytes, most: int | None) -> int:
    """How long the subject and the texts of a mail are, its files left out; a guess where that is below most.

    A mail of many levels is not taken apart: all of it counts.
    """
    if most is None or len(raw) <= most or len(_LEVEL.findall(raw)) > _LEVELS:
        return len(raw) if most is not None else 0
    mail = BytesParser(policy=compat32).parsebytes(raw)
    texts = [
        part.get_payload(decode=True)
        for part in mail.walk()
        if part.get_content_maintype() == "text" and part.get_filename() is None
    ]
    return len(str(mail["Subject"] or "")) + sum(
        len(text.decode("utf-8", "replace")) for text in texts if isinstance(text, bytes)
    )


def header_of(raw: bytes) -> bytes:
    """The header block of a message."""
    return raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def with_line_ends(raw: bytes) -> bytes:
    """The message with CR LF line ends (RFC 3501 4.3). Raises NoMessage."""
    if b"\0" in raw or not re.match(rb"[!-9;-~]+[ \t]*:", raw):
        raise NoMessage
    return _LINE_END.sub(b"\r\n", raw)
