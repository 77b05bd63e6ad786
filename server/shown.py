"""How messages are shown to a client: plain JSON, everything of a bounded length."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache

from mirror.message import Address
from mirror.mirrored import FolderState, MirroredMessage

MESSAGE_PEOPLE = 100
FLAGS = {"seen": "\\Seen", "flagged": "\\Flagged", "answered": "\\Answered"}
PREVIEW_CHARS = 45
"""So much that a page of 20 ordinary envelopes is under 1,500 tokens, of four characters each."""
_ENVELOPE_PEOPLE = 10
_SUBJECT_CHARS = 500
_SPECIALS = re.compile(r'[()<>\[\]:;@\\,."]')


def envelope(uid: str, message: MirroredMessage) -> dict[str, object]:
    """A message as lists show it."""
    return {**headers(uid, message, _ENVELOPE_PEOPLE), "preview": _shortened(message.preview, PREVIEW_CHARS)}


def headers(uid: str, message: MirroredMessage, most_people: int) -> dict[str, object]:
    """What lists and readings show alike."""
    return {
        "uid": uid,
        "subject": shortened_subject(message),
        "from": ", ".join(people(message.from_, most_people)),
        "to": people(message.to, most_people),
        "date": (message.date or message.internaldate).isoformat(),
        "flags": flag_names(message.flags),
        "has_attachments": any(not attachment.inline for attachment in message.attachments),
        "size": message.size,
    }


def shortened_subject(message: MirroredMessage) -> str:
    """The subject, of a bounded length."""
    return _shortened(message.subject, _SUBJECT_CHARS)


def people(addresses: Sequence[Address], limit: int) -> list[str]:
    """The first so many addresses, and how many more there are."""
    return list(_people(tuple(addresses), limit))


@lru_cache(maxsize=1024)
def _people(addresses: tuple[Address, ...], limit: int) -> tuple[str, ...]:
    shown = tuple(person(address) for address in addresses[:limit])
    return (*shown, f"and {len(addresses) - limit} more") if len(addresses) > limit else shown


def person(address: Address) -> str:
    """`Name <address>` (RFC 5322 3.4), quoted where the name holds what could be read as an address."""
    if not address.name:
        return address.address
    name = _shortened(address.name, 200)
    if _SPECIALS.search(name):
        name = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{name} <{address.address}>"


def flag_names(flags: Collection[str]) -> list[str]:
    """The flags of a message that clients know, in their words."""
    return [name for name, flag in FLAGS.items() if flag in flags]


def instant(at: datetime | None) -> str | None:
    """A moment in UTC, to the second."""
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Known:
    """How far some folders agree with the mail server, together. back_to: from that day on all mail is there."""

    as_of: datetime | None
    complete: bool
    back_to: date | None


def known_of(folders: Sequence[FolderState]) -> Known:
    """What can be said of all of these folders; those that the server does not open are left out."""
    opened = [folder for folder in folders if not folder.is_closed]
    times = [folder.as_of for folder in opened]
    complete = bool(folders) and all(folder.complete for folder in opened)
    days = [folder.complete_back_to for folder in opened if not folder.complete]
    return Known(
        min((at for at in times if at is not None), default=None) if all(times) else None,
        complete,
        None if complete or None in days else max(filter(None, days), default=None),
    )


def how_far_back(day: date | None) -> dict[str, object]:
    """From which day on an incomplete folder has all mail; nothing where that cannot be told."""
    return {} if day is None else {"complete_back_to": day.isoformat()}


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def piece_end(text: str, offset: int, limit: int) -> int:
    """Where a piece of at most `limit` characters from `offset` on ends: at the end, else between two words."""
    end = offset + limit
    if end >= len(text):
        return len(text)
    gap = max(text.rfind(" ", offset, end), text.rfind("\n", offset, end))
    return gap + 1 if gap > offset + limit // 2 else end


def fair_share(lengths: Sequence[int], most: int, together: int) -> int:
    """The longest piece of each body, of at most so many characters, such that all pieces together are within limit."""
    left = together
    for done, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - done)
        if length > share:
            return min(most, share)
        left -= length
    return most
