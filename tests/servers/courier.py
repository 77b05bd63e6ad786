"""A real Courier IMAP server that runs from a folder of its own: UIDPLUS, no CONDSTORE, no MOVE, no UIDNEXT on SELECT.

Any user name logs in with `PASSWORD` and has a mailbox of its own. Every folder is below INBOX, with a dot between.
"""

import os
import subprocess
import sys

from tests.servers.packages import UnpackedServer, mail_user
from tests.servers.ports import PASSWORD, wait_for_greeting

_PACKAGES = (
    "courier-imap", "courier-base", "courier-authlib", "libcourier-unicode4", "libgamin0", "libidn12", "libpcre3",
)  # fmt: skip


class Courier(UnpackedServer):
    """One Courier on loopback."""

    prefix = "INBOX."
    delimiter = "."

    def __init__(self) -> None:
        super().__init__(_PACKAGES, ["usr/bin/imapd"])
        (self.folder / "home").mkdir()
        os.chown(self.folder / "home", mail_user(), -1)

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
