"""A connection to an IMAP server, logged in: commands out, answers in, and what the server says unasked on the way."""

import contextlib
import imaplib
import logging
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Self

from imapclient import IMAPClient, SocketTimeout

from config.identity import Provider
from mirror.credential import Configured, Credential
from mirror.errors import (
    AuthenticationRefused,
    SignInNeeded,
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    UpstreamThrottled,
    UpstreamUnavailable,
)
from mirror.upstream import answers
from mirror.upstream.quirks import PLAIN, Quirk, quirk_of
from mirror.upstream.tls import tls_context

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 60.0
LARGEST_LITERAL = 64 << 20
"""Octets of one literal; a server that announces more is not believed."""
LONGEST_LINE = 64_000_000
"""Octets of one line: SEARCH answers of 140,000 uids exceed the 1,000,000 of imaplib."""
THROTTLED_SECONDS = 900.0
"""How long an account rests that the server throttles without saying how long."""

_BACKOFF = re.compile(r"Suggested Backoff Time: (\d{1,9}) milliseconds", re.IGNORECASE)
_THROTTLED = re.compile(r"\[(?:OVERQUOTA|THROTTLED)\]|request is throttled|bandwidth limits", re.IGNORECASE)
# RFC 5530: the account is in order, the server is not. Exchange says the last one of a mailbox it cannot open.
_NOT_NOW = re.compile(
    r"\[(?:UNAVAILABLE|INUSE|LIMIT|SERVERBUG|CONTACTADMIN)\]|too many|try again|temporar"
    r"|authenticated but not connected",
    re.IGNORECASE,
)


