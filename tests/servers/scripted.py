"""An IMAP server that says what a test tells it to: for what no real server can be made to do.

A script is a list of (how the command begins, what is answered); `TAG` in an answer stands for the command's tag. Steps
are used in order, over all connections. A command that is not the next step's gets a plain answer when it is one that
every client sends (LOGIN, NOOP …); else it gets BAD and is kept in `unexpected`. b"" is silence, None hangs up.
"""

import base64
import re
import socketserver
import threading
from collections.abc import Sequence
from typing import Self

from tests.servers.ports import HOST

_LITERAL = re.compile(rb"\{(\d+)(\+?)\}\r\n$")
_ALWAYS = {"AUTHENTICATE", "CAPABILITY", "CLOSE", "ENABLE", "ID", "LOGIN", "LOGOUT", "NAMESPACE", "NOOP", "UNSELECT"}


class ScriptedImap:
    """One scripted server on `port`. commands: everything that was asked, without tags. responses: what logins said.

    greeting: its last words.
    """

    def __init__(
        self,
        script: Sequence[tuple[str, bytes | None]],
        *,
        capability: str = "IMAP4rev1",
        greeting: str = "ready",
    ) -> None:
        self.commands: list[str] = []
        self.unexpected: list[str] = []
        self.responses: list[bytes] = []
        self._script = list(script)
        self._capability = capability.encode("ascii")
        self._greeting = greeting.encode("ascii")
        scripted = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"* OK [CAPABILITY %s] %s\r\n" % (scripted._capability, scripted._greeting))
                while line := self._line():
                    tag, _, command = line.rstrip(b"\r\n").partition(b" ")
                    answer = scripted._answer((command or tag).decode("utf-8", "replace"))
                    if answer is None:
                        return
                    self.wfile.write(answer.replace(b"TAG", tag))

            def _line(self) -> bytes:
                line = self.rfile.readline()
                while literal := _LITERAL.search(line):
                    if not literal[2]:
                        self.wfile.write(b"+ go on\r\n")
                    line += self.rfile.read(int(literal[1])) + self.rfile.readline()
                if re.search(rb" AUTHENTICATE [A-Z0-9]+$", line.rstrip().upper()):
                    self.wfile.write(b"+ \r\n")
                    scripted.responses.append(base64.b64decode(self.rfile.readline()))
                return line

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server((HOST, 0), Session)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, command: str) -> bytes | None:
        self.commands.append(command)
        if self._script and command.upper().startswith(self._script[0][0].upper()):
            return self._script.pop(0)[1]
        verb = command.partition(" ")[0].upper()
        if verb == "CAPABILITY":
            return b"* CAPABILITY %s\r\nTAG OK done\r\n" % self._capability
        if verb in _ALWAYS:
            return b"TAG OK done\r\n"
        self.unexpected.append(command)
        return b"TAG BAD not in the script\r\n"
