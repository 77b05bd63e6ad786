"""What an upstream server says of folders and messages: plain values, shared by everything that syncs or writes."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is upstream, and what it must look like there before anything is written to it.

    message_id: without angle brackets; "" where it has none or is not known yet.
    """

    folder_raw: bytes
    uidvalidity: int
    uid: int
    size: int
    internaldate: datetime
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """One message of an upstream enumeration. internaldate keeps the zone the server wrote.

    email_id: what the server calls the mail itself, equal for copies (RFC 8474 EMAILID, X-GM-MSGID); "" for nothing.
    """

    uid: int
    flags: tuple[str, ...]
    internaldate: datetime
    size: int
    modseq: int = 0
    email_id: str = ""


@dataclass(frozen=True, slots=True)
class ListedFolder:
    """One folder of an upstream LIST. raw: the name exactly as received; role: special use with backslash or ""."""

    raw: bytes
    name: str
    delimiter: str | None
    attributes: tuple[str, ...]
    role: str
    selectable: bool
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """What STATUS said of a folder; None where the server does not say (Courier has no UIDNEXT before SELECT).

    mailbox_id: what stays when the folder is renamed (RFC 8474); "" for nothing.
    """

    messages: int
    uidnext: int | None
    uidvalidity: int | None
    highestmodseq: int | None
    mailbox_id: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """A folder opened by EXAMINE or SELECT. highestmodseq: None without CONDSTORE in this folder (RFC 7162 3.1.2).

    changed: (uid, flags, modseq) of what changed since the modseq it was opened with; None when it was opened without.
    """

    exists: int
    uidvalidity: int
    uidnext: int | None
    highestmodseq: int | None
    changed: tuple[tuple[int, tuple[str, ...], int], ...] | None = None


@dataclass(frozen=True, slots=True)
class FlagsNow:
    """The flags a message has after a write. modseq: 0 without CONDSTORE."""

    flags: frozenset[str]
    modseq: int


@dataclass(frozen=True, slots=True)
class Arrived:
    r"""Where a message came to rest. uid and uidvalidity: None when the server does not say; a sync finds it then.

    left: the flags of the original where that stays, marked \Deleted (a move without UIDPLUS).
    """

    uidvalidity: int | None
    uid: int | None
    left: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    r"""What a deletion came to. expunged: False when it is only marked \Deleted, as without UIDPLUS."""

    expunged: bool
    flags: frozenset[str] = frozenset()
