"""An SMTP server that misbehaves at the stage a test names: for what no real server can be made to do.

A fault is a code it refuses with (`"451"`), or
close, reset  hangs up there, politely or not
stall         says nothing more
drip          one octet of an answer at a time, for ever
garbage       an answer that is none
At DATA's content ("content") a fault comes before the mail has ended. At "dot" the mail has been taken, unless the
fault is a code. A fault lasts until it is cleared.
"""

import base64
import socketserver
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import Literal, Self

from tests.servers.ports import HOST

Stage = Literal["greeting", "ehlo", "auth", "mail", "rcpt", "data", "content", "dot", "quit"]
STAGES: tuple[Stage, ...] = ("greeting", "ehlo", "auth", "mail", "rcpt", "data", "content", "dot", "quit")


class FaultySmtp:
    """One server on `port`. delivered: every mail that was taken. commands: the verbs it heard; heard: whole lines.

    on_delivery is called with each mail before the verdict on it, as a provider files it in Sent. refused: recipients
    that it does not take. features: what it offers after EHLO. challenge: of CRAM-MD5.
    """

    def __init__(self, features: tuple[str, ...] = ("SIZE 50000000", "AUTH PLAIN")) -> None:
        self.delivered: list[bytes] = []
        self.commands: list[str] = []
        self.heard: list[str] = []
        self.challenge = b""
        self.refused: frozenset[str] = frozenset()
        self.stage: Stage | None = None
        self.fault = ""
        self.features = features
        self.on_delivery: Callable[[bytes], None] = lambda _: None
        self.said = threading.Event()
        faulty = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(OSError, _Gone):
                    faulty._converse(self)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server((HOST, 0), Session)
        self.port: int = self._server.server_address[1]
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def misbehave(self, stage: Stage, fault: str) -> None:
        """From now on, at this stage."""
        self.stage, self.fault = stage, fault

    def behave(self) -> None:
        """No fault any more."""
        self.stage = None

    def _converse(self, session: socketserver.StreamRequestHandler) -> None:
        self._answer(session, "greeting", b"220 faulty")
        while line := session.rfile.readline():
            command = line.strip().decode("utf-8", "replace")
            verb = command.partition(" ")[0].upper()
            self.commands.append(verb)
            self.heard.append(command)
            match verb:
                case "EHLO" | "HELO":
                    lines = ["faulty", *self.features]
                    marks = ["-"] * (len(lines) - 1) + [" "]
                    said = "\r\n".join(f"250{mark}{text}" for mark, text in zip(marks, lines, strict=True))
                    self._answer(session, "ehlo", said.encode())
                case "AUTH":
                    if command.endswith("CRAM-MD5"):
                        session.wfile.write(b"334 " + base64.b64encode(self.challenge) + b"\r\n")
                        self.heard.append(session.rfile.readline().strip().decode("ascii"))
                    self._answer(session, "auth", b"235 in")
                case "MAIL":
                    self._answer(session, "mail", b"250 ok")
                case "RCPT":
                    if any(address in command for address in self.refused):
                        session.wfile.write(b"550 5.1.1 nobody\r\n")
                    else:
                        self._answer(session, "rcpt", b"250 ok")
                case "DATA":
                    if self._answer(session, "data", b"354 go on"):
                        self._take(session)
                case "QUIT":
                    self._answer(session, "quit", b"221 bye")
                    return
                case _:
                    session.wfile.write(b"250 ok\r\n")

    def _take(self, session: socketserver.StreamRequestHandler) -> None:
        lines: list[bytes] = []
        while (line := session.rfile.readline()) != b".\r\n":
            if not line:
                return
            lines.append(line.removeprefix(b"."))
            if self.stage == "content":
                self._answer(session, "content", b"")
                return
        if not (self.stage == "dot" and self.fault.isdigit()):
            self.delivered.append(b"".join(lines))
            self.on_delivery(self.delivered[-1])
        self._answer(session, "dot", b"250 taken")

    def _answer(self, session: socketserver.StreamRequestHandler, stage: Stage, usual: bytes) -> bool:
        """Whether the answer was the usual one."""
        if self.stage != stage:
            session.wfile.write(usual + b"\r\n")
            return True
        self.said.set()
        match self.fault:
            case "close":
                raise _Gone
            case "reset":
                session.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                raise _Gone
            case "stall":
                self._stopped.wait()
                raise _Gone
            case "drip":
                while not self._stopped.is_set():
                    session.wfile.write(b"2")
                    time.sleep(0.02)
            case "garbage":
                session.wfile.write(b"\xff\xfe what?\r\n")
            case code:
                session.wfile.write(f"{code} 4.3.0 not so\r\n".encode())
                if code == "421":
                    raise _Gone
        return False


class _Gone(Exception):
    """The connection ends here."""
