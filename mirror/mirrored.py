"""A message as the mirror holds it: what readers get and what policy decides on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum

from mirror.message import Address, Attachment


class State(IntEnum):
    """How much of a message's content has been mirrored."""

    ENUMERATED = 0
    """Its uid, flags, size and internaldate are known."""
    HEADERS = 1
    """Its envelope is known; readers list it."""
    TEXT = 2
    """Its text is stored and indexed; readers search and read it."""
    WHOLE = 3
    """Its sanitized HTML is stored too."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """One folder and how far it agrees with upstream.

    role: its special use with backslash (`\\Sent`, RFC 6154) or "". as_of: when it last agreed with upstream.
    complete: every message of it is mirrored with its text. error: the last fault in plain words, or "".
    """

    id: int
    raw: bytes
    name: str
    delimiter: str | None
    attributes: tuple[str, ...]
    role: str
    selectable: bool
    uidvalidity: int | None
    as_of: datetime | None
    complete: bool
    messages: int
    pending: int
    quarantined: int
    error: str


@dataclass(frozen=True, slots=True)
class MirroredMessage:
    r"""One message of one folder, cleaned.

    id: stable over flag changes, re-syncs, recognised moves and UIDVALIDITY resets. flags: system flags in canonical
    case with backslash (`\Seen`), keywords as the server wrote them. date: the Date header with its own offset, None
    where it is missing or cannot be read. text, html, headers: None when not loaded or not mirrored yet. text_octets:
    how long the text is in UTF-8, whether it is loaded or not.
    """

    id: int
    folder: str
    folder_id: int
    uid: int
    content: int
    state: State
    flags: frozenset[str]
    internaldate: datetime
    size: int
    subject: str = ""
    from_: tuple[Address, ...] = ()
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    reply_to: tuple[Address, ...] = ()
    date: datetime | None = None
    message_id: str = ""
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    preview: str = ""
    attachments: tuple[Attachment, ...] = ()
    findings: Mapping[str, int] = field(default_factory=dict)
    text: str | None = None
    text_octets: int = 0
    html: str | None = None
    headers: tuple[tuple[str, str], ...] | None = None
