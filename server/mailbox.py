"""One identity's mirror as its profile sees it, for the length of one request.

What a profile does not see does not exist here: its folders and messages raise the same error as ones that never were.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mirror.errors import QueryTooSlow
from mirror.mirrored import FolderState, MirroredMessage
from mirror.query.order import Position
from mirror.query.reader import Reader
from mirror.query.searching import Page
from mirror.query.tree import Query
from server.auth import Caller
from server.brief_call import NotBrief, time_left, will_take_long
from server.key import DataKey
from server.mirrors import Mirrors
from server.policy import Access, Seen, Sight, folder_access, shows_true_size, shows_whole, view, visible
from server.redaction.markers import told
from server.remembered import Remembered
from server.seal import NotSealed, Seal

_BRIEF_ROWS = 100
"""Messages that are loaded within milliseconds."""


class NoSuchFolder(LookupError):
    """The folder is hidden, or there is none."""


class NoSuchMessage(LookupError):
    """The uid is forged, foreign or of another folder, or the message is hidden or gone."""


class ReadOnly(PermissionError):
    """The folder may be read, and no more."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A mailbox opened for one caller. Every message it gives out went through `visible`, then `told`."""

    caller: Caller
    reader: Reader
    seal: Seal
    now: datetime
    seen: Seen

    def folders(self) -> list[FolderState]:
        """The folders that may be read, in the mirror's order; containers that hold no mail are left out."""
        return [folder for folder in self.all_folders() if folder.selectable]

    def all_folders(self) -> list[FolderState]:
        """The same with the containers."""
        return [folder for folder in self._mirrored() if self.access(folder) != "hidden"]

    def is_listed(self) -> bool:
        """Whether any folder is mirrored, hidden ones among them."""
        return bool(self._mirrored())

    def _mirrored(self) -> list[FolderState]:
        within = time_left()
        try:
            return self.reader.folders(within)
        except QueryTooSlow:
            raise NotBrief from None

    def access(self, folder: FolderState) -> Access:
        """What the caller may do in a folder."""
        return folder_access(folder, self.caller.policy)

    def folder(self, name: str) -> FolderState:
        """The folder of that name, INBOX in any case. Raises NoSuchFolder."""
        wanted = "INBOX" if name.upper() == "INBOX" else name
        for folder in self.folders():
            if folder.name == wanted or (wanted == "INBOX" and folder.name.upper() == wanted):
                return folder
        raise NoSuchFolder(name)

    def page(self, folder: FolderState, query: Query | None, after: Position | None, limit: int) -> Page:
        """The next messages of a folder that match."""
        policy = self.caller.policy.content
        is_whole = shows_whole(policy, query)
        # Texts are too long to be remembered.
        restricted = view(policy, self.now, query, self.seen if is_whole else None)
        since = None if policy.max_age is None else self.now - policy.max_age
        if limit > _BRIEF_ROWS or (restricted is not None and not is_whole):
            will_take_long()
        within = time_left()
        try:
            page = self.reader.page(
                folder.id,
                query,
                after,
                limit,
                restricted,
                since,
                is_whole=is_whole,
                within=within,
                octets=not shows_true_size(policy),
            )
        except QueryTooSlow:
            if within is None:
                raise
            raise NotBrief from None
        if page.is_cut and within is not None:
            raise NotBrief
        sight = Sight(policy, self.now, self.seen)
        seen = page.messages if restricted is not None else map(sight, page.messages)
        return replace(page, messages=[told(message, policy) for message in seen if message is not None])

    def message(self, folder: FolderState, uid: str) -> MirroredMessage:
        """The message behind a virtual uid, with its text where that is mirrored. Raises NoSuchMessage."""
        try:
            message_id = self.seal.message_id(self.reader.epoch, uid)
        except NotSealed:
            raise NoSuchMessage(uid) from None
        return self.message_by_id(folder.id, message_id)

    def message_by_id(self, folder_id: int, message_id: int) -> MirroredMessage:
        """The message with an id of the mirror's own. Raises NoSuchMessage."""
        policy = self.caller.policy.content
        message = self.reader.message(folder_id, message_id, with_html=policy.html)
        shown = None if message is None else visible(message, policy, self.now)
        if shown is None:
            raise NoSuchMessage(message_id)
        return told(shown, policy)

    def by_message_id(self, message_id: str) -> list[MirroredMessage]:
        """The messages with this Message-ID (without angle brackets) that the caller sees, newest first."""
        folders = {folder.id for folder in self.folders()}
        found = []
        for folder_id, id_ in self.reader.by_message_id(message_id):
            if folder_id in folders:
                with suppress(NoSuchMessage):
                    found.append(self.message_by_id(folder_id, id_))
        return found

    def uids(self, messages: Sequence[MirroredMessage]) -> list[str]:
        """The virtual uids of these messages, in their order."""
        return self.seal.uids(self.reader.epoch, [message.id for message in messages])


class Mailboxes:
    """Opens the mailbox of a caller."""

    def __init__(self, mirrors: Mirrors, key: DataKey) -> None:
        self.mirrors = mirrors
        self._key = key
        self._seen: Seen = Remembered()
        self._seals: dict[tuple[bytes, str, str, str], Seal] = {}

    @contextmanager
    def open(self, caller: Caller) -> Iterator[Mailbox]:
        """The caller's mailbox for the length of a block. Raises MirrorAbsent."""
        self.mirrors.presence.show()
        with self.mirrors.reading(caller.user, caller.provider) as reader:
            yield Mailbox(caller, reader, self.seal(caller), datetime.now(UTC), self._seen)

    def seal(self, caller: Caller) -> Seal:
        """What seals and opens this identity's uids, cursors and attachment ids."""
        identity = (self._key.current(), caller.user, caller.provider, caller.profile)
        if identity not in self._seals:
            self._seals[identity] = Seal(*identity)
        return self._seals[identity]
