"""A mail server's door: reached, and through TLS, before anybody logs in.

What IMAP and SMTP say until then is a few lines, read here from the socket, so that each thing that can stand in the
way is told from the others.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Literal

from cryptography import x509

from config.provider import Endpoint
from mirror.errors import UpstreamUnavailable
from mirror.upstream.tls import tls_context
from server.doctor.certificate import untrusted
from server.doctor.finding import Finding, fail

SECONDS = 5.0
_LONGEST_LINE = 8_192

Protocol = Literal["imap", "smtp"]


@dataclass(frozen=True, slots=True)
class Door:
    """What a server says before a login. greeting: its first line. offered: capabilities or extensions, in capitals."""

    greeting: str
    offered: frozenset[str]
    certificate: x509.Certificate | None = None


class _Shut(Exception):
    """The door stays shut. name and fix: of the finding."""

    def __init__(self, name: str, says: str, fix: str) -> None:
        super().__init__(says)
        self.name = name
        self.fix = fix


def open_door(endpoint: Endpoint, protocol: Protocol, about: str) -> Door | Finding:
    """What the server says before a login, or what stands in the way."""
    try:
        context = None if endpoint.security == "plain" else tls_context(endpoint)
    except UpstreamUnavailable as exc:
        return fail("ca-file", about, str(exc), "put the authority's certificate (PEM) there, or remove ca_file")
    try:
        return _converse(endpoint, protocol, context)
    except ssl.SSLCertVerificationError as exc:
        return untrusted(exc, _certificate_of(endpoint, protocol), endpoint, about)
    except _Shut as exc:
        return fail(exc.name, about, str(exc), exc.fix)


def _certificate_of(endpoint: Endpoint, protocol: Protocol) -> x509.Certificate | None:
    """What the server shows, whether it can be trusted or not: for the diagnosis only, nothing is said to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return _converse(endpoint, protocol, context).certificate
    except (_Shut, OSError):
        return None


def _converse(endpoint: Endpoint, protocol: Protocol, context: ssl.SSLContext | None) -> Door:
    with closing(_connected(endpoint)) as plain, _in_words(endpoint):
        line = _Lines(plain)
        if endpoint.security == "tls" and context is not None:
            with _wrapped(plain, context, endpoint) as secure:
                line = _Lines(secure)
                greeting = line.read()
                return Door(greeting, _offered(line, protocol, greeting), _peer(secure))
        greeting = line.read()
        offered = _offered(line, protocol, greeting)
        if context is None:
            return Door(greeting, offered)
        if "STARTTLS" not in offered:
            raise _Shut(
                "starttls-missing",
                "the server offers no STARTTLS on this port",
                f'use security = "tls" and port {993 if protocol == "imap" else 465}, or ask its operator for STARTTLS',
            )
        line.write("s STARTTLS" if protocol == "imap" else "STARTTLS")
        if not line.read().startswith(("s OK", "220")):
            raise _Shut("starttls-missing", "the server refuses STARTTLS", "ask its operator, or use the port of TLS")
        with _wrapped(plain, context, endpoint) as secure:
            return Door(greeting, _offered(_Lines(secure), protocol, ""), _peer(secure))


def _connected(endpoint: Endpoint) -> socket.socket:
    place = f"{endpoint.host}:{endpoint.port}"
    try:
        return socket.create_connection((endpoint.host, endpoint.port), timeout=SECONDS)
    except socket.gaierror as exc:
        raise _Shut(
            "host-unknown",
            f"{endpoint.host}: no address is known for this name",
            "correct host, or mend the machine's DNS",
        ) from exc
    except ConnectionRefusedError as exc:
        raise _Shut(
            "port-closed", f"{place}: nothing listens there", "correct host and port, or start the server"
        ) from exc
    except OSError as exc:
        raise _Shut(
            "unreachable",
            f"{place} cannot be reached: {exc.strerror or 'no answer'}",
            "check the network, the firewall (outgoing connections to this port), host and port",
        ) from exc


@contextmanager
def _in_words(endpoint: Endpoint) -> Iterator[None]:
    other = "starttls" if endpoint.security == "tls" else "tls"
    try:
        yield
    except (_Shut, ssl.SSLCertVerificationError):
        raise
    except ssl.SSLError as exc:
        if "VERSION_NUMBER" in (exc.reason or "") or "RECORD_LAYER" in (exc.reason or ""):
            raise _Shut(
                "not-tls", "the server speaks no TLS on this port", 'use security = "starttls", or the port of TLS'
            ) from exc
        raise _Shut(
            "tls", f"TLS fails: {exc.reason}", "the server must speak TLS 1.2 or newer: ask its operator"
        ) from exc
    except TimeoutError as exc:
        raise _Shut(
            "silent",
            "the server takes the connection and says nothing",
            f'it may expect TLS otherwise: try security = "{other}", and check the port',
        ) from exc
    except OSError as exc:
        raise _Shut(
            "hangs-up", f"the server hangs up: {exc.strerror or exc}", f'check port and security (try "{other}")'
        ) from exc


@contextmanager
def _wrapped(plain: socket.socket, context: ssl.SSLContext, endpoint: Endpoint) -> Iterator[ssl.SSLSocket]:
    with context.wrap_socket(plain, server_hostname=endpoint.server_name or endpoint.host) as secure:
        yield secure


def _peer(secure: ssl.SSLSocket) -> x509.Certificate | None:
    data = secure.getpeercert(binary_form=True)
    return None if data is None else x509.load_der_x509_certificate(data)


class _Lines:
    """Lines in and out, all of them within a few seconds."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._heard = b""
        self._deadline = time.monotonic() + 2 * SECONDS

    def write(self, line: str) -> None:
        self._socket.sendall(f"{line}\r\n".encode("ascii"))

    def read(self) -> str:
        while b"\n" not in self._heard:
            left = self._deadline - time.monotonic()
            if left <= 0 or len(self._heard) > _LONGEST_LINE:
                raise TimeoutError
            self._socket.settimeout(min(left, SECONDS))
            piece = self._socket.recv(4_096)
            if not piece:
                raise ConnectionError("without a word")
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode("utf-8", "replace").strip()


def _offered(line: _Lines, protocol: Protocol, greeting: str) -> frozenset[str]:
    if greeting and not greeting.startswith("* " if protocol == "imap" else "220"):
        raise _Shut(
            "other-protocol",
            f"what answers there is no {protocol.upper()} server",
            f"correct host and port: {protocol.upper()} is on {'993 or 143' if protocol == 'imap' else '465 or 587'}",
        )
    return _imap_capabilities(line) if protocol == "imap" else _smtp_extensions(line)


def _imap_capabilities(line: _Lines) -> frozenset[str]:
    line.write("c CAPABILITY")
    found: frozenset[str] = frozenset()
    while not (said := line.read().upper()).startswith("C "):
        if said.startswith("* CAPABILITY "):
            found = frozenset(said.split()[2:])
    return found


def _smtp_extensions(line: _Lines) -> frozenset[str]:
    line.write("EHLO [127.0.0.1]")
    found = set()
    while True:
        said = line.read().upper()
        name, _, rest = said[4:].replace("=", " ").partition(" ")
        found.update({f"AUTH={each}" for each in rest.split()} if name == "AUTH" else {name})
        if said[3:4] != "-":
            return frozenset(found)
