"""The accounts of a gateway token: which mailbox a call is about, and what must hold before it is opened."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from mirror.errors import MirrorAbsent
from mirror.mirrored import FolderState, MirroredMessage
from server.auth import Caller
from server.brief_call import will_take_long
from server.gateway.limits import Limits
from server.mailbox import Mailbox, Mailboxes, NoSuchFolder, ReadOnly
from server.reading import Found, Reading
from server.refusal import reading
from server.tool import Declined

FIRST_WAIT = 8.0
"""Seconds that a call waits for the first pass of a mirror to show the folder it asks for."""
_POLL = 0.1

NO_MESSAGE = "No such message in this folder. Search it again for current message IDs."

T = TypeVar("T")


class Accounts:
    """Opens the mailboxes of gateway tokens."""

    def __init__(self, mailboxes: Mailboxes, limits: Limits) -> None:
        self._mailboxes = mailboxes
        self._limits = limits
        self._reading = Reading(mailboxes)
        self._had_a_pass: set[tuple[str, str]] = set()
        """Mailboxes whose first pass has ended: nothing is waited for any more."""

    def names(self, caller: Caller) -> list[tuple[str, str]]:
        """(name, user name) of every account the token reaches."""
        return [
            (account.account_name or provider, account.username or account.address)
            for provider, account in caller.providers.items()
        ]

    def caller(self, caller: Caller, name: str) -> Caller:
        """The caller at the account of that name."""
        at = caller.named(name)
        if at is None:
            raise Declined(f"Account not found: {name}")
        return at

    @contextmanager
    def open(self, caller: Caller) -> Iterator[Mailbox]:
        """The mailbox of a caller at an account. Its errors leave the block as what the client can do about them."""
        with reading(NO_MESSAGE):
            self._await(caller, None)
            with self._mailboxes.open(caller) as mailbox:
                yield mailbox

    @contextmanager
    def folder(self, caller: Caller, name: str) -> Iterator[tuple[Mailbox, FolderState]]:
        """A folder that may be read."""
        with reading(NO_MESSAGE):
            self._await(caller, name)
            with self._mailboxes.open(caller) as mailbox:
                yield mailbox, mailbox.folder(name)

    def read(
        self,
        caller: Caller,
        folder: str,
        uids: Sequence[str],
        compose: Callable[[Mailbox, FolderState, Found], T],
    ) -> T:
        """What compose makes of messages with their texts."""
        with reading(NO_MESSAGE):
            self._await(caller, folder)
            return self._reading.read(caller, folder, uids, compose)

    def writable(self, caller: Caller, folder: str, uid: str) -> MirroredMessage:
        """A message that may be changed."""
        with self.folder(caller, folder) as (mailbox, state):
            if mailbox.access(state) != "write":
                raise ReadOnly(folder)
            return mailbox.message(state, uid)

    def _await(self, caller: Caller, folder: str | None) -> None:
        """Wait a moment while the very first pass has not shown the folder yet."""
        if (caller.user, caller.provider) in self._had_a_pass or self._is_there(caller, folder):
            return
        will_take_long()
        deadline = time.monotonic() + FIRST_WAIT
        while time.monotonic() < deadline and not self._is_there(caller, folder):
            time.sleep(_POLL)

    def _is_there(self, caller: Caller, folder: str | None) -> bool:
        try:
            with self._mailboxes.open(caller) as mailbox:
                account = mailbox.reader.account()
                if account.pass_ended is not None:
                    self._had_a_pass.add((caller.user, caller.provider))
                if account.pass_ended is not None or account.error:
                    return True
                listed = mailbox.is_listed()
                if folder is None or not listed:
                    return listed
                state = mailbox.folder(folder)
                return state.messages > state.pending or state.complete
        except NoSuchFolder:
            return True
        except MirrorAbsent:
            return False
