"""A real Cyrus IMAP server that runs from a folder of its own: QRESYNC, OBJECTID, LIST-STATUS, MOVE.

Any user name logs in with any password and has a mailbox of its own.
"""

import os
import pwd
import subprocess

from tests.servers.packages import UnpackedServer, mail_user
from tests.servers.ports import HOST, wait_for_greeting

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


class Cyrus(UnpackedServer):
    """One Cyrus on loopback."""

    def __init__(self) -> None:
        super().__init__(_PACKAGES, [f"{_BIN}/master", f"{_BIN}/imapd"])
        self._master = self._programs[0]
        for name in ("state", "state/socket", "mail", "run"):
            (self.folder / name).mkdir()
            os.chown(self.folder / name, mail_user(), -1)
        values = {"folder": self.folder, "bin": self._master.parent, "host": HOST, "port": self.port}
        (self.folder / "imapd.conf").write_text(_IMAPD.format(**values), "utf-8")
        (self.folder / "cyrus.conf").write_text(_MASTER.format(**values), "utf-8")

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
