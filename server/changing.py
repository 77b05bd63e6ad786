"""Changing a mailbox: policy first, then upstream, and the mirror only after upstream has said yes."""

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Collection
from typing import Literal, TypeVar

from mirror.errors import MessageChanged, StoreError, UpstreamRefused
from mirror.folder_names import with_roles, with_rule
from mirror.listing import ListedFolder, Place, Removed
from mirror.mirrored import FolderState, MirroredMessage
from mirror.store import Store
from mirror.upstream import Upstream
from mirror.wake import wake
from server.audit.log import Audit
from server.auth import Caller
from server.changes import Appended, Created, Deleted, Flagged, FolderExists, Moved, NoTrash
from server.folder_name import check_folder_name
from server.mailbox import NoSuchFolder, ReadOnly
from server.mirrors import Mirrors
from server.outgoing import Denial
from server.policy import folder_access
from server.sending.letter import Draft, digest_of, write_letter
from server.sending.mail import Denied, check_form
from server.sending.proofreading import Ambiguous
from server.state.store import State
from server.storing import add_to_mirror, characters_of, header_of, message_id_of, store_mail, with_line_ends
from server.upstreams import Upstreams

log = logging.getLogger(__name__)

T = TypeVar("T")
TRASH = "\\Trash"


class Changing:
    """Changes flags, moves, deletes and stores messages, makes folders.

    Every change needs write access to each folder it touches. Beside what each method says, all raise NoSuchFolder for
    a hidden folder, ReadOnly, AuditUnwritable, StateUnavailable, MessageChanged when upstream has another message in
    this one's place, and the other UpstreamErrors.
    """

    _audit: Audit
    _mirrors: Mirrors
    _upstreams: Upstreams
    _state: State

    def store_flags(
        self, caller: Caller, message: MirroredMessage, change: Literal["add", "remove"], flags: Collection[str]
    ) -> Flagged:
        """Change flags upstream, then in the mirror; returns the flags the message has now."""
        self._folder(caller, message.folder_id)
        place = self._place(caller, message)
        with self._audit.recorded("flags", caller, message=message.id, change=change, flags=" ".join(sorted(flags))):
            now = self._run(caller, lambda upstream, _: upstream.store_flags(place, change, flags))
        is_mirrored = self._mirror(caller, _doing(lambda store: store.set_flags(message.id, now.flags, now.modseq)))
        log.info("flags: %s %s identity=%s", change, " ".join(sorted(flags)), caller.identity)
        return Flagged(now.flags, bool(is_mirrored))

    def move(self, caller: Caller, message: MirroredMessage, folder: FolderState) -> Moved:
        """Move a message to another folder."""
        source, target = self._folder(caller, message.folder_id), self._folder(caller, folder.id)
        if source.id == target.id:
            return Moved(message.id, is_mirrored=True)
        return self._move(caller, message, target, "move")

    def _move(self, caller: Caller, message: MirroredMessage, target: FolderState, event: str) -> Moved:
        place = self._place(caller, message)
        # By what upstream calls both: a mirror that is built anew has other ids.
        asked = f"move {place.folder_raw!r} {place.uidvalidity} {place.uid} {target.raw!r}"
        with (
            self._audit.recorded(event, caller, message=message.id, folder=target.id),
            self._state.confirming(caller.user, caller.provider, asked) as earlier,
        ):
            arrived = self._run(
                caller,
                lambda upstream, again: upstream.move(place, target.raw, repeated=again or earlier is not None),
            )

        def follow(store: Store) -> bool:
            if arrived.left is not None:
                store.set_flags(message.id, arrived.left)
                return False
            return store.move(message.id, target.id, arrived.uidvalidity, arrived.uid)

        is_placed = self._mirror(caller, follow)
        if not is_placed:
            self._want_pass(caller)
        log.info("%s: identity=%s", event, caller.identity)
        return Moved(message.id if is_placed else None, bool(is_placed), arrived.left is not None)

    def delete(self, caller: Caller, message: MirroredMessage, permanently: bool) -> Deleted:
        """Move a message to the Trash, or delete it for good. Raises NoTrash."""
        source = self._folder(caller, message.folder_id)
        if not permanently:
            moved = self._move(caller, message, self._trash(caller, source), "delete")
            return Deleted("trash", moved.is_mirrored, moved.message_id, moved.is_original_left)
        place = self._place(caller, message)
        with self._audit.recorded("delete", caller, message=message.id, permanently=True):
            removed = self._run(caller, lambda upstream, again: _remove(upstream, place, again))

        def follow(store: Store) -> bool:
            if removed is None or removed.expunged:
                store.forget(message.id)
            else:
                store.set_flags(message.id, removed.flags)
            return True

        is_mirrored = bool(self._mirror(caller, follow))
        log.info("delete: permanently identity=%s", caller.identity)
        return Deleted("expunged" if removed is None or removed.expunged else "marked", is_mirrored)

    def _trash(self, caller: Caller, source: FolderState) -> FolderState:
        trash = next((each for each in self._folders(caller) if each.role == TRASH and each.selectable), None)
        if trash is None or trash.id == source.id or folder_access(trash, caller.policy) == "hidden":
            raise NoTrash
        return self._folder(caller, trash.id)

    def create_folder(self, caller: Caller, name: str) -> Created:
        """Make a folder. Raises BadFolderName and FolderExists.

        The profile's rules decide by the name, and by the role that a folder has which is named so: what they hide
        under it cannot be made, whether it is there or not.
        """
        folders = self._folders(caller)
        delimiter = next((each.delimiter for each in folders if each.delimiter), "/")
        check_folder_name(name, delimiter)
        if not _has_other_than_inbox(folders, delimiter):
            prefix = self._run(caller, lambda upstream, _: upstream.personal_prefix())
            name = name if f"{name}{delimiter}".startswith(prefix) or name.upper() == "INBOX" else f"{prefix}{name}"
        for role in {"", _role_of(name, delimiter)}:
            _require_write(_yet_to_be(name, role), caller)
        if any(_is(each, name) and folder_access(each, caller.policy) != "hidden" for each in folders):
            raise FolderExists(name)
        with self._audit.recorded("create_folder", caller):
            listed = self._run(caller, lambda upstream, again: _created(upstream, name, again))
        made = next((each for each in with_rule(with_roles(listed), caller.account.sync) if each.name == name), None)
        if made is None:
            raise UpstreamRefused("the server answered OK but LIST does not show the folder")
        is_mirrored = self._mirror(caller, _doing(lambda store: store.add_folder(made)))
        self._want_pass(caller)
        log.info("create_folder: identity=%s", caller.identity)
        return Created(made.name, bool(is_mirrored))

    def append(self, caller: Caller, folder: FolderState, mail: Draft | bytes, flags: Collection[str] = ()) -> Appended:
        """Store a mail in a folder without sending it: a draft, or a message as it is.

        Raises Denied for a draft that cannot be written, for either when its text is longer than the profile may send,
        and NoMessage. Asked for again after a lost answer, it is not stored a second time.
        """
        target = self._folder(caller, folder.id)
        if isinstance(mail, Draft):
            raw, asked = _written(caller, mail), digest_of(mail)
        else:
            raw = with_line_ends(mail)
            _check_length(caller, characters_of(raw, _most(caller)))
            asked = hashlib.sha256(raw).digest()
        with (
            self._audit.recorded("append", caller, folder=target.id, size=len(raw)),
            self._state.confirming(
                caller.user, caller.provider, f"append {target.raw!r} {asked.hex()}", message_id_of(raw)
            ) as earlier,
        ):
            stored = self._run(
                caller, lambda upstream, again: store_mail(upstream, target.raw, raw, flags, again, earlier or ())
            )
        header = header_of(raw) if isinstance(mail, Draft) else None
        message_id = self._mirror(caller, lambda store: add_to_mirror(store, target.id, stored, header))
        self._want_pass(caller)
        log.info("append: identity=%s size=%d", caller.identity, len(raw))
        return Appended(message_id, message_id is not None)

    def _folders(self, caller: Caller) -> list[FolderState]:
        with self._mirrors.reading(caller.user, caller.provider) as reader:
            return reader.folders()

    def _folder(self, caller: Caller, folder_id: int) -> FolderState:
        """The folder as it is now, which the caller may write to. Raises NoSuchFolder and ReadOnly."""
        folder = next((each for each in self._folders(caller) if each.id == folder_id and each.selectable), None)
        if folder is None:
            raise NoSuchFolder(folder_id)
        _require_write(folder, caller)
        return folder

    def _place(self, caller: Caller, message: MirroredMessage) -> Place:
        with self._mirrors.reading(caller.user, caller.provider) as reader:
            place = reader.place(message.id)
        if place is None:
            raise MessageChanged(f"message {message.id}")
        return place

    def _run(self, caller: Caller, work: Callable[[Upstream, bool], T]) -> T:
        """The result of work(session, whether an earlier try may have happened)."""
        return self._upstreams.attempt((caller.user, caller.provider), caller.account, work)

    def _mirror(self, caller: Caller, follow: Callable[[Store], T]) -> T | None:
        """What the mirror made of it; None when it cannot be written, and follows with the next sync."""
        try:
            with Store(self._mirrors.folder(caller.user, caller.provider)) as store:
                return follow(store)
        except (sqlite3.Error, StoreError) as exc:
            log.warning("the mirror cannot be written (%s), it follows later", type(exc).__name__)
            return None

    def _want_pass(self, caller: Caller) -> None:
        if self._mirror(caller, lambda store: store.want_pass()) is not None:
            wake(self._mirrors.folder(caller.user, caller.provider))


