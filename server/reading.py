"""Messages with their texts, for a tool's answer. A text that is not mirrored yet is asked for and waited for."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from mirror.mirrored import FolderState, MirroredMessage, State
from server.auth import Caller
from server.brief_call import time_left, will_take_long
from server.long_call import still_wanted
from server.mailbox import Mailbox, Mailboxes, NoSuchMessage

TEXT_WAIT = 10.0
_WAITERS = 2
_POLL = 0.1

T = TypeVar("T")
Found = dict[str, MirroredMessage | None]
"""Messages by the uid asked for, None where there is none."""


class Reading:
    """Reads messages by their virtual uids."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._waiters = threading.BoundedSemaphore(_WAITERS)

    def read(
        self,
        caller: Caller,
        folder_name: str,
        uids: Sequence[str],
        compose: Callable[[Mailbox, FolderState, Found], T],
    ) -> T:
        """What compose makes of the messages with these uids. Raises MirrorAbsent, NoSuchFolder and what it raises."""
        with self._mailboxes.open(caller) as mailbox:
            folder = mailbox.folder(folder_name)
            found = _find(mailbox, folder, uids)
            missing = _without_text(found, caller)
            if not missing:
                return compose(mailbox, folder, found)
        self._wait_for_text(caller, folder_name, uids, missing)
        with self._mailboxes.open(caller) as mailbox:
            folder = mailbox.folder(folder_name)
            return compose(mailbox, folder, _find(mailbox, folder, uids))

    def _wait_for_text(self, caller: Caller, folder_name: str, uids: Sequence[str], missing: list[int]) -> None:
        will_take_long()
        self._mailboxes.mirrors.want(caller.user, caller.provider, missing)
        # Waiting takes a thread: when too many wait already, the answer comes at once and says to ask again.
        if not self._waiters.acquire(blocking=False):
            return
        try:
            began = time.monotonic()
            while missing and (waited := time.monotonic() - began) < TEXT_WAIT:
                still_wanted(waited, TEXT_WAIT, "waiting for a text that is not mirrored yet")
                time.sleep(_POLL)
                with self._mailboxes.open(caller) as mailbox:
                    missing = _without_text(_find(mailbox, mailbox.folder(folder_name), uids), caller)
        finally:
            self._waiters.release()


def _find(mailbox: Mailbox, folder: FolderState, uids: Sequence[str]) -> Found:
    found: Found = {}
    for uid in uids:
        time_left()
        try:
            found[uid] = mailbox.message(folder, uid)
        except NoSuchMessage:
            found[uid] = None
    return found


def _without_text(found: Found, caller: Caller) -> list[int]:
    if not caller.policy.content.bodies:
        return []
    return [message.content for message in found.values() if message is not None and message.state < State.TEXT]
