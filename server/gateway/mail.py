"""The gateway tools that send: a new mail, and a reply that stays in its conversation."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from mirror.errors import MirrorError
from mirror.mirrored import MirroredMessage
from server.audit.log import AuditUnwritable
from server.auth import Caller
from server.gateway.accounts import Accounts
from server.gateway.answers import bracketed
from server.gateway.arguments import ReplyEmail, SendEmail
from server.gateway.files import Files
from server.gateway.limits import Limits, RateLimited
from server.mailbox import Mailbox
from server.outbound import Denied, Outbound, Sent
from server.refusal import NO_COPY, sending
from server.sending.letter import Draft
from server.sending.outbox import SENT
from server.state.store import KeyUsed, StateUnavailable, StillSending, TooManySends
from server.tool import Declined, Noted

log = logging.getLogger(__name__)

REPEATED = "This mail was sent by an earlier call with this idempotency_key; it was not sent again."
_BRACKETED = re.compile(r"<[!-;=?-~]{1,900}>")
_UNSENT = (Denied, KeyUsed, StillSending, TooManySends, StateUnavailable, AuditUnwritable)
"""What is raised before any server is called."""


class Mail:
    """What the sending tools do."""

    def __init__(self, accounts: Accounts, outbound: Outbound, limits: Limits, files: Files) -> None:
        self._accounts = accounts
        self._outbound = outbound
        self._limits = limits
        self._files = files

    def send_email(self, caller: Caller, asked: SendEmail) -> Noted:
        """Send a mail; answers once the mail server has taken it."""
        at = self._accounts.caller(caller, asked.account)
        draft = Draft(
            at.account.address,
            tuple(asked.to),
            asked.subject,
            asked.body,
            cc=tuple(asked.cc or ()),
            bcc=tuple(asked.bcc or ()),
            html=asked.html_body or "",
            attachments=self._files.enclosures(at, asked.attachments or ()),
        )
        return _sent(self._send(self._keeping_a_copy(at, asked), draft, asked.idempotency_key))

    def reply_email(self, caller: Caller, asked: ReplyEmail) -> Noted:
        """Send a reply, and mark what it replies to as answered where that may be changed."""
        at = self._accounts.caller(caller, asked.account)
        _check_ids("in_reply_to", [asked.in_reply_to])
        _check_ids("references", asked.references or ())
        parent = self._parent(at, asked.in_reply_to)
        draft = Draft(
            at.account.address,
            (asked.to,),
            asked.subject,
            asked.body,
            html=asked.html_body or "",
            in_reply_to=asked.in_reply_to,
            references=_thread(asked.in_reply_to, asked.references, None if parent is None else parent[0]),
        )
        sent = self._send(self._keeping_a_copy(at, asked), draft, asked.idempotency_key)
        if parent is not None and parent[1] and not sent.is_repeat:
            self._mark_answered(at, parent[0])
        return _sent(sent)

    def _keeping_a_copy(self, at: Caller, asked: SendEmail | ReplyEmail) -> Caller:
        """The caller, with a copy in Sent where the call asks for one although the configuration does not."""
        if asked.append_folder is not None:
            if not asked.append_to_sent:
                raise Declined('argument "append_folder" needs append_to_sent = true')
            with self._accounts.folder(at, asked.append_folder) as (_, folder):
                if folder.role != SENT:
                    raise Declined("Copies of sent mail are kept in the Sent folder only: leave append_folder out.")
        if not asked.append_to_sent or at.account.sent_copy != "none":
            return at
        return replace(at, account=at.account.model_copy(update={"sent_copy": "append"}))

    def _send(self, at: Caller, draft: Draft, key: str | None) -> Sent:
        with sending(), self._limits.sending(at, *_UNSENT) as window:
            try:
                sent = self._outbound.send(at, draft, key)
            except TooManySends as exc:
                raise RateLimited(exc.seconds) from None
            if sent.is_repeat:
                window.give_back()
        return sent

    def _parent(self, at: Caller, message_id: str) -> tuple[MirroredMessage, bool] | None:
        """What is replied to, as far as the profile sees it, and whether it may be marked."""
        try:
            with self._accounts.open(at) as mailbox:
                return _of_those(mailbox, mailbox.by_message_id(message_id[1:-1]))
        except Declined:
            return None

    def _mark_answered(self, at: Caller, parent: MirroredMessage) -> None:
        """The reply is sent whether this works or not."""
        try:
            self._outbound.store_flags(at, parent, "add", ["\\Answered"])
        except (MirrorError, AuditUnwritable, LookupError, PermissionError) as exc:
            log.warning("reply: the parent is not marked as answered, %s", type(exc).__name__)


def _of_those(mailbox: Mailbox, found: Sequence[MirroredMessage]) -> tuple[MirroredMessage, bool] | None:
    """One that may be marked, else the first."""
    access = {folder.id: mailbox.access(folder) for folder in mailbox.folders()}
    for message in found:
        if access.get(message.folder_id) == "write" and mailbox.reader.place(message.id) is not None:
            return message, True
    return (found[0], False) if found else None


def _check_ids(name: str, ids: Sequence[str]) -> None:
    if not all(_BRACKETED.fullmatch(each) for each in ids):
        raise Declined(
            f'argument "{name}" must be a Message-ID in angle brackets as get_email shows it, such as <id@example.org>'
        )


def _thread(in_reply_to: str, given: Sequence[str] | None, parent: MirroredMessage | None) -> tuple[str, ...]:
    """References of a reply (RFC 5322 3.6.4): those of the parent and the parent itself."""
    if given is not None:
        before = list(given)
    elif parent is None:
        before = []
    else:
        before = [
            bracketed(each) for each in parent.references or ((parent.in_reply_to,) if parent.in_reply_to else ())
        ]
    return tuple(dict.fromkeys([*(each for each in before if each != in_reply_to), in_reply_to]))


def _sent(sent: Sent) -> Noted:
    notes = [REPEATED] if sent.is_repeat else []
    if sent.sent_copy == "failed":
        notes.append(NO_COPY)
    answer = {"status": "sent", "recipients": len(sent.recipients)}
    return Noted(answer, notes, {"postmirror/message_id": bracketed(sent.message_id)})