class Session:
    """One IMAP connection, logged in. Not for several threads at once.

    exists: messages in the open folder, by every EXISTS, EXPUNGE and VANISHED in the order they came (RFC 3501 7.3.1).
    distrusted: rungs dropped because the server broke them, with the reason.
    """

    def __init__(self, client: IMAPClient, quirk: Quirk = PLAIN, without: Collection[str] = ()) -> None:
        self._client = client
        self._imap = client._imap  # noqa: SLF001 - see the package's docstring
        self._imap._append_untagged = self._heard  # noqa: SLF001 - the only place that sees answers in their order
        self._imap.read = self._read_literal
        self._imap.readline = self._read_line
        self._received = 0
        self._capabilities: frozenset[str] = frozenset()
        self._without = frozenset(name.upper() for name in without)
        self._selected: tuple[bytes, bool] | None = None
        self._opening: bytes | None = None
        self._leaving: bytes | None = None
        self._vanished: dict[bytes, list[answers.Range]] = {}
        self._filling: set[bytes] = set()
        self.distrusted: dict[str, str] = {}
        self.quirk = quirk
        self.is_open = True
        self.exists = 0

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
            quirk = quirk_of(endpoint.host, client._imap.welcome)  # noqa: SLF001
            if endpoint.security == "starttls":
                client.starttls(context)
            session = cls(client, quirk, {*endpoint.disable, *quirk.without, *without})
            if secret is None:
                session._capabilities = session._ask_capabilities()
            else:
                # imaplib asked when it connected; what was said before STARTTLS does not count (RFC 9051 6.2.1).
                before = None if endpoint.security == "starttls" else client._imap.capabilities  # noqa: SLF001
                user = provider.login(endpoint)[0]
                session._log_in(user, secret, before, is_token=provider.takes_token(endpoint))
            client.socket().settimeout(read_timeout)
        except BaseException as exc:
            if client is not None:
                _drop(client)
            if isinstance(exc, UpstreamError) or not isinstance(exc, OSError | imaplib.IMAP4.error | EOFError):
                raise
            raise UpstreamUnavailable(f"{endpoint.host}:{endpoint.port} cannot be used: {_reason(exc)}") from exc
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
            said = _reason(exc)
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

    def _ask_capabilities(self) -> frozenset[str]:
        answer = self._run("CAPABILITY")
        words = b" ".join(line for line in answer.get("CAPABILITY", []) if isinstance(line, bytes))
        return frozenset(words.decode("ascii", "replace").upper().split()) - self._without

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Log out where that is quick, and close."""
        if self.is_open and None in self._imap.tagged_commands.values():
            self.abandon()  # a goodbye would wait behind what is under way
        elif self.is_open:
            self.is_open = False
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                self._client.socket().settimeout(1.0)
                self._client.logout()
            _drop(self._client)

    def abandon(self) -> None:
        """Close without a word: the stream is not usable any more."""
        self.is_open = False
        _drop(self._client)

    # -- the ladder

    @property
    def capabilities(self) -> frozenset[str]:
        """What the server announces now, without what is not to be used."""
        return self._capabilities

    def has(self, capability: str) -> bool:
        """Whether the server announced a capability after login, and it was neither switched off nor broken since."""
        return capability in self._capabilities

    @property
    def has_condstore(self) -> bool:
        """Whether modification sequences can be used (RFC 7162)."""
        return bool(self._capabilities & {"CONDSTORE", "QRESYNC"})

    @property
    def rung(self) -> str:
        """The capabilities in use, highest first, for `status`."""
        used = ("QRESYNC", "CONDSTORE", "LIST-STATUS", "ESEARCH", "OBJECTID", "X-GM-EXT-1", "MOVE", "UIDPLUS", "IDLE")
        return " ".join(name for name in used if self.has(name)) or "IMAP4rev1"

    def distrust(self, capability: str, reason: str) -> None:
        """Go without a capability that the server announced and broke."""
        if self.has(capability):
            logger.warning("capability not used any more", extra={"capability": capability, "reason": reason})
            self._capabilities -= {capability}
            self.distrusted[capability] = reason

    # -- commands

    def take_vanished(self) -> dict[bytes, list[answers.Range]]:
        """By folder, the uids that VANISHED answers named since the last call; they are said once (RFC 7162 3.2.10)."""
        vanished, self._vanished = self._vanished, {}
        return vanished

    def _begin_opening(self, folder: bytes) -> None:
        self._opening, self._leaving = folder, self._selected[0] if self._selected else None
        self._selected = None
        self._imap.state = "AUTH"

    def _end_opening(self, folder: bytes, *, writable: bool) -> None:
        self._opening = self._leaving = None
        self._imap.state = "SELECTED"
        self._selected = (folder, writable)

    def _run(self, name: str, *arguments: bytes) -> dict[str, list[Any]]:
        with self._translating():
            return self._complete(name, self._send(name, *arguments))

    def _run_each(self, name: str, commands: Sequence[bytes], *, at_once: int) -> list[dict[str, list[Any]]]:
        """The answers to several commands in turn, so many of them under way; the first refusal ends it."""
        came: list[dict[str, list[Any]]] = []
        refused: UpstreamRefused | None = None
        waiting, tags = deque(commands), deque[bytes]()
        with self._translating():
            self._catch_up()
            while tags or (waiting and refused is None):
                while waiting and refused is None and len(tags) < at_once:
                    tags.append(self._send_ahead(name, waiting.popleft()))
                try:
                    came.append(self._complete(name, tags.popleft()))
                except UpstreamRefused as exc:
                    refused = refused or exc
        if refused is not None:
            raise refused
        return came

    def _send(self, name: str, *arguments: bytes) -> bytes:
        self._catch_up()
        return self._send_ahead(name, *arguments)

    def _catch_up(self) -> None:
        """Read to their end the answers to commands that were sent ahead."""

    def _send_ahead(self, name: str, *arguments: bytes) -> bytes:
        """Send a command while the answers to others are still to be read."""
        self._imap.untagged_responses.clear()
        tag: bytes = self._imap._command(name, *arguments)  # noqa: SLF001
        if name == "APPEND" or (arguments and arguments[0].startswith((b"COPY", b"MOVE"))):
            self._filling.add(tag)
        return tag

    def _complete(self, name: str, tag: bytes) -> dict[str, list[Any]]:
        """The untagged answers up to a command's own. Raises UpstreamRefused for NO and BAD."""
        try:
            kind, data = self._imap._command_complete(name, tag)  # noqa: SLF001
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as exc:
            kind, data = "BAD", [str(exc).encode("utf-8", "replace")]
        answer = {key.upper(): value for key, value in self._imap.untagged_responses.items()}
        self._imap.untagged_responses.clear()
        if kind != "OK":
            said = _said(data)
            # OVERQUOTA of a write is about the mailbox's size (RFC 5530), of anything else about our haste (Gmail).
            if tag not in self._filling and (seconds := throttled_seconds(said)):
                self.abandon()
                raise UpstreamThrottled(f"the server throttles this account: {said}", seconds)
            raise UpstreamRefused(f"{name} was refused: {said}")
        return answer

    def _heard(self, kind: str, data: Any) -> None:
        self._imap.untagged_responses.setdefault(kind, []).append(b"" if data is None else data)
        if not isinstance(data, bytes):
            return
        word = kind.upper()
        if word == "EXISTS" and data.isdigit():
            self.exists = int(data)
        elif word == "EXPUNGE":
            self.exists -= 1
        elif word == "CLOSED":
            self._leaving = None
        elif word == "VANISHED":
            self._hear_vanished(*answers.vanished_line(data))

    def _hear_vanished(self, earlier: bool, ranges: list[answers.Range]) -> None:
        if self._selected is not None:
            folder: bytes | None = self._selected[0]
        else:
            # While another folder is opened, what comes before CLOSED is of the old one (RFC 7162 3.2.11).
            folder = self._opening if earlier or self._leaving is None else self._leaving
        if folder is not None:
            self._vanished.setdefault(folder, []).extend(ranges)
        if not earlier:
            self.exists -= sum(last - first + 1 for first, last in ranges)

    def take_received(self) -> int:
        """How many octets the server sent since the last call."""
        received, self._received = self._received, 0
        return received

    def _read_line(self) -> bytes:
        line: bytes = self._imap.file.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise imaplib.IMAP4.abort(f"the server sent a line of more than {LONGEST_LINE} octets")
        self._received += len(line)
        return line

    def _read_literal(self, size: int) -> bytes:
        if size > LARGEST_LITERAL:
            raise imaplib.IMAP4.abort(f"the server announces a literal of {size} octets")
        data: bytes = self._imap.file.read(size)
        if len(data) < size:
            raise imaplib.IMAP4.abort("the connection ended within a literal")
        self._received += size
        return data

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except UpstreamError:
            raise
        except (imaplib.IMAP4.abort, OSError, EOFError) as exc:
            self.abandon()
            raise UpstreamUnavailable(f"the connection was lost: {_reason(exc)}") from exc
        except imaplib.IMAP4.error as exc:
            raise UpstreamRefused(_reason(exc)) from exc
        except (ValueError, IndexError, KeyError, AssertionError, AttributeError) as exc:
            self.abandon()
            raise UpstreamBroken(f"an answer could not be understood: {_reason(exc)}") from exc

    def idle(self, timeout: float, started: Callable[[], None]) -> bool:
        """IDLE (RFC 2177) on the open folder until the server reports a change or the time is up. Whether it did.

        started is called once the server listens: what happened before that may not be reported, so look then. A hint
        only: every waking is followed by a sync, and so is every renewal.
        """
        with self._translating():
            tag = self._send("IDLE")
            while self._imap._get_response() is not None:  # noqa: SLF001 - None: the continuation has come
                if self._imap.tagged_commands[tag]:
                    self._complete("IDLE", tag)
                    raise UpstreamRefused("the server ends IDLE before it began")
            started()
            if not self._imap.untagged_responses and not self._has_buffered():
                select.select([self._client.socket()], [], [], timeout)
            self._imap.send(b"DONE\r\n")
            return bool(self._complete("IDLE", tag).keys() & {"EXISTS", "EXPUNGE", "FETCH", "VANISHED", "RECENT"})

    def _has_buffered(self) -> bool:
        """Whether more has come in the segment that ended the last line: select does not see what was read already."""
        connected = self._client.socket()
        before = connected.gettimeout()
        connected.settimeout(0.0)
        try:
            return bool(self._imap.file.peek(1))
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        finally:
            connected.settimeout(before)


def throttled_seconds(said: str) -> float:
    """How long the server asks to be left alone in a refusal; 0 when it does not ask."""
    if match := _BACKOFF.search(said):
        return max(1.0, int(match[1]) / 1_000)
    return THROTTLED_SECONDS if _THROTTLED.search(said) else 0.0


def is_passing(said: str) -> bool:
    """Whether a refusal is for a reason that passes by itself (RFC 5530)."""
    return _NOT_NOW.search(said) is not None


def _said(data: Sequence[Any]) -> str:
    return b" ".join(item for item in data if isinstance(item, bytes)).decode("utf-8", "replace")[:200]


def _reason(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__)[:200]


def _drop(client: IMAPClient) -> None:
    with contextlib.suppress(OSError, imaplib.IMAP4.error, AttributeError):
        client.shutdown()
