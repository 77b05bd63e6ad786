"""Answers of the gateway tools: the shapes of the page they follow, and what the mirror says beside them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from config.provider import Provider
from mirror.message import Attachment
from mirror.mirrored import FolderState, MirroredMessage
from server.refusal import CLOSED
from server.shown import MESSAGE_PEOPLE, how_far_back, instant, known_of, people, piece_end, shortened_subject
from server.tool import Noted

STALE_AFTER = timedelta(minutes=10)
_MISSED_PASSES = 3

INCOMPLETE = "Older mail is still being fetched: a message that is not found may exist."


def folder_list(folders: Sequence[FolderState]) -> list[dict[str, object]]:
    """Every folder as `{"name", "flags", "delimiter"}`.

    Whether a folder has children is said as far as they are in the list: the server's word tells of hidden ones.
    """
    return [
        {"name": folder.name, "flags": _flags(folder, folders), "delimiter": folder.delimiter} for folder in folders
    ]


def _flags(folder: FolderState, listed: Sequence[FolderState]) -> list[str]:
    about_children = {"\\haschildren", "\\hasnochildren"}
    kept = [flag for flag in folder.attributes if flag.lower() not in about_children]
    if folder.delimiter is None:
        return kept
    prefix = f"{folder.name}{folder.delimiter}"
    has_children = any(each.name.startswith(prefix) for each in listed)
    return ["\\HasChildren" if has_children else "\\HasNoChildren", *kept]


def noted(value: object, folders: Sequence[FolderState], account: Provider, *notes: str, **meta: object) -> Noted:
    """An answer with how much is known of the folders it is from: in `_meta` and, where it matters, in words."""
    known = known_of(folders)
    said = [*notes]
    stale_after = max(STALE_AFTER, account.sync.interval * _MISSED_PASSES)
    if known.as_of is not None and datetime.now(UTC) - known.as_of > stale_after:
        said.append(f"As of {instant(known.as_of)}: the mail server was not reached since.")
    if not known.complete:
        since = "" if known.back_to is None else f" Everything since {known.back_to.isoformat()} is there."
        said.append(f"{INCOMPLETE}{since}")
    if len(folders) == 1 and folders[0].is_closed:
        said.append(CLOSED)
    of_mirror = {"as_of": instant(known.as_of), "complete": known.complete, **how_far_back(known.back_to)}
    return Noted(value, said, {f"postmirror/{name}": each for name, each in {**of_mirror, **meta}.items()})


def email(uid: str, folder: FolderState, message: MirroredMessage, offset: int, end: int) -> dict[str, object]:
    """A message as get_email shows it, with the piece of its body from offset to end."""
    return {
        "id": uid,
        "folder": folder.name,
        "subject": shortened_subject(message),
        "from": ", ".join(people(message.from_, MESSAGE_PEOPLE)),
        "to": ", ".join(people(message.to, MESSAGE_PEOPLE)),
        "cc": ", ".join(people(message.cc, MESSAGE_PEOPLE)),
        "date": "" if message.date is None else format_datetime(message.date),
        "body": (message.text or "")[offset:end],
        "attachments": list(by_filename(message.attachments)),
        "read": "\\Seen" in message.flags,
        "message_id": bracketed(message.message_id),
        "references": [bracketed(each) for each in message.references],
    }


def body_end(message: MirroredMessage, offset: int, limit: int) -> int:
    """Where the piece of a body ends that one answer holds."""
    return piece_end(message.text or "", offset, limit)


def by_filename(attachments: Sequence[Attachment]) -> dict[str, Attachment]:
    """The attachments by the names they are shown under: of several with one name, each gets its own."""
    named: dict[str, Attachment] = {}
    for attachment in attachments:
        name, number = attachment.filename, 2
        while name in named:
            name = numbered(attachment.filename, number)
            number += 1
        named[name] = attachment
    return named


def numbered(filename: str, number: int) -> str:
    """A file name with a number before its extension: `report (2).pdf`."""
    stem, dot, extension = filename.rpartition(".")
    return f"{stem} ({number}){dot}{extension}" if stem else f"{filename} ({number})"


def bracketed(message_id: str) -> str:
    """A Message-ID as it stands in a header."""
    return f"<{message_id}>" if message_id else ""
