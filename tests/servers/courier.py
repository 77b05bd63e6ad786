"""A real Courier IMAP server that runs from a folder of its own: UIDPLUS, no CONDSTORE, no MOVE, no UIDNEXT on SELECT.

Any user name logs in with `PASSWORD` and has a mailbox of its own. Every folder is below INBOX, with a dot between.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.servers.packages import Unpacked, mail_user
from tests.servers.ports import HOST, PASSWORD, free_port, wait_for_greeting
from tests.servers.second_client import SecondClient

_PACKAGES = (
    "courier-imap", "courier-base", "courier-authlib", "libcourier-unicode4", "libgamin0", "libidn12", "libpcre3",
)  # fmt: skip


class Courier:
    """One Courier on loopback. prefix: what the names of a user's folders begin with."""

    host = HOST
    password = PASSWORD
    prefix = "INBOX."
    delimiter = "."

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="courier-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        try:
            self._unpacked = Unpacked(self.folder / "packages", _PACKAGES)
            self._unpacked.program("usr/bin/imapd")
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self._process: subprocess.Popen[bytes] | None = None
        (self.folder / "home").mkdir()
        os.chown(self.folder / "home", mail_user(), -1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start it, with the mail it had; returns when it greets."""
        program = (sys.executable, "-m", "tests.servers.courier_login")
        with (self.folder / "courier.log").open("ab") as log:
            self._process = subprocess.Popen(
                (*program, str(self.port), str(self.folder), str(mail_user())),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._unpacked.environment,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(PASSWORD.encode() + b"\n")
        self._process.stdin.close()
        wait_for_greeting(self.port)

    def stop(self) -> None:
        """End it and the sessions it serves. Does nothing when it is stopped."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def client(self, user: str) -> SecondClient:
        """A plain IMAP session of this user, logged in."""
        return SecondClient(self.port, user, PASSWORD)
