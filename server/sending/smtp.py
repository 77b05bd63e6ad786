"""A conversation with a submission server in which nothing takes longer than it may: the only import of smtplib.

smtplib knows the commands; reading and writing are done here, since its timeouts begin anew with every octet.
"""

import smtplib
import socket
import ssl
import time
from dataclasses import dataclass

from config.provider import Endpoint

Broken = (OSError, smtplib.SMTPException)
"""What a conversation that has ended raises."""
_PIECE = 65_536
_LONGEST_LINE = 4_096
_MOST_LINES = 200


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that each phase may take.

    reached: connecting, TLS and the greeting together: a server that is down must not keep a client waiting. login,
    command: each answer. envelope: all recipients together. verdict: the answer to the final dot, which waits for
    whatever the server does with the mail (RFC 5321 4.5.3.2.6). octets: a second, the slowest line that is borne.
    """

    reached: float = 4.0
    login: float = 10.0
    command: float = 30.0
    envelope: float = 300.0
    content: float = 30.0
    verdict: float = 120.0
    octets: float = 20_000.0


class Conversation(smtplib.SMTP):
    """An SMTP connection. seconds: how long the server may take for each answer from now on."""

    def __init__(self, patience: Patience) -> None:
        # An address literal: the name of this host is nobody's business, and looking it up can take its time.
        super().__init__(local_hostname="[127.0.0.1]")
        self.seconds = patience.command
        self._patience = patience
        self._heard = b""

    def open(self, endpoint: Endpoint) -> None:
        """Connect, with TLS where that comes first, and hear the greeting. Raises OSError or smtplib's errors."""
        deadline = time.monotonic() + self._patience.reached
        self.sock = _connected(endpoint, deadline)
        if endpoint.security == "tls":
            self.sock = _wrapped(self.sock, endpoint)
        self.seconds = max(deadline - time.monotonic(), 0.1)
        if self.getreply()[0] != 220:
            raise smtplib.SMTPServerDisconnected("greeting")
        self.seconds = self._patience.login
        self.ehlo_or_helo_if_needed()
        if endpoint.security == "starttls":
            self._start_tls(endpoint)

    def _start_tls(self, endpoint: Endpoint) -> None:
        code, _ = self.docmd("STARTTLS")
        if code != 220 or self._heard or self.sock is None:
            # What was said in clear behind the answer did not come from the server that TLS will name.
            raise smtplib.SMTPServerDisconnected("STARTTLS is not offered")
        self.sock.settimeout(self.seconds)
        self.sock = _wrapped(self.sock, endpoint)
        self.helo_resp = self.ehlo_resp = None
        self.esmtp_features = {}
        self.does_esmtp = False
        self.ehlo_or_helo_if_needed()

    def send(self, s: bytes | str) -> None:  # type: ignore[override]  # smtplib takes any buffer and sends no other
        """Write, all of it within the time allowed."""
        data = memoryview(s.encode(self.command_encoding) if isinstance(s, str) else s)
        deadline = time.monotonic() + self.seconds
        while data:
            data = data[self._socket(deadline).send(data[:_PIECE]) :]

    def getreply(self) -> tuple[int, bytes]:
        """(code, text) of the next answer, complete within the time allowed."""
        deadline = time.monotonic() + self.seconds
        texts: list[bytes] = []
        while len(texts) < _MOST_LINES:
            line = self._line(deadline)
            if len(line) < 3 or not line[:3].isdigit() or line[3:4] not in (b" ", b"-", b""):
                break
            texts.append(line[4:].strip())
            if line[3:4] != b"-":
                return int(line[:3]), b"\n".join(texts)
        self.close()
        raise smtplib.SMTPServerDisconnected("an answer that is none")

    def hung_up(self) -> bool:
        """Whether the server has said something, or left, while it should be listening."""
        sock = self._socket(time.monotonic() + self.seconds)
        sock.setblocking(False)
        try:
            self._heard += (piece := sock.recv(_PIECE))
        except (BlockingIOError, ssl.SSLWantReadError):
            return bool(self._heard)
        except OSError:
            return True
        return not piece or bool(self._heard)

    def close(self) -> None:
        """Hang up."""
        self._heard = b""
        super().close()

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._heard:
            if len(self._heard) > _LONGEST_LINE:
                self.close()
                raise smtplib.SMTPServerDisconnected("a line without end")
            piece = self._socket(deadline).recv(_PIECE)
            if not piece:
                self.close()
                raise smtplib.SMTPServerDisconnected("hung up")
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.rstrip(b"\r")

    def _socket(self, deadline: float) -> socket.socket:
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("hung up")
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the server takes too long")
        self.sock.settimeout(left)
        return self.sock


def _connected(endpoint: Endpoint, deadline: float) -> socket.socket:
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
            opened.settimeout(max(deadline - time.monotonic(), 0.1))
            return opened
    raise failure


def _wrapped(plain: socket.socket, endpoint: Endpoint) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=endpoint.ca_file)
    return context.wrap_socket(plain, server_hostname=endpoint.server_name or endpoint.host)
