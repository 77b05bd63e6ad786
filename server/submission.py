"""Handing one mail to a submission server: the only SMTP.

All or nobody: a refused recipient ends the transaction with RSET before DATA. Until the final dot has been written, a
broken connection means that nothing was sent. From then on, without an answer, nobody knows.
"""

import base64
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from config.identity import Endpoint
from mirror.errors import AuthenticationRefused

REACHED_WITHIN = 4.0
"""Seconds for connecting and the greeting: a server that is down must not keep a client waiting."""
_LOGIN = 10.0
_ENVELOPE = 30.0
_CONTENT = 60.0
_ENHANCED = re.compile(rb"([245]\.\d{1,3}\.\d{1,3})(?:\s|$)")


class SubmissionUnavailable(ConnectionError):
    """The server cannot be reached, or left before the mail was handed over: nobody received it."""


@dataclass
class SubmissionRefused(Exception):
    """The server answered no: nobody received the mail. reply: code and enhanced code, `552 5.3.4`."""

    reply: str


@dataclass
class RecipientsRefused(Exception):
    """At least one recipient was refused, so nobody received the mail. refused: address and reply of each."""

    refused: tuple[tuple[str, str], ...]


@dataclass
class SubmissionUncertain(Exception):
    """The mail was handed over and no answer came: it may have been sent."""

    message_id: str


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
    parcel: Parcel, endpoint: Endpoint, login: tuple[str, str] | None, hand_over: Callable[[], None] = lambda: None
) -> None:
    """Returns once the server has taken responsibility for the mail.

    hand_over is called before the final dot is written; when it raises, nothing was sent.
    Raises SubmissionUnavailable, AuthenticationRefused, RecipientsRefused, SubmissionRefused or SubmissionUncertain.
    """
    smtp = smtplib.SMTP()
    try:
        with _nothing_sent():
            _connect(smtp, endpoint)
            if login is not None:
                _log_in(smtp, *login)
            _open_transaction(smtp, parcel)
            _write_content(smtp, parcel.mail)
            hand_over()
        _await_verdict(smtp, parcel)
        with suppress(OSError, smtplib.SMTPException):
            smtp.docmd("QUIT")
    finally:
        smtp.close()


@contextmanager
def _nothing_sent() -> Iterator[None]:
    try:
        yield
    except (OSError, smtplib.SMTPServerDisconnected) as exc:
        if isinstance(exc, SubmissionUnavailable):
            raise
        raise SubmissionUnavailable(type(exc).__name__) from exc


def _connect(smtp: smtplib.SMTP, endpoint: Endpoint) -> None:
    deadline = time.monotonic() + REACHED_WITHIN
    smtp.sock = _open_socket(endpoint, deadline)
    if endpoint.security == "tls":
        smtp.sock = _wrapped(smtp.sock, endpoint)
    _allow(smtp, max(deadline - time.monotonic(), 0.1))
    if smtp.getreply()[0] != 220:
        raise SubmissionUnavailable("greeting")
    _allow(smtp, _LOGIN)
    smtp.ehlo_or_helo_if_needed()
    if endpoint.security == "starttls":
        if smtp.docmd("STARTTLS")[0] != 220:
            raise SubmissionUnavailable("STARTTLS is not offered")
        smtp.sock = _wrapped(smtp.sock, endpoint)
        # Whatever came in clear behind the server's answer is forgotten with the old buffer and the old greeting.
        smtp.file = None
        smtp.helo_resp = smtp.ehlo_resp = None
        smtp.esmtp_features = {}
        smtp.does_esmtp = False
        smtp.ehlo_or_helo_if_needed()


def _allow(smtp: smtplib.SMTP, seconds: float) -> None:
    """How long the server may take for each answer from now on."""
    if smtp.sock is None:
        raise smtplib.SMTPServerDisconnected("hung up")
    smtp.sock.settimeout(seconds)


