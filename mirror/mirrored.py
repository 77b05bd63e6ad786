"""A message as the mirror holds it: what readers get and what policy decides on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

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
    complete: every message of it is mirrored with its text. complete_back_to: the day from whose beginning (UTC) on
    that holds, None when it holds for everything or cannot be told. pending: messages still to fetch. error: the last
    fault in plain words and what to do, or "". is_closed: the server refuses to open it, and that is no fault.
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
    is_closed: bool = False
    complete_back_to: date | None = None


@dataclass(frozen=True, slots=True)
class AccountState:
    """One account, as its mirror knows it.

    rung: the server's extensions in use. distrusted: those it broke lately, with the reason. pass_ended: None before
    the first pass ended. error: why the last one failed, in plain words and what to do, or "".
    throttled_until: the server asked to be left alone until then. logins_refused: how often in a row. bytes_today,
    bytes_total: received in this UTC day, and ever. daily_bytes: the day's limit, 0 for none. bytes_pending: of mail
    still to fetch. done_by: when that will have been fetched, None when it cannot be told. lines_indexed: whether the
    index has the header lines of every content; those of a mirror that an older version made are taken in bit by bit.
    """

    rung: str
    distrusted: Mapping[str, str]
    pass_ended: datetime | None
    is_passing: bool
    error: str
    throttled_until: datetime | None
    logins_refused: int
    bytes_today: int
    bytes_total: int
    daily_bytes: int
    bytes_pending: int
    done_by: datetime | None
    lines_indexed: bool


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A message that could not be fetched or read, and when that is tried again."""

    uid: int
    size: int
    reason: str
    next_try: datetime


# A tuple is made in a fifth of the time that a frozen dataclass of so many fields takes, and a page makes dozens.
class MirroredMessage(NamedTuple):
    r"""One message of one folder, cleaned.

    id: stable over flag changes, re-syncs, recognised moves and UIDVALIDITY resets. flags: system flags in canonical
    case with backslash (`\Seen`), keywords as the server wrote them. date: the Date header with its own offset, None
    where it is missing or cannot be read. text, html, headers: None when not loaded or not mirrored yet. text_octets:
    how long a text that is not loaded is in UTF-8.
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
    findings: Mapping[str, int] = MappingProxyType({})
    text: str | None = None
    text_octets: int = 0
    html: str | None = None
    headers: tuple[tuple[str, str], ...] | None = None
