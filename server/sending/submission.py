"""Handing one mail to a submission server.

All or nobody: a refused recipient ends the transaction with RSET before DATA. Until the final dot has been written, a
broken connection means that nothing was sent. From then on, without an answer, nobody knows.
"""

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from config.provider import Endpoint
from mirror.errors import AuthenticationRefused
from server.sending.smtp import Broken, Conversation, Patience

PATIENCE = Patience()
_ENHANCED = re.compile(rb"([245]\.\d{1,3}\.\d{1,3})(?:\s|$)")


class SubmissionUnavailable(ConnectionError):
    """The server cannot be reached, or left before the mail was handed over: nobody received it."""


@dataclass
class SubmissionRefused(Exception):
    """The server answered no: nobody received the mail. reply: code and enhanced code, `552 5.3.4`."""

    reply: str

    @property
    def is_temporary(self) -> bool:
        """Whether the server may take the same mail later."""
        return self.reply.startswith("4")


@dataclass
class MailTooLarge(SubmissionRefused):
    """The server says beforehand that it takes no mail of this size (RFC 1870). In octets."""

    size: int
    limit: int


@dataclass
class AddressesNotTaken(SubmissionRefused):
    """The server takes no addresses outside ASCII (RFC 6531)."""

    addresses: tuple[str, ...]


@dataclass
class RecipientsRefused(Exception):
    """At least one recipient was refused, so nobody received the mail. refused: address and reply of each."""

    refused: tuple[tuple[str, str], ...]


@dataclass
class SubmissionUncertain(Exception):
    """The mail was handed over and no answer came: it may have been sent."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in. is_token: the secret is an OAuth 2 access token and no password."""

    user: str
    secret: str = field(repr=False)
    is_token: bool = False


@dataclass(frozen=True, slots=True)
class Parcel:
    """A mail ready for the wire. needs_smtputf8: an address is not ASCII (RFC 6531). copy: as it belongs into Sent."""

    message_id: str
    sender: str
    recipients: tuple[str, ...]
    mail: bytes
    needs_smtputf8: bool = False
    copy: bytes = b""


def submit(
    parcel: Parcel,
    endpoint: Endpoint,
    login: Login | None,
    hand_over: Callable[[], None] = lambda: None,
    taken: Callable[[], None] = lambda: None,
) -> None:
    """Returns once the server has taken responsibility for the mail.

    hand_over is called before the final dot is written; when it raises, nothing was sent. taken is called as soon as
    the server has the mail, before we take our leave of it.
    Raises SubmissionUnavailable, AuthenticationRefused, RecipientsRefused, SubmissionRefused or SubmissionUncertain.
    """
    smtp = Conversation(PATIENCE)
    try:
        with _nothing_sent():
            smtp.open(endpoint)
            if login is not None:
                _log_in(smtp, login)
            _open_transaction(smtp, parcel)
            _write_content(smtp, parcel.mail)
            hand_over()
            if smtp.hung_up():
                raise _hung_up(smtp)
        _await_verdict(smtp, parcel)
        taken()
        _leave(smtp)
    finally:
        smtp.close()


def check_login(endpoint: Endpoint, login: Login, senders: Sequence[str] = ()) -> dict[str, str]:
    """Returns when the server lets this login in, with its replies to senders that it refuses; nothing is sent.

    Addresses outside ASCII are left out. Raises SubmissionUnavailable or AuthenticationRefused.
    """
    smtp = Conversation(PATIENCE)
    refused = {}
    try:
        with _nothing_sent():
            smtp.open(endpoint)
            _log_in(smtp, login)
            for sender in filter(str.isascii, senders):
                code, text = smtp.docmd("MAIL", f"FROM:<{sender}>")
                if code >= 500:
                    refused[sender] = _reply(code, text)
                smtp.docmd("RSET")
        _leave(smtp)
    finally:
        smtp.close()
    return refused


@contextmanager
def _nothing_sent() -> Iterator[None]:
    try:
        yield
    except Broken as exc:
        if isinstance(exc, SubmissionUnavailable):
            raise
        raise SubmissionUnavailable(str(exc) or type(exc).__name__) from exc


def _log_in(smtp: Conversation, login: Login) -> None:
    """By the first mechanism that the server offers and knows. smtplib's own login cannot send what is not ASCII."""
    offered = smtp.esmtp_features.get("auth", "").upper().replace("=", " ").split()
    code = 504
    for name, attempt in (_TOKEN_MECHANISMS if login.is_token else _PASSWORD_MECHANISMS).items():
        if name in offered and code == 504:
            code = attempt(smtp, login)
    if code == 504:
        known = ", ".join(_TOKEN_MECHANISMS if login.is_token else _PASSWORD_MECHANISMS)
        raise AuthenticationRefused(f"the server offers no login by {known}")
    if code == 421 or 430 <= code < 460:
        raise SubmissionUnavailable(f"login put off with {code}")
    if code != 235:
        raise AuthenticationRefused(f"login refused with {code}")


def _plain(smtp: Conversation, login: Login) -> int:
    return smtp.docmd("AUTH", "PLAIN " + _base64(f"\0{login.user}\0{login.secret}"))[0]


def _login(smtp: Conversation, login: Login) -> int:
    code, _ = smtp.docmd("AUTH", "LOGIN")
    for word in (login.user, login.secret):
        if code == 334:
            code, _ = smtp.docmd(_base64(word))
    return code


