"""A real SMTP server that keeps what it is given, and misbehaves for the recipients that ask for it.

rcpt-550@…   refused at RCPT with this code (any code, 4xx or 5xx)
data-451@…   accepted at RCPT, refused with this code after the final dot
hangup@…     taken, but the connection drops after the final dot instead of an answer
stall@…      taken, but the answer to the final dot never comes
"""

import asyncio
import base64
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from config.provider import Endpoint
from tests.servers.certificates import Certificates
from tests.servers.ports import HOST, PASSWORD, free_port

_FAULT = re.compile(r"(rcpt|data)-([45]\d\d)@")
_LARGEST = 50_000_000


@dataclass(frozen=True, slots=True)
class Received:
    """One message as it came in. raw: with CRLF, as it was on the wire. tls: the connection was encrypted."""

    sender: str
    recipients: tuple[str, ...]
    raw: bytes
    tls: bool


class SmtpSink:
    """One SMTP server on loopback.

    security: "starttls" and "tls" need certificates. require_auth: refuse MAIL before a login, by any
    user with `PASSWORD`. takes_token: log in by XOAUTH2 only, with the tokens it says yes to.
    messages: what was taken so far. commands: "MAIL", "RCPT", "DATA", "RSET" and "QUIT" in the order received.
    """

    host = HOST
    password = PASSWORD

    def __init__(
        self,
        security: Literal["plain", "starttls", "tls"] = "plain",
        certificates: Certificates | None = None,
        *,
        require_auth: bool = False,
        takes_token: Callable[[str], bool] | None = None,
    ) -> None:
        self.port = free_port()
        self.messages: list[Received] = []
        self.commands: list[str] = []
        self._security = security
        self._certificates = certificates
        self.require_auth = require_auth
        self._controller: Controller | None = None
        self.takes_token = takes_token

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen on `port`, in a thread of its own."""
        context = self._context()
        self._controller = Controller(
            _Handler(self) if self.takes_token is None else _TokenHandler(self),
            hostname=HOST,
            port=self.port,
            ready_timeout=10,
            ssl_context=context if self._security == "tls" else None,
            tls_context=context if self._security == "starttls" else None,
            require_starttls=self._security == "starttls",
            auth_require_tls=False,
            authenticator=_authenticate,
            enable_SMTPUTF8=True,
            data_size_limit=_LARGEST,
            timeout=60,
            auth_exclude_mechanism=() if self.takes_token is None else ("LOGIN", "PLAIN"),
        )
        self._controller.start()

    def stop(self) -> None:
        """Stop listening; what was taken stays in `messages`. Does nothing when it is stopped."""
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def endpoint(self) -> Endpoint:
        """The server as a provider's configuration names it."""
        return Endpoint(
            host=HOST,
            port=self.port,
            security=self._security,
            ca_file=self._certificates.ca_file if self._certificates else None,
        )

    def wait_for(self, count: int, *, seconds: float = 10.0) -> list[Received]:
        """The messages, as soon as there are `count` of them."""
        deadline = time.monotonic() + seconds
        while len(self.messages) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.messages)} of {count} messages came within {seconds:.0f} s")
            time.sleep(0.01)
        return list(self.messages)

    def _context(self) -> ssl.SSLContext | None:
        if self._security == "plain":
            return None
        if self._certificates is None:
            raise ValueError(f"security {self._security!r} needs certificates")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificates.cert_file, self._certificates.key_file)
        return context


class _Handler:
    """The hooks aiosmtpd calls by name."""

    def __init__(self, sink: SmtpSink) -> None:
        self._sink = sink

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self._sink.commands.append("MAIL")
        if self._sink.require_auth and not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self._sink.commands.append("RCPT")
        if (fault := _FAULT.match(address)) and fault[1] == "rcpt":
            return f"{fault[2]} this recipient is refused"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        self._sink.commands.append("DATA")
        recipients: list[str] = envelope.rcpt_tos
        for fault in filter(None, map(_FAULT.match, recipients)):
            return f"{fault[2]} this message is refused"
        assert isinstance(server.transport, asyncio.Transport)
        assert envelope.mail_from is not None
        assert isinstance(envelope.original_content, bytes)
        tls = server.transport.get_extra_info("ssl_object") is not None
        self._sink.messages.append(Received(envelope.mail_from, tuple(recipients), envelope.original_content, tls))
        locals_ = {recipient.partition("@")[0] for recipient in recipients}
        if "stall" in locals_:
            await asyncio.Event().wait()
        if "hangup" in locals_:
            server.transport.abort()
        return "250 taken"

    async def handle_RSET(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        self._sink.commands.append("RSET")
        return "250 OK"

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        self._sink.commands.append("QUIT")
        return "221 Bye"


class _TokenHandler(_Handler):
    async def auth_XOAUTH2(self, server: SMTP, args: list[str]) -> AuthResult:  # noqa: N802 - aiosmtpd's name
        assert self._sink.takes_token is not None
        token = base64.b64decode(args[1]).decode().partition("auth=Bearer ")[2].rstrip("\x01")
        return AuthResult(success=self._sink.takes_token(token), handled=False)


def _authenticate(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, credentials: LoginPassword
) -> AuthResult:
    return AuthResult(success=credentials.password == PASSWORD.encode(), handled=False)
