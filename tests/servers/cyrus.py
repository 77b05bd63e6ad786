"""A real Cyrus IMAP server that runs from a folder of its own: QRESYNC, OBJECTID, LIST-STATUS, MOVE.

Any user name logs in with any password and has a mailbox of its own.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.servers.packages import Unpacked, mail_user
from tests.servers.ports import HOST, PASSWORD, free_port, wait_for_greeting
from tests.servers.second_client import SecondClient

_PACKAGES = ("cyrus-common", "cyrus-imapd", "libical3", "libpcre3", "libpq5", "libwrap0", "libxapian30")
_BIN = "usr/lib/cyrus/bin"
_SECONDS = 15.0

_IMAPD = """\
configdirectory: {folder}/state
defaultpartition: default
partition-default: {folder}/mail
proc_path: {folder}/run/proc
mboxname_lockpath: {folder}/run/lock
admins: cyrus
unixhierarchysep: yes
altnamespace: yes
allowplaintext: yes
sasl_pwcheck_method: alwaystrue
sasl_mech_list: PLAIN LOGIN
autocreate_quota: 0
autocreate_post: yes
conversations: yes
imapidlepoll: 1
expunge_mode: immediate
delete_mode: immediate
"""

_MASTER = """\
START {{
  recover cmd="{bin}/ctl_cyrusdb -C {folder}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="{bin}/imapd -C {folder}/imapd.conf" listen="{host}:{port}" proto="tcp4" prefork=1
}}
EVENTS {{
}}
"""


class Cyrus:
    """One Cyrus on loopback. prefix: what the names of a user's folders begin with."""

    host = HOST
    password = PASSWORD
    prefix = ""
    delimiter = "/"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cyrus-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        try:
            self._unpacked = Unpacked(self.folder / "packages", _PACKAGES)
            self._master = self._unpacked.program(f"{_BIN}/master")
            self._unpacked.program(f"{_BIN}/imapd")
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("state", "state/socket", "mail", "run"):
            (self.folder / name).mkdir()
            os.chown(self.folder / name, mail_user(), -1)
        values = {"folder": self.folder, "bin": self._master.parent, "host": HOST, "port": self.port}
        (self.folder / "imapd.conf").write_text(_IMAPD.format(**values), "utf-8")
        (self.folder / "cyrus.conf").write_text(_MASTER.format(**values), "utf-8")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start it, with the mail it had; returns when it greets."""
        configuration = ("-C", str(self.folder / "imapd.conf"), "-M", str(self.folder / "cyrus.conf"))
        # Its programs refuse to run as root.
        user = pwd.getpwuid(mail_user())
        with (self.folder / "start.log").open("ab") as log:
            self._process = subprocess.Popen(
                (self._master, *configuration, "-p", str(self.folder / "run" / "pid"), "-D"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._unpacked.environment | {"CYRUS_USER": user.pw_name},
                user=user.pw_uid if os.geteuid() == 0 else None,
                group=user.pw_gid if os.geteuid() == 0 else None,
                extra_groups=[] if os.geteuid() == 0 else None,
            )
        try:
            wait_for_greeting(self.port, seconds=_SECONDS)
        except TimeoutError as exc:
            self.stop()
            raise RuntimeError(f"Cyrus does not start:\n{(self.folder / 'start.log').read_text()}") from exc

    def stop(self) -> None:
        """End it and the processes it started. Does nothing when it is stopped."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def client(self, user: str) -> SecondClient:
        """A plain IMAP session of this user, logged in."""
        return SecondClient(self.port, user, PASSWORD)
