"""A real pymap, in memory: a fresh mailbox in half a second, with MOVE, UIDPLUS and OBJECTID but no CONDSTORE."""

import subprocess
import sys
from typing import Self

from tests.servers.ports import HOST, PASSWORD, free_port, wait_for_greeting
from tests.servers.second_client import SecondClient

USER = "alice"


class Pymap:
    """One pymap process with one user. Its mail is gone when it stops: started again, every UIDVALIDITY is another."""

    host = HOST
    user = USER
    password = PASSWORD
    prefix = ""
    delimiter = "/"

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it with an empty mailbox; returns when it greets."""
        program = (sys.executable, "-c", "from pymap.main import main; main()")
        place = ("--host", HOST, "--port", str(self.port), "--no-tls")
        services = ("--no-service", "admin", "--no-service", "managesieve")
        backend = ("dict", "--demo-user", USER, "--demo-password", PASSWORD)
        self._process = subprocess.Popen(
            (*program, *place, *services, *backend),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_greeting(self.port)

    def stop(self) -> None:
        """End it; clients are disconnected. Does nothing when it is stopped."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self, user: str = USER) -> SecondClient:
        """A plain IMAP session, logged in."""
        return SecondClient(self.port, user, PASSWORD)
