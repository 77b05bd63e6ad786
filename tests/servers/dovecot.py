"""A real Dovecot that runs from a folder of its own, as whoever runs the tests.

Any user name logs in with `PASSWORD` and has a mailbox of its own, so tests share one server and never a mailbox.
Mail, uids and MODSEQs survive `stop`, `kill` and `start`.
"""

import getpass
import grp
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from config.provider import Endpoint, Provider
from config.secret import SecretSource
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.ports import HOST, PASSWORD, free_port, wait_for_greeting
from tests.servers.second_client import SecondClient

IMAP4REV1 = "IMAP4rev1"  # the lowest rung: as `capability` it hides every extension
_NOBODY = 65_534
_SECONDS = 10.0
_LINKS = 30_000  # files with more names than a file system may allow
_FILLED_AT = 1_577_836_800

_CONFIGURATION = """\
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
listen = {host}
auth_verbose = yes
disable_plaintext_auth = no
auth_mechanisms = plain login
auth_failure_delay = 0
mail_max_userip_connections = 100
mail_fsync = never
mailbox_idle_check_interval = 1s

mail_location = maildir:~/mail:LAYOUT=fs
mail_home = {folder}/home/%u
mail_uid = {mail_uid}
mail_gid = {mail_gid}
first_valid_uid = 1
first_valid_gid = 0
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Sent {{
    special_use = \\Sent
    auto = create
  }}
  mailbox Drafts {{
    special_use = \\Drafts
  }}
  mailbox Trash {{
    special_use = \\Trash
  }}
  mailbox Junk {{
    special_use = \\Junk
  }}
  mailbox Archive {{
    special_use = \\Archive
  }}
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={mail_uid} gid={mail_gid} home={folder}/home/%u
}}

service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
  service_count = 0
  client_limit = 200
}}
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
"""

_TLS = """
ssl = yes
ssl_cert = <{certificates.cert_file}
ssl_key = <{certificates.key_file}
ssl_min_protocol = TLSv1.2
"""

# Without root there is nobody to become and no chroot.
_WITHOUT_ROOT = """
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
}}
service stats {{
  chroot =
}}
"""


class Dovecot:
    """One Dovecot on loopback: `port` in clear and STARTTLS, `tls_port` with TLS from the start.

    capability: what it offers instead of everything it can, e.g. `IMAP4REV1`. tls: False for a server that has no
    certificate. settings: further lines of its configuration file.
    """

    host = HOST
    password = PASSWORD
    prefix = ""
    delimiter = "/"

    def __init__(self, *, capability: str = "", tls: bool = True, settings: str = "") -> None:
        program = shutil.which("dovecot", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin")
        if program is None:
            raise FileNotFoundError("dovecot is not installed: run `make servers`")
        # Not under pytest's folder: unix socket paths have 107 characters at most, and the mail user must get in.
        self.folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        self.tls_port = free_port() if tls else 0
        self.certificates: Certificates | None = make_certificates(self.folder) if tls else None
        self._command = (program, "-F", "-c", str(self.folder / "dovecot.conf"))
        self._process: subprocess.Popen[bytes] | None = None
        self._configure(capability, settings)

    def _configure(self, capability: str, settings: str) -> None:
        home = self.folder / "home"
        home.mkdir()
        root = os.geteuid() == 0
        mail_uid, mail_gid = (_NOBODY, _NOBODY) if root else (os.geteuid(), os.getegid())
        if root:
            os.chown(home, mail_uid, mail_gid)
        parts = [
            _CONFIGURATION.format(
                folder=self.folder,
                host=HOST,
                port=self.port,
                tls_port=self.tls_port,
                password=PASSWORD,
                mail_uid=mail_uid,
                mail_gid=mail_gid,
            ),
            _TLS.format(certificates=self.certificates) if self.certificates else "\nssl = no\n",
        ]
        if not root:
            parts.append(_WITHOUT_ROOT.format(user=getpass.getuser(), group=grp.getgrgid(os.getegid()).gr_name))
        if capability:
            parts.append(f"\nimap_capability = {capability}\n")
        parts.append(settings)
        (self.folder / "dovecot.conf").write_text("".join(parts), "utf-8")
        (self.folder / "password").write_text(PASSWORD, "utf-8")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it, with the mail it had; returns when it greets."""
        with (self.folder / "start.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_for_greeting(self.port, seconds=_SECONDS)
        except TimeoutError as exc:
            self.stop()
            raise RuntimeError(f"Dovecot does not start:\n{self.log()}") from exc

    @property
    def running(self) -> bool:
        """Whether it was started and not ended by us since."""
        return self._process is not None

    def stop(self) -> None:
        """Stop it as an operator would; clients are disconnected. Does nothing when it is stopped."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start it: same ports, same mail."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder)

    def log(self) -> str:
        """What it wrote about itself so far."""
        files = (self.folder / "start.log", self.folder / "dovecot.log")
        return "".join(file.read_text("utf-8", "replace") for file in files if file.exists())

    def client(self, user: str) -> SecondClient:
        """A plain IMAP session of this user, logged in."""
        return SecondClient(self.port, user, PASSWORD)

    def provider(self, user: str, *, tls: bool = False, smtp: Endpoint | None = None) -> Provider:
        """The user's mailbox here as the configuration of a provider."""
        if tls and self.certificates is None:
            raise ValueError("this server has no certificate")
        imap = (
            Endpoint(host=HOST, port=self.tls_port, ca_file=self.certificates.ca_file)
            if tls and self.certificates
            else Endpoint(host=HOST, port=self.port, security="plain")
        )
        password = SecretSource(file=self.folder / "password")
        return Provider(address=f"{user}@example.org", username=user, password=password, imap=imap, smtp=smtp)

    def fill(self, user: str, raw: bytes, uids: Sequence[int]) -> None:
        """Put one message under so many uids into the INBOX of a user who has not logged in yet.

        By links, within seconds: appending hundreds of thousands takes an hour. Its flag is \\Seen, its INTERNALDATE
        the first of January 2020.
        """
        folder = self.folder / "home" / user / "mail"
        for part in ("new", "tmp", "cur"):
            (folder / part).mkdir(parents=True)
        names: list[str] = []
        original = folder
        for number, uid in enumerate(uids):
            names.append(f"{uid}.M{number}.test,S={len(raw)},W={len(raw)}")
            path = folder / "cur" / f"{names[-1]}:2,S"
            if number % _LINKS:
                path.hardlink_to(original)
            else:
                original = path
                original.write_bytes(raw)
                os.utime(original, (_FILLED_AT, _FILLED_AT))
        lines = [f"{uid} :{name}\n" for uid, name in zip(uids, names, strict=True)]
        head = f"3 V1600000000 N{max(uids) + 1} G0123456789abcdef0123456789abcdef\n"
        (folder / "dovecot-uidlist").write_text("".join([head, *lines]), "ascii")
        if os.geteuid() == 0:
            for path in (folder.parent, folder, *folder.iterdir(), *(folder / "cur").iterdir()):
                os.chown(path, _NOBODY, _NOBODY)

    def _end(self, by: signal.Signals) -> None:
        if self._process is None:
            return
        group = self._process.pid
        os.killpg(group, by)
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # The master leaves sessions that are logged in to end by themselves.
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self._process = None