def _doing(follow: Callable[[Store], None]) -> Callable[[Store], bool]:
    def done(store: Store) -> bool:
        follow(store)
        return True

    return done


def _remove(upstream: Upstream, place: Place, again: bool) -> Removed | None:
    """None when an earlier try, whose answer was lost, has removed it."""
    try:
        return upstream.remove(place)
    except MessageChanged:
        if again:
            return None
        raise


def _created(upstream: Upstream, name: str, again: bool) -> list[ListedFolder]:
    try:
        return upstream.create_folder(name)
    except UpstreamRefused:
        listed = upstream.list_folders()[0] if again else []
        if any(each.name == name for each in listed):
            return listed
        raise


def _require_write(folder: FolderState, caller: Caller) -> None:
    access = folder_access(folder, caller.policy)
    if access == "hidden":
        raise NoSuchFolder(folder.name)
    if access != "write":
        raise ReadOnly(folder.name)


def _is(folder: FolderState, name: str) -> bool:
    return folder.name == name or folder.name.upper() == name.upper() == "INBOX"


def _yet_to_be(name: str, role: str) -> FolderState:
    return FolderState(0, b"", name, None, (), role, True, None, None, False, 0, 0, 0, "")


def _role_of(name: str, delimiter: str) -> str:
    [folder] = with_roles([ListedFolder(b"", name, delimiter, (), "", True)])
    return folder.role


def _has_other_than_inbox(folders: Collection[FolderState], delimiter: str) -> bool:
    """Whether there are folders beside INBOX and those below it, so that folders are not made below it anyway."""
    return any(not f"{each.name}{delimiter}".upper().startswith(f"INBOX{delimiter}") for each in folders)


def _most(caller: Caller) -> int | None:
    """How many characters of text the outbound policy lets a mail have; None when there is no such policy."""
    return None if caller.policy.outbound is None else caller.policy.outbound.max_chars


def _check_length(caller: Caller, characters: int) -> None:
    most = _most(caller)
    if most is not None and characters > most:
        raise Denied(
            Denial(f"too long: subject and body may have {most} characters, these have {characters}", rule="max_chars")
        )


def _written(caller: Caller, draft: Draft) -> bytes:
    envelope = check_form(caller, draft)
    _check_length(caller, len(draft.subject) + len(draft.text) + len(draft.html))
    try:
        return write_letter(envelope, draft).copy
    except Ambiguous:
        raise Denied(Denial("the mail cannot be written so that every program reads it alike")) from None
