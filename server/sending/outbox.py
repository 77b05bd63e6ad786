"""What is left to do once a server has answered: the copy in Sent, and what became of a mail nobody knows of.

A mail whose outcome is uncertain is looked for in Sent by its Message-ID, in the mirror and upstream. Found there, it
was sent; else it stays uncertain: it is never sent again, nor put into Sent, by this program. A copy that is owed is
tried again, and given up after a day.
"""

import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from config.provider import Endpoint, Provider
from mirror.errors import MirrorBusy, MirrorError, StoreError, UpstreamError, UpstreamRefused
from mirror.folder_names import with_roles
from mirror.lock import Lock
from mirror.mirrored import FolderState
from mirror.store import Store
from mirror.wake import wake
from server.live import ConfigurationLost
from server.mirrors import Mirrors
from server.state.journal import Submission
from server.state.store import State, StateUnavailable
from server.storing import add_to_mirror, header_of, store_mail
from server.unusable import FileUnusable
from server.upstreams import Upstreams

log = logging.getLogger(__name__)

SentCopy = Literal["stored", "by_provider", "failed", "none"]
Accounts = Mapping[tuple[str, str], Provider]
"""Providers by user and provider name."""

SENT = "\\Sent"
FILED_WITHIN = 3.0
"""Seconds in which a server that files what it sends has done so."""
LOOK_AGAIN = 60.0
"""Seconds between two looks at what is unsettled."""
_POLL = 0.5
_AGED = 300.0
_GIVEN_UP = 86_400.0
_SELF_FILING = (
    # support.google.com/mail/answer/78892: "Sent messages are automatically copied to the Gmail/Sent folder"
    r"(^|\.)(gmail|googlemail|google)\.com$",
    # github.com/jstedfast/MailKit/issues/1193: Outlook.com and Exchange Online file what SMTP AUTH submits
    r"(^|\.)(outlook|office365|hotmail|live)\.com$",
)


def files_itself(smtp: Endpoint) -> bool:
    """Whether this submission server is known to put what it sends into Sent."""
    return any(re.search(pattern, smtp.host, re.IGNORECASE) for pattern in _SELF_FILING)


class NoSentFolder(UpstreamRefused):
    """The mailbox has no folder for sent mail."""


