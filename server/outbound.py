"""Writes: policy first, then upstream, and the mirror only after upstream has said yes."""

import logging
import sqlite3
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from config.identity import Endpoint, Provider
from config.secret import SecretSource, SecretUnavailable
from mirror.errors import AuthenticationRefused, MessageChanged, StoreError
from mirror.mirrored import MirroredMessage
from mirror.store import Store
from server.audit import Audit
from server.auth import Caller
from server.letter import Ambiguous, write_letter
from server.mirrors import Mirrors
from server.policy import Denial, NotAnAddress, Recipient, check_outbound, parse_recipient
from server.state import State, StateUnavailable
from server.submission import (
    Parcel,
    RecipientsRefused,
    SubmissionRefused,
    SubmissionUnavailable,
    SubmissionUncertain,
    names,
    submit,
)
from server.upstreams import Upstreams

log = logging.getLogger(__name__)

_BREAKING = ("Cc", "Zl", "Zp")


@dataclass
class Denied(Exception):
    """Policy or form forbids it; no server was called."""

    denial: Denial


@dataclass(frozen=True, slots=True)
class Draft:
    """A mail as a client wrote it."""

    sender: str
    recipients: tuple[str, ...]
    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A mail that the provider has taken. message_id: without angle brackets."""

    message_id: str
    recipients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flagged:
    """The flags that upstream has now. is_mirrored: whether the mirror could write them down too."""

    flags: frozenset[str]
    is_mirrored: bool


class Outbound:
    """Sends mail and changes flags."""

    def __init__(self, state: State, mirrors: Mirrors, upstreams: Upstreams, audit: Audit) -> None:
        self._audit = audit
        self._state = state
        self._mirrors = mirrors
        self._upstreams = upstreams
        self._secrets: dict[SecretSource, str] = {}

    def send(self, caller: Caller, draft: Draft) -> Sent:
        """Check, journal and submit a mail; returns once the provider has taken it.

        Raises Denied, AuditUnwritable, TooManySends and StateUnavailable before any server is called, then what
        `submission.submit` raises. Once the server has spoken, its verdict counts, whether the journal can be written
        or not.
        """
        sender, recipients = _check_draft(caller, draft)
        endpoint = caller.account.smtp
        if endpoint is None:
            raise Denied(Denial("no server for sending is configured for this mailbox"))
        try:
            parcel = write_letter(caller.account.display_name, sender, recipients, draft.subject, draft.body)
        except Ambiguous:
            raise Denied(Denial("the mail cannot be written so that every program reads it alike")) from None
        with self._audit.recorded(
            "send", caller, message_id=parcel.message_id, recipients=len(parcel.recipients), size=len(parcel.mail)
        ):
            self._deliver(caller, parcel, endpoint)
        log.info(
            "send: sent identity=%s message_id=%s to=%s", caller.identity, parcel.message_id, names(parcel.recipients)
        )
        return Sent(parcel.message_id, parcel.recipients)

    def _deliver(self, caller: Caller, parcel: Parcel, endpoint: Endpoint) -> None:
        policy = caller.policy.outbound
        line = self._state.begin_submission(
            user=caller.user,
            provider=caller.provider,
            profile=caller.profile,
            token=caller.token,
            message_id=parcel.message_id,
            sender=parcel.sender,
            recipients=parcel.recipients,
            mail=parcel.mail,
            per_hour=0 if policy is None else policy.per_hour,
        )
        self._submit(caller, line, parcel, endpoint)

    def _submit(self, caller: Caller, line: int, parcel: Parcel, endpoint: Endpoint) -> None:
        try:
            submit(parcel, endpoint, self._login(caller.account, endpoint))
        except SubmissionUncertain:
            self._settle(caller, line, parcel, "uncertain", "no answer after the final dot")
            raise
        except (SubmissionUnavailable, AuthenticationRefused, RecipientsRefused, SubmissionRefused) as exc:
            if isinstance(exc, AuthenticationRefused):
                self._secrets.clear()
            self._settle(caller, line, parcel, "refused", type(exc).__name__)
            raise
        except BaseException:
            self._settle(caller, line, parcel, "uncertain", "internal error")
            raise
        self._journal(line, "sent")

    def _journal(self, line: int, state: Literal["sent", "refused", "uncertain"], reason: str = "") -> None:
        """Write the verdict down. A line that stays open is called uncertain later."""
        try:
            self._state.settle_submission(line, state, reason)
        except StateUnavailable as exc:
            log.error("send: the journal cannot be written (%s); line %d stays open, it is %s", exc, line, state)  # noqa: TRY400 - no fault of the program

    def _settle(
        self, caller: Caller, line: int, parcel: Parcel, state: Literal["refused", "uncertain"], reason: str
    ) -> None:
        self._journal(line, state, reason)
        log.warning("send: %s (%s) identity=%s message_id=%s", state, reason, caller.identity, parcel.message_id)

    def _login(self, account: Provider, endpoint: Endpoint) -> tuple[str, str] | None:
        user, source = account.login(endpoint)
        if source is None:
            return None
        if source not in self._secrets:
            try:
                self._secrets[source] = source.read()
            except SecretUnavailable as exc:
                raise AuthenticationRefused(str(exc)) from exc
        return user, self._secrets[source]

    def store_flags(
        self, caller: Caller, message: MirroredMessage, change: Literal["add", "remove"], flags: Collection[str]
    ) -> Flagged:
        """Change flags upstream, then in the mirror; returns the flags the message has now.

        Raises MessageChanged when upstream has another message in its place, and the other UpstreamErrors.
        """
        with self._mirrors.reading(caller.user, caller.provider) as reader:
            place = reader.place(message.id)
        if place is None:
            raise MessageChanged(f"message {message.id}")
        with self._audit.recorded("flags", caller, message=message.id, change=change, flags=" ".join(sorted(flags))):
            now = self._upstreams.run(
                (caller.user, caller.provider),
                caller.account,
                lambda upstream: upstream.store_flags(place, change, flags),
            )
        is_mirrored = True
        try:
            with Store(self._mirrors.folder(caller.user, caller.provider)) as store:
                store.set_flags(message.id, now.flags, now.modseq)
        except (sqlite3.Error, StoreError) as exc:
            is_mirrored = False
            log.warning("flags: the mirror cannot be written (%s), it follows later", type(exc).__name__)
        log.info("flags: %s %s identity=%s", change, " ".join(sorted(flags)), caller.identity)
        return Flagged(now.flags, is_mirrored)


def _check_draft(caller: Caller, draft: Draft) -> tuple[Recipient, tuple[Recipient, ...]]:
    """The sender as configured, and the recipients without repetitions. Raises Denied."""
    sender = _own_address(caller.account, draft.sender)
    recipients: dict[str, Recipient] = {}
    for text in draft.recipients:
        try:
            recipient = parse_recipient(text)
        except NotAnAddress:
            raise Denied(Denial("not one plain address", (text[:320],))) from None
        recipients.setdefault(recipient.key, recipient)
    if any(unicodedata.category(character) in _BREAKING for character in draft.subject):
        raise Denied(Denial("the subject holds a line break or another control character"))
    denial = check_outbound(tuple(recipients.values()), len(draft.subject) + len(draft.body), caller.policy.outbound)
    if denial is not None:
        raise Denied(denial)
    return sender, tuple(recipients.values())


def _own_address(account: Provider, text: str) -> Recipient:
    try:
        asked = parse_recipient(text)
    except NotAnAddress:
        asked = None
    for address in account.addresses:
        try:
            own = parse_recipient(address)
        except NotAnAddress:
            log.warning("send: a configured address cannot be sent from")
            continue
        if asked is not None and asked.key == own.key:
            return own
    raise Denied(Denial(f"from must be {' or '.join(account.addresses)}"))
