"""What a change of a mailbox came to, and why one could not be made."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Flagged:
    """The flags that upstream has now. is_mirrored: whether the mirror could write them down too."""

    flags: frozenset[str]
    is_mirrored: bool


@dataclass(frozen=True, slots=True)
class Moved:
    r"""A message that upstream has moved.

    message_id: the mirror's id of it in its new folder; None when a sync has yet to find it there. is_mirrored: whether
    the mirror shows the move already. is_original_left: the server could only copy, and the original stays, marked
    \Deleted: it has no way to remove one message and leave those that others marked.
    """

    message_id: int | None
    is_mirrored: bool
    is_original_left: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    r"""A message that upstream has deleted.

    how: "trash", moved there; "expunged", gone for good; "marked", only marked \Deleted, as without UIDPLUS.
    message_id: the mirror's id of it in the Trash. is_original_left: as for a move to there.
    """

    how: Literal["trash", "expunged", "marked"]
    is_mirrored: bool
    message_id: int | None = None
    is_original_left: bool = False


@dataclass(frozen=True, slots=True)
class Created:
    """A folder that upstream has made. name: as the mirror shows it."""

    name: str
    is_mirrored: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """A message that upstream has stored. message_id: the mirror's id of it, None when a sync has yet to find it."""

    message_id: int | None
    is_mirrored: bool


@dataclass
class FolderExists(ValueError):
    """There is a folder of that name already."""

    name: str


class NoTrash(LookupError):
    """The mailbox has no Trash folder that the caller may see, or the message is there already."""
