"""Sending a mail: policy first, then the journal, then the server."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from config.provider import Endpoint, Provider
from config.secret import SecretSource, SecretUnavailable
from mirror.credential import Credentials
from mirror.errors import AuthenticationRefused, UpstreamUnavailable
from server.audit.log import Audit
from server.auth import Caller
from server.mirrors import Mirrors
from server.outgoing import Denial, Words, check_outbound
from server.policy import NotAnAddress, Recipient, parse_recipient
from server.sending.correspondent import Correspondent, breaks_lines, parse_correspondent
from server.sending.letter import Draft, Envelope, digest_of, is_message_id, write_letter
from server.sending.outbox import Outbox, SentCopy
from server.sending.proofreading import Ambiguous
from server.sending.submission import (
    Login,
    Parcel,
    RecipientsRefused,
    SubmissionRefused,
    SubmissionUnavailable,
    SubmissionUncertain,
    names,
    submit,
)
from server.state.journal import CopyState, Entry, Submission
from server.state.store import State, StateUnavailable
from server.writers import has_written

log = logging.getLogger(__name__)


@dataclass
class Denied(Exception):
    """Policy or form forbids it; no server was called."""

    denial: Denial


@dataclass(frozen=True, slots=True)
class Sent:
    """A mail that the provider has taken. message_id: without angle brackets.

    sent_copy: what became of the copy in the Sent folder. is_repeat: it was sent by an earlier call with this key.
    """

    message_id: str
    recipients: tuple[str, ...]
    sent_copy: SentCopy = "none"
    is_repeat: bool = False


class Sending:
    """Sends mail."""

    _audit: Audit
    _outbox: Outbox
    _mirrors: Mirrors
    _state: State
    _secrets: dict[SecretSource, str]
    _credentials: Credentials

    def send(self, caller: Caller, draft: Draft, idempotency_key: str | None = None) -> Sent:
        """Check, journal and submit a mail; returns once the provider has taken it.

        idempotency_key: a mail that was sent with it is not sent again, and its outcome told again; one that nobody
        received may be tried again. Raises Denied, KeyUsed, StillSending, AuditUnwritable, TooManySends and
        StateUnavailable before any server is called, then what `submission.submit` raises. Once the server has spoken,
        its verdict counts, whether the journal can be written or not.
        """
        entry = Entry(
            caller.user, caller.provider, caller.profile, caller.token, key=idempotency_key, draft=digest_of(draft)
        )
        self._state.recover()
        earlier = self._state.earlier_submission(entry)
        if earlier is not None:
            # Before the policy is asked: what was sent under an earlier one is not said to be unsent.
            return self._again(caller, earlier)
        envelope = check_draft(caller, draft, partial(has_written, self._mirrors, caller))
        endpoint = caller.account.smtp
        if endpoint is None:
            raise Denied(Denial("no server for sending is configured for this mailbox"))
        try:
            parcel = write_letter(envelope, draft)
        except Ambiguous:
            raise Denied(Denial("the mail cannot be written so that every program reads it alike")) from None
        with self._audit.recorded(
            "send", caller, message_id=parcel.message_id, recipients=len(parcel.recipients), size=len(parcel.mail)
        ) as found:
            sent = self._deliver(caller, entry, parcel, endpoint)
            found["sent_copy"] = sent.sent_copy
        log.info(
            "send: sent identity=%s message_id=%s to=%s", caller.identity, parcel.message_id, names(parcel.recipients)
        )
        return sent

    def _deliver(self, caller: Caller, entry: Entry, parcel: Parcel, endpoint: Endpoint) -> Sent:
        policy = caller.policy.outbound
        with self._state.sending():
            line = self._state.begin_submission(_with(entry, parcel), 0 if policy is None else policy.per_hour)
            if isinstance(line, Submission):
                return self._again(caller, line)
            due = self._submit(caller, line, parcel, endpoint)
        copy = (
            self._outbox.keep_copy(line, _mailbox(caller), caller.account, parcel.message_id, parcel.copy)
            if due == "owed"
            else due
        )
        return Sent(parcel.message_id, parcel.recipients, copy)

    def _again(self, caller: Caller, line: Submission) -> Sent:
        """The outcome of an earlier call. Raises SubmissionUncertain, unless the mail is found in Sent now."""
        if line.state == "sent":
            copy = "failed" if line.copy == "owed" else line.copy or "none"
        elif self._outbox.resolve(line.id, _mailbox(caller), line.message_id, caller.account):
            copy = "by_provider"
        else:
            raise SubmissionUncertain(line.message_id)
        return Sent(line.message_id, line.recipients, copy, is_repeat=True)

    def _submit(
        self, caller: Caller, line: int, parcel: Parcel, endpoint: Endpoint
    ) -> Literal["owed", "by_provider", "none"]:
        """What is to become of the copy in Sent, once the server has taken the mail."""
        is_handed_over = False
        copy: Literal["owed", "by_provider", "none"] = "none"

        def hand_over() -> None:
            nonlocal is_handed_over
            self._state.hand_over(line)
            is_handed_over = True

        def taken() -> None:
            nonlocal copy
            copy = self._outbox.copy_due(caller.account)
            self._journal(line, "sent", copy=copy)

        try:
            self._hand_in(parcel, caller, endpoint, hand_over, taken)
        except SubmissionUncertain:
            self._settle(caller, line, parcel, "uncertain", "no answer after the final dot")
            if self._outbox.resolve(line, _mailbox(caller), parcel.message_id, caller.account):
                return "by_provider"
            raise
        except (SubmissionUnavailable, AuthenticationRefused, RecipientsRefused, SubmissionRefused) as exc:
            if isinstance(exc, AuthenticationRefused):
                self._secrets.clear()
            self._settle(caller, line, parcel, "refused", type(exc).__name__)
            raise
        except BaseException as exc:
            self._settle(caller, line, parcel, "uncertain" if is_handed_over else "refused", type(exc).__name__)
            raise
        return copy

    def _hand_in(
        self,
        parcel: Parcel,
        caller: Caller,
        endpoint: Endpoint,
        hand_over: Callable[[], None],
        taken: Callable[[], None],
    ) -> None:
        login = self._login(caller, endpoint)
        try:
            submit(parcel, endpoint, login, hand_over, taken)
        except AuthenticationRefused:
            # The secret may have been replaced since it was read, as tokens are that expire; nothing was sent so far.
            self._secrets.clear()
            fresh = self._login(caller, endpoint, "" if login is None else login.secret)
            if fresh == login:
                raise
            submit(parcel, endpoint, fresh, hand_over, taken)

    def _journal(
        self, line: int, state: Literal["sent", "refused", "uncertain"], reason: str = "", copy: CopyState = ""
    ) -> None:
        """Write the verdict down. A line that stays open is called uncertain later."""
        try:
            self._state.settle_submission(line, state, reason, copy)
        except StateUnavailable as exc:
            log.error("send: the journal cannot be written (%s); line %d stays open, it is %s", exc, line, state)  # noqa: TRY400 - no fault of the program

    def _settle(
        self, caller: Caller, line: int, parcel: Parcel, state: Literal["refused", "uncertain"], reason: str
    ) -> None:
        self._journal(line, state, reason)
        log.warning("send: %s (%s) identity=%s message_id=%s", state, reason, caller.identity, parcel.message_id)

    def _login(self, caller: Caller, endpoint: Endpoint, refused: str = "") -> Login | None:
        account = caller.account
        user, source = account.login(endpoint)
        if account.is_signed_in(endpoint):
            return Login(user, self._access_token(caller, endpoint, refused), is_token=True)
        if source is None:
            return None
        if source not in self._secrets:
            try:
                self._secrets[source] = source.read()
            except SecretUnavailable as exc:
                raise AuthenticationRefused(str(exc)) from exc
        return Login(user, self._secrets[source], is_token=account.takes_token(endpoint))

    def _access_token(self, caller: Caller, endpoint: Endpoint, refused: str) -> str:
        credential = self._credentials(*_mailbox(caller), caller.account, endpoint)
        if credential is None:
            raise AuthenticationRefused("signing in by OAuth 2 is not possible here")
        try:
            return credential.secret(refused)
        except UpstreamUnavailable as exc:
            raise SubmissionUnavailable(str(exc)) from exc


def _mailbox(caller: Caller) -> tuple[str, str]:
    return caller.user, caller.provider


def _with(entry: Entry, parcel: Parcel) -> Entry:
    return replace(
        entry,
        message_id=parcel.message_id,
        sender=parcel.sender,
        recipients=parcel.recipients,
        mail=parcel.copy,
    )


def check_draft(caller: Caller, draft: Draft, has_written: Callable[[Recipient], bool]) -> Envelope:
    """Who the mail is from and for, when it may be sent. Raises Denied."""
    envelope = check_form(caller, draft)
    recipients = tuple(each.recipient for each in envelope.everybody)
    if not recipients:
        raise Denied(Denial("nobody to send it to"))
    files, people = (each.filename for each in draft.attachments), (each.name for each in envelope.everybody)
    beside = (*files, *people, draft.in_reply_to, *draft.references)
    words = Words(draft.subject, draft.text, draft.html, beside)
    denial = check_outbound(recipients, words, caller.policy.outbound, has_written)
    if denial is not None:
        raise Denied(denial)
    return envelope


def check_form(caller: Caller, draft: Draft) -> Envelope:
    """Who the mail is from and for, when it can be written. Raises Denied."""
    sender = _own_address(caller.account, draft.from_)
    taken: set[str] = set()
    to, cc, bcc = (_people(texts, taken) for texts in (draft.to, draft.cc, draft.bcc))
    if breaks_lines(draft.subject):
        raise Denied(Denial("the subject holds a line break or another control character"))
    if any(not each.filename.strip() or breaks_lines(each.filename) for each in draft.attachments):
        raise Denied(Denial("an attachment needs a file name without control characters"))
    if draft.in_reply_to and not is_message_id(draft.in_reply_to):
        raise Denied(Denial("in_reply_to is no Message-ID"))
    return Envelope(sender, to, cc, bcc)


def _people(texts: Sequence[str], taken: set[str]) -> tuple[Correspondent, ...]:
    """Those of them that were not taken yet."""
    people = []
    for text in texts:
        try:
            person = parse_correspondent(text)
        except NotAnAddress:
            raise Denied(Denial("not one plain address", (text[:320],))) from None
        if person.recipient.key not in taken:
            taken.add(person.recipient.key)
            people.append(person)
    return tuple(people)


def _own_address(account: Provider, text: str) -> Correspondent:
    """The configured address that a sender names, with the configured name: a client cannot choose another."""
    try:
        asked = parse_correspondent(text)
    except NotAnAddress:
        asked = None
    for address in account.addresses:
        try:
            own = parse_recipient(address)
        except NotAnAddress:
            log.warning("send: a configured address cannot be sent from")
            continue
        if asked is not None and asked.recipient.key == own.key and asked.name in ("", account.display_name):
            return Correspondent(account.display_name, own)
    raise Denied(Denial(f"from must be {' or '.join(account.addresses)}"))


def plain_addresses(texts: Sequence[str]) -> tuple[str, ...]:
    """The same texts, when each is an address without a name. Raises Denied."""
    for text in texts:
        try:
            parse_recipient(text)
        except NotAnAddress:
            raise Denied(Denial("not one plain address", (text[:320],))) from None
    return tuple(texts)