def _open_socket(endpoint: Endpoint, deadline: float) -> socket.socket:
    """Connected to the first address that answers; all of them share one deadline."""
    failure: OSError = ConnectionError("no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        opened = socket.socket(family, kind, protocol)
        opened.settimeout(left)
        try:
            opened.connect(address)
        except OSError as exc:
            opened.close()
            failure = exc
        else:
            return opened
    raise failure


def _wrapped(plain: socket.socket, endpoint: Endpoint) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=endpoint.ca_file)
    return context.wrap_socket(plain, server_hostname=endpoint.server_name or endpoint.host)


def _log_in(smtp: smtplib.SMTP, user: str, password: str) -> None:
    # smtplib's own login cannot send what is not ASCII.
    offered = smtp.esmtp_features.get("auth", "").upper().split()
    if "PLAIN" in offered:
        code, _ = smtp.docmd("AUTH", "PLAIN " + _base64(f"\0{user}\0{password}"))
    elif "LOGIN" in offered:
        code, _ = smtp.docmd("AUTH", "LOGIN")
        for word in (user, password):
            if code == 334:
                code, _ = smtp.docmd(_base64(word))
    else:
        raise AuthenticationRefused("the server offers neither AUTH PLAIN nor AUTH LOGIN")
    if code == 421 or 450 <= code < 460:
        raise SubmissionUnavailable(f"login put off with {code}")
    if code != 235:
        raise AuthenticationRefused(f"login refused with {code}")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _open_transaction(smtp: smtplib.SMTP, parcel: Parcel) -> None:
    _allow(smtp, _ENVELOPE)
    options = [f"SIZE={len(parcel.mail)}"] if smtp.has_extn("size") else []
    if parcel.needs_smtputf8:
        if not smtp.has_extn("smtputf8"):
            raise SubmissionRefused("it does not take addresses outside ASCII")
        # command_encoding is what smtplib's own sendmail() sets for such addresses.
        smtp.command_encoding = "utf-8"
        options += ["SMTPUTF8", "BODY=8BITMIME"]
    code, text = smtp.mail(parcel.sender, options)
    if code != 250:
        raise _refusal(smtp, code, text)
    replies = [(recipient, *smtp.rcpt(recipient)) for recipient in parcel.recipients]
    if refused := [(recipient, _reply(code, text)) for recipient, code, text in replies if code not in (250, 251)]:
        _end_transaction(smtp)
        raise RecipientsRefused(tuple(refused))
    code, text = smtp.docmd("DATA")
    if code != 354:
        raise _refusal(smtp, code, text)


def _write_content(smtp: smtplib.SMTP, mail: bytes) -> None:
    _allow(smtp, _CONTENT)
    # RFC 5321 4.5.2. The mail has CRLF line ends and ends with one.
    smtp.send(re.sub(rb"(?m)^\.", b"..", mail))


def _await_verdict(smtp: smtplib.SMTP, parcel: Parcel) -> None:
    try:
        smtp.send(b".\r\n")
        code, text = smtp.getreply()
    except (OSError, smtplib.SMTPException) as exc:
        raise SubmissionUncertain(parcel.message_id) from exc
    if not 200 <= code < 300:
        raise _refusal(smtp, code, text)


def _refusal(smtp: smtplib.SMTP, code: int, text: bytes) -> SubmissionRefused:
    _end_transaction(smtp)
    return SubmissionRefused(_reply(code, text))


def _end_transaction(smtp: smtplib.SMTP) -> None:
    with suppress(OSError, smtplib.SMTPException):
        smtp.docmd("RSET")
        smtp.docmd("QUIT")


def _reply(code: int, text: bytes) -> str:
    """The codes of a reply without its words, which may name hosts and people."""
    enhanced = _ENHANCED.match(text)
    return f"{code} {enhanced[1].decode('ascii')}" if enhanced else str(code)


def names(addresses: Sequence[str]) -> str:
    """Mail addresses for a log line: no more than their domains."""
    return ", ".join(address.rpartition("@")[2] for address in addresses)