def _cram_md5(smtp: Conversation, login: Login) -> int:
    code, text = smtp.docmd("AUTH", "CRAM-MD5")
    if code != 334:
        return code
    proof = hmac.new(login.secret.encode(), base64.b64decode(text), hashlib.md5).hexdigest()  # RFC 2195
    return smtp.docmd(_base64(f"{login.user} {proof}"))[0]


def _xoauth2(smtp: Conversation, login: Login) -> int:
    return _bearer(smtp, "XOAUTH2", f"user={login.user}\x01auth=Bearer {login.secret}\x01\x01")


def _oauthbearer(smtp: Conversation, login: Login) -> int:
    return _bearer(smtp, "OAUTHBEARER", f"n,a={login.user},\x01auth=Bearer {login.secret}\x01\x01")


def _bearer(smtp: Conversation, mechanism: str, words: str) -> int:
    code, _ = smtp.docmd("AUTH", f"{mechanism} {_base64(words)}")
    # The server tells what is wrong with the token, and waits for an answer before it says no (RFC 7628 3.2.3).
    return smtp.docmd("AQ==")[0] if code == 334 else code


_PASSWORD_MECHANISMS = {"PLAIN": _plain, "LOGIN": _login, "CRAM-MD5": _cram_md5}
_TOKEN_MECHANISMS = {"XOAUTH2": _xoauth2, "OAUTHBEARER": _oauthbearer}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _open_transaction(smtp: Conversation, parcel: Parcel) -> None:
    smtp.seconds = PATIENCE.command
    limit = smtp.esmtp_features.get("size", "").strip()
    if limit.isdigit() and 0 < int(limit[:15]) < len(parcel.mail):
        _end_transaction(smtp)
        raise MailTooLarge("552 5.3.4", len(parcel.mail), int(limit[:15]))
    options = [f"SIZE={len(parcel.mail)}"] if smtp.has_extn("size") else []
    if parcel.needs_smtputf8:
        if not smtp.has_extn("smtputf8"):
            _end_transaction(smtp)
            addresses = (parcel.sender, *parcel.recipients)
            raise AddressesNotTaken("550 5.6.7", tuple(each for each in addresses if not each.isascii()))
        # command_encoding is what smtplib's own sendmail() sets for such addresses.
        smtp.command_encoding = "utf-8"
        options += ["SMTPUTF8", "BODY=8BITMIME"]
    code, text = smtp.mail(parcel.sender, options)
    if code != 250:
        raise _refusal(smtp, code, text)
    until = time.monotonic() + PATIENCE.envelope
    refused = []
    for recipient in parcel.recipients:
        smtp.seconds = min(PATIENCE.command, until - time.monotonic())
        code, text = smtp.rcpt(recipient)
        if code not in (250, 251):
            refused.append((recipient, _reply(code, text)))
    smtp.seconds = PATIENCE.command
    if refused:
        _end_transaction(smtp)
        raise RecipientsRefused(tuple(refused))
    code, text = smtp.docmd("DATA")
    if code != 354:
        raise _refusal(smtp, code, text)


def _write_content(smtp: Conversation, mail: bytes) -> None:
    smtp.seconds = PATIENCE.content + len(mail) / PATIENCE.octets
    try:
        # RFC 5321 4.5.2. The mail has CRLF line ends and ends with one.
        smtp.send(re.sub(rb"(?m)^\.", b"..", mail))
    except OSError:
        raise _hung_up(smtp) from None


def _hung_up(smtp: Conversation) -> Exception:
    """What a server means that does not wait for the end of a mail."""
    smtp.seconds = 1.0
    with suppress(*Broken):
        code, text = smtp.getreply()
        if 400 <= code < 600 and code != 421:
            return SubmissionRefused(_reply(code, text))
    return SubmissionUnavailable("hung up before the end of the mail")


def _await_verdict(smtp: Conversation, parcel: Parcel) -> None:
    smtp.seconds = PATIENCE.verdict + len(parcel.mail) / PATIENCE.octets
    try:
        smtp.send(b".\r\n")
        code, text = smtp.getreply()
    except Broken as exc:
        raise SubmissionUncertain(parcel.message_id) from exc
    if 400 <= code < 600:
        raise _refusal(smtp, code, text)
    if not 200 <= code < 300:
        raise SubmissionUncertain(parcel.message_id)


def _refusal(smtp: Conversation, code: int, text: bytes) -> SubmissionRefused:
    _end_transaction(smtp)
    return SubmissionRefused(_reply(code, text))


def _end_transaction(smtp: Conversation) -> None:
    _leave(smtp, "RSET")


def _leave(smtp: Conversation, *before: str) -> None:
    """Say goodbye, after these commands; whatever the server makes of it, it is not waited for long."""
    smtp.seconds = min(smtp.seconds, PATIENCE.login)
    with suppress(*Broken):
        for command in (*before, "QUIT"):
            smtp.docmd(command)


def _reply(code: int, text: bytes) -> str:
    """The codes of a reply without its words, which may name hosts and people."""
    enhanced = _ENHANCED.match(text)
    return f"{code} {enhanced[1].decode('ascii')}" if enhanced else str(code)


def names(addresses: Sequence[str]) -> str:
    """Mail addresses for a log line: no more than their domains."""
    return ", ".join(address.rpartition("@")[2] for address in addresses)
