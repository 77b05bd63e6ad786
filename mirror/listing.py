"""What an upstream server says of folders and messages: plain values, shared by everything that syncs or writes."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is upstream, and what it must look like there before anything is written to it."""

    folder_raw: bytes
    uidvalidity: int
    uid: int
    size: int
    internaldate: datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """One message of an upstream enumeration. internaldate keeps the zone the server wrote."""

    uid: int
    flags: tuple[str, ...]
    internaldate: datetime
    size: int
    modseq: int = 0


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
    """What STATUS said of a folder; None where the server does not say (Courier has no UIDNEXT before SELECT)."""

    messages: int
    uidnext: int | None
    uidvalidity: int | None
    highestmodseq: int | None


@dataclass(frozen=True, slots=True)
class Opened:
    """A folder opened by EXAMINE or SELECT. highestmodseq: None without CONDSTORE in this folder (RFC 7162 3.1.2)."""

    exists: int
    uidvalidity: int
    uidnext: int | None
    highestmodseq: int | None


@dataclass(frozen=True, slots=True)
class FlagsNow:
    """The flags a message has after a write. modseq: 0 without CONDSTORE."""

    flags: frozenset[str]
    modseq: int
