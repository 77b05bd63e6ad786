"""Connecting and logging in: TLS first, then the login, then the rungs that the server confirms."""

import contextlib
import imaplib
import socket
from collections.abc import Collection, Sequence
from typing import Self

from imapclient import IMAPClient, SocketTimeout

from config.provider import Provider
from mirror.credential import Configured, Credential
from mirror.errors import (
    AuthenticationRefused,
    SignInNeeded,
    UpstreamError,
    UpstreamRefused,
    UpstreamThrottled,
    UpstreamUnavailable,
)
from mirror.upstream.quirks import quirk_of
from mirror.upstream.refusals import is_passing, throttled_seconds
from mirror.upstream.session import Session, drop, reason
from mirror.upstream.tls import tls_context

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 60.0


class Login(Session):
    """A session that logs in."""

    @classmethod
    def connect(
        cls,
        provider: Provider,
        *,
        connect_timeout: float = CONNECT_TIMEOUT,
        read_timeout: float = READ_TIMEOUT,
        without: Collection[str] = (),
        credential: Credential | None = None,
    ) -> Self:
        """A connection logged in as the provider's user. without: capabilities not to use, beside those configured.

        credential: in the place of the configured secret. Raises UpstreamUnavailable or AuthenticationRefused; no
        secret is sent before TLS where TLS is asked for.
        """
        credential = credential or Configured(provider, provider.imap)
        secret = credential.secret()
        try:
            return cls._opened(provider, secret, connect_timeout, read_timeout, without)
        except AuthenticationRefused:
            fresh = credential.secret(secret)
            if fresh == secret:
                raise
        return cls._opened(provider, fresh, connect_timeout, read_timeout, without)

    @classmethod
    def offered(cls, provider: Provider) -> frozenset[str]:
        """What the server announces before a login, behind TLS where that is asked for. Raises UpstreamUnavailable."""
        session = cls._opened(provider, None, CONNECT_TIMEOUT, READ_TIMEOUT, ())
        try:
            return session.capabilities
        finally:
            session.close()

    @classmethod
    def _opened(
        cls,
        provider: Provider,
        secret: str | None,
        connect_timeout: float,
        read_timeout: float,
        without: Collection[str],
    ) -> Self:
        """A connection, logged in with the secret, or with None not at all."""
        endpoint = provider.imap
        client: IMAPClient | None = None
        try:
            context = None if endpoint.security == "plain" else tls_context(endpoint)
            client = IMAPClient(
                endpoint.host,
                endpoint.port,
                ssl=endpoint.security == "tls",
                ssl_context=context,
                timeout=SocketTimeout(connect_timeout, min(read_timeout, 15.0)),
            )
            client._imap.debug = 0  # noqa: SLF001 - its default formats every literal: 4 times slower
            # imaplib writes a literal and the line end after it apart; without this the second waits 40 ms for an ACK.
            client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            quirk = quirk_of(endpoint.host, client._imap.welcome)  # noqa: SLF001 - see the package's docstring
            if endpoint.security == "starttls":
                client.starttls(context)
            session = cls(client, quirk, {*endpoint.disable, *quirk.without, *without})
            if secret is None:
                session._capabilities = session._ask_capabilities()
            else:
                # imaplib asked when it connected; what was said before STARTTLS does not count (RFC 9051 6.2.1).
                before = None if endpoint.security == "starttls" else client._imap.capabilities  # noqa: SLF001 - see the package's docstring
                user = provider.login(endpoint)[0]
                session._log_in(user, secret, before, is_token=provider.takes_token(endpoint))
            client.socket().settimeout(read_timeout)
        except BaseException as exc:
            if client is not None:
                drop(client)
            if isinstance(exc, UpstreamError) or not isinstance(exc, OSError | imaplib.IMAP4.error | EOFError):
                raise
            raise UpstreamUnavailable(f"{endpoint.host}:{endpoint.port} cannot be used: {reason(exc)}") from exc
        return session

    def _log_in(self, user: str, password: str, known: Sequence[str] | None, *, is_token: bool) -> None:
        before = self._ask_capabilities() if known is None else frozenset(known) - self._without
        try:
            if is_token:
                self._present_token(user, password, before)
            elif "AUTH=PLAIN" in before:  # LOGIN cannot carry a non-ASCII password; SASL PLAIN can (RFC 4616).
                self._imap.authenticate("PLAIN", lambda _: f"\0{user}\0{password}".encode())
            elif "LOGINDISABLED" in before:
                raise AuthenticationRefused("the server offers no login without TLS (LOGINDISABLED)")
            elif not (user + password).isascii():
                raise AuthenticationRefused("the server takes no password with non-ASCII characters (no AUTH=PLAIN)")
            else:
                self._imap.login(user, password)
        except (imaplib.IMAP4.abort, OSError):
            raise
        except imaplib.IMAP4.error as exc:
            said = reason(exc)
            if seconds := throttled_seconds(said):
                raise UpstreamThrottled(f"the server throttles this account: {said}", seconds) from exc
            if "BAD" in said or is_passing(said):
                raise UpstreamUnavailable(f"the server does not log in anybody now: {said}") from exc
            if is_token:
                raise SignInNeeded(f"the server does not accept the access token for this user name: {said}") from exc
            raise AuthenticationRefused("the server does not accept the user name or password") from exc
        self._capabilities = self._ask_capabilities()
        if self.has("ID"):
            # NetEase and QQ refuse SELECT before an ID (RFC 2971).
            with contextlib.suppress(UpstreamRefused):
                self._run("ID", b'("name" "postmirror")')
        self._enable()

    def _present_token(self, user: str, token: str, before: frozenset[str]) -> None:
        """Log in with an OAuth 2 access token, by OAUTHBEARER (RFC 7628) or its forerunner XOAUTH2."""
        bearer = f"auth=Bearer {token}\x01\x01"
        if "AUTH=OAUTHBEARER" in before:
            name, word = "OAUTHBEARER", f"n,a={user},\x01{bearer}"
        elif "AUTH=XOAUTH2" in before:
            name, word = "XOAUTH2", f"user={user}\x01{bearer}"
        else:
            raise AuthenticationRefused("the server takes no access token (neither AUTH=OAUTHBEARER nor AUTH=XOAUTH2)")
        words = iter((word.encode(), b"\x01" if name == "OAUTHBEARER" else b""))
        # A refusal comes as a challenge, and ends with the answer to it.
        self._imap.authenticate(name, lambda _: next(words, None))

    def _enable(self) -> None:
        """ENABLE (RFC 5161) the highest rung of MODSEQs; one that the server does not confirm is off."""
        wanted = next((rung for rung in ("QRESYNC", "CONDSTORE") if self.has("ENABLE") and self.has(rung)), None)
        if wanted is None:
            self._capabilities -= {"QRESYNC"}
            return
        try:
            said = b" ".join(self._run("ENABLE", wanted.encode("ascii")).get("ENABLED", [])).upper().split()
        except UpstreamRefused:
            said = []
        if wanted.encode("ascii") not in said:
            # iCloud announces CONDSTORE and answers ENABLE with OK alone.
            self._capabilities -= {"QRESYNC", "CONDSTORE"}