class Outbox:
    """The unsettled lines of the send journal."""

    def __init__(self, state: State, mirrors: Mirrors, upstreams: Upstreams) -> None:
        self._state = state
        self._mirrors = mirrors
        self._upstreams = upstreams

    def copy_due(self, account: Provider) -> Literal["owed", "by_provider", "none"]:
        """What is to become of the copy of a mail that this account's server has just taken."""
        if account.sent_copy == "none" or account.smtp is None:
            return "none"
        return "by_provider" if account.sent_copy == "auto" and files_itself(account.smtp) else "owed"

    def keep_copy(
        self, line: int, mailbox: tuple[str, str], account: Provider, message_id: str, mail: bytes
    ) -> SentCopy:
        """Put a mail that was sent into Sent, unless the server does; what became of it. Never raises for a failure."""
        try:
            copy = self._keep(mailbox, account, message_id, mail)
        except Exception as exc:
            is_foreseen = isinstance(exc, UpstreamError | StoreError | sqlite3.Error)
            log.warning("send: no copy in Sent yet message_id=%s", message_id, exc_info=None if is_foreseen else exc)
            self._settle_copy(line, "owed", f"no copy in Sent yet: {type(exc).__name__}")
            return "failed"
        self._settle_copy(line, copy, "")
        return copy

    def _keep(
        self, mailbox: tuple[str, str], account: Provider, message_id: str, mail: bytes
    ) -> Literal["stored", "by_provider"]:
        raw, folder = self._sent_folder(mailbox, account)
        deadline = time.monotonic() + (FILED_WITHIN if account.sent_copy == "auto" else 0.0)
        while True:
            # Looked for in any case: an earlier try, or another program, may have put it there.
            found = self._upstreams.run(mailbox, account, lambda upstream: upstream.find_message_id(raw, message_id))
            if found is not None:
                return "by_provider"
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL)
        stored = self._upstreams.attempt(
            mailbox, account, lambda upstream, again: store_mail(upstream, raw, mail, ["\\Seen"], again)
        )
        if folder is not None:
            place = self._mirrors.folder(*mailbox)
            try:
                with Store(place) as mirror:
                    add_to_mirror(mirror, folder.id, stored, header_of(mail))
                    mirror.want_pass()
                wake(place)
            except (StoreError, sqlite3.Error, OSError) as exc:
                log.warning("send: the mirror cannot be written (%s), it follows later", type(exc).__name__)
        return "stored"

    def _sent_folder(self, mailbox: tuple[str, str], account: Provider) -> tuple[bytes, FolderState | None]:
        """The folder for sent mail, by its raw name, and as the mirror has it. Raises NoSentFolder."""
        try:
            with self._mirrors.reading(*mailbox) as reader:
                known = next((each for each in reader.folders() if each.role == SENT and each.selectable), None)
        except (StoreError, sqlite3.Error):
            known = None
        if known is not None:
            return known.raw, known
        listed = with_roles(self._upstreams.run(mailbox, account, lambda upstream: upstream.list_folders()[0]))
        for each in listed:
            if each.role == SENT and each.selectable:
                return each.raw, None
        raise NoSentFolder("there is no folder for sent mail")

    def _settle_copy(self, line: int, copy: Literal["owed", "stored", "by_provider", "failed"], reason: str) -> None:
        try:
            self._state.settle_copy(line, copy, reason)
        except StateUnavailable as exc:
            # It stays owed, and the next look finds the copy in Sent.
            log.error("send: the journal cannot be written (%s)", exc)  # noqa: TRY400 - no fault of the program

    # -- uncertain mails

    def resolve(self, line: int, mailbox: tuple[str, str], message_id: str, account: Provider | None) -> bool:
        """Whether an uncertain mail has been found in Sent, which settles it as sent.

        account: where to ask upstream too, None to ask the mirror only.
        """
        if not self._is_mirrored_in_sent(mailbox, message_id) and not self._is_in_sent(mailbox, account, message_id):
            return False
        try:
            self._state.settle_submission(line, "sent", "found in Sent", "by_provider")
        except StateUnavailable as exc:
            log.error("send: the journal cannot be written (%s)", exc)  # noqa: TRY400 - no fault of the program
        log.info("send: an uncertain mail was sent after all message_id=%s", message_id)
        return True

    def _is_mirrored_in_sent(self, mailbox: tuple[str, str], message_id: str) -> bool:
        try:
            with self._mirrors.reading(*mailbox) as reader:
                return reader.has_message_id(SENT, message_id)
        except (StoreError, sqlite3.Error):
            return False

    def _is_in_sent(self, mailbox: tuple[str, str], account: Provider | None, message_id: str) -> bool:
        if account is None:
            return False
        try:
            raw, _ = self._sent_folder(mailbox, account)
            return (
                self._upstreams.run(mailbox, account, lambda upstream: upstream.find_message_id(raw, message_id))
                is not None
            )
        except UpstreamError:
            return False

    def catch_up(
        self, accounts: Accounts, *, ask_upstream: bool = False, with_copies: bool = True, aged: float = _AGED
    ) -> None:
        """Settle what can be settled now.

        ask_upstream: about what is uncertain; the mirror is asked in any case. with_copies: store those that are owed,
        aged so many seconds, since whoever sent the mail is at it until then. One process does this at a time.
        """
        self._state.recover()
        lines = self._state.unsettled()
        if not lines:
            return
        try:
            with Lock(self._state.folder / "outbox.lock"):
                for line in lines:
                    mailbox = (line.user, line.provider)
                    account = accounts.get(mailbox)
                    if line.state == "uncertain":
                        self.resolve(line.id, mailbox, line.message_id, account if ask_upstream else None)
                    elif with_copies and time.time() - (line.settled or line.created) >= aged:
                        self._pay_copy(line, account)
        except MirrorBusy:
            return

    def _pay_copy(self, line: Submission, account: Provider | None) -> None:
        mail = self._state.mail_of(line.id)
        is_hopeless = account is None or mail is None or account.sent_copy == "none"
        if is_hopeless or time.time() - line.created > _GIVEN_UP:
            self._settle_copy(line.id, "failed", "given up: no copy in Sent")
        elif mail is not None and account is not None:
            self.keep_copy(line.id, (line.user, line.provider), account, line.message_id, mail)


class Follower:
    """A thread that looks at what is unsettled, now and then. accounts: those of the configuration in force."""

    def __init__(self, outbox: Outbox, accounts: Callable[[], Accounts]) -> None:
        self._outbox = outbox
        self._accounts = accounts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="outbox", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while True:
            try:
                self._outbox.catch_up(self._accounts())
            except (FileUnusable, ConfigurationLost, MirrorError, OSError) as exc:
                log.warning("outbox: not looked at (%s)", type(exc).__name__)
            if self._stop.wait(LOOK_AGAIN):
                return

    def close(self) -> None:
        """End the thread; a look under way is waited for."""
        self._stop.set()
        self._thread.join(10)
