"""The gateway tools that change mailboxes: move, delete, mark as read, create a folder, store a message."""

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager

from server.auth import Caller
from server.changes import FolderExists
from server.folder_name import BadFolderName
from server.gateway.accounts import NO_MESSAGE, Accounts
from server.gateway.arguments import (
    APPEND_BYTES,
    AppendEmail,
    CreateFolder,
    DeleteEmail,
    MarkEmailRead,
    MoveEmail,
)
from server.gateway.limits import Limits
from server.mailbox import ReadOnly
from server.outbound import Outbound
from server.refusal import MIRROR_FOLLOWS, changing, reading
from server.storing import NoMessage
from server.tool import Declined, Noted

AGAIN = "asking for the same again later is safe"
LOOK_FIRST = "look into the folder before asking again"
MARKED_ONLY = (
    "The mail server cannot remove a single message without those that others marked, so it is only marked as deleted."
)
COPIED = f"It was copied. {MARKED_ONLY}"
SOON = "The message will have a new message_id in the folder once the mirror has seen it there: search for it."


class Changes:
    """What the changing tools do."""

    def __init__(self, accounts: Accounts, outbound: Outbound, limits: Limits) -> None:
        self._accounts = accounts
        self._outbound = outbound
        self._limits = limits

    def move_email(self, caller: Caller, asked: MoveEmail) -> Noted:
        """Move a message to another folder; its id stays good there."""
        at = self._accounts.caller(caller, asked.account)
        with self._accounts.folder(at, asked.source_folder) as (mailbox, source):
            target = mailbox.folder(asked.dest_folder)
            if {mailbox.access(source), mailbox.access(target)} != {"write"}:
                raise ReadOnly(source.name)
            message = mailbox.message(source, asked.message_id)
        with self._changing(at, AGAIN):
            moved = self._outbound.move(at, message, target)
        notes = [] if moved.is_mirrored or moved.is_original_left else [MIRROR_FOLLOWS]
        if moved.is_original_left:
            notes.append(COPIED)
        uid = asked.message_id
        if moved.message_id is None:
            notes.append(SOON)
        else:
            with self._accounts.open(at) as mailbox:
                [uid] = mailbox.seal.uids(mailbox.reader.epoch, [moved.message_id])
        return Noted({"status": "moved", "message_id": uid, "dest_folder": asked.dest_folder}, notes)

    def delete_email(self, caller: Caller, asked: DeleteEmail) -> Noted:
        r"""Delete one message for good, or only mark it \Deleted."""
        at = self._accounts.caller(caller, asked.account)
        message = self._accounts.writable(at, asked.folder, asked.message_id)
        notes = []
        with self._changing(at, AGAIN):
            if asked.expunge:
                deleted = self._outbound.delete(at, message, permanently=True)
                is_mirrored = deleted.is_mirrored
                if deleted.how == "marked":
                    notes.append(MARKED_ONLY)
            else:
                is_mirrored = self._outbound.store_flags(at, message, "add", ["\\Deleted"]).is_mirrored
        if not is_mirrored:
            notes.append(MIRROR_FOLLOWS)
        return Noted({"status": "deleted", "message_id": asked.message_id}, notes)

    def mark_email_read(self, caller: Caller, asked: MarkEmailRead) -> Noted:
        r"""Set \Seen."""
        at = self._accounts.caller(caller, asked.account)
        message = self._accounts.writable(at, asked.folder, asked.message_id)
        with self._changing(at, AGAIN):
            now = self._outbound.store_flags(at, message, "add", ["\\Seen"])
        notes = [] if now.is_mirrored else [MIRROR_FOLLOWS]
        return Noted({"status": "marked_read", "message_id": asked.message_id}, notes)

    def create_folder(self, caller: Caller, asked: CreateFolder) -> Noted:
        """Make a folder."""
        at = self._accounts.caller(caller, asked.account)
        with self._accounts.open(at):
            pass
        try:
            with self._changing(at, AGAIN):
                created = self._outbound.create_folder(at, asked.folder_name)
        except BadFolderName as exc:
            raise Declined(f"No folder can have this name: {exc.reason}.") from None
        except FolderExists:
            raise Declined("There is a folder of that name already.") from None
        return Noted({"status": "created", "folder": created.name}, [] if created.is_mirrored else [MIRROR_FOLLOWS])

    def append_email(self, caller: Caller, asked: AppendEmail) -> Noted:
        """Store a message in a folder without sending it."""
        at = self._accounts.caller(caller, asked.account)
        raw = _decoded(asked.raw_message)
        with self._accounts.folder(at, asked.folder) as (mailbox, folder):
            if mailbox.access(folder) != "write":
                raise ReadOnly(folder.name)
        try:
            with self._changing(at, LOOK_FIRST):
                stored = self._outbound.append(at, folder, raw, asked.flags or ())
        except NoMessage:
            raise Declined("raw_message is no mail: it begins with no header field, or holds a NUL.") from None
        notes = [] if stored.is_mirrored else [MIRROR_FOLLOWS]
        return Noted({"status": "appended", "folder": folder.name}, notes)

    @contextmanager
    def _changing(self, at: Caller, again: str) -> Iterator[None]:
        with reading(NO_MESSAGE), changing(again):
            self._limits.operate(at)
            yield


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error):
        raise Declined("raw_message is not Base64.") from None
    if len(raw) > APPEND_BYTES:
        raise Declined(f"raw_message has {len(raw)} bytes; {APPEND_BYTES} are allowed.")
    return raw
