"""The mailbox that is mirrored, and installations of the program that mirror it, each in a folder of its own."""

import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.mail import date_of, generate
from config.identity import Settings
from config.settings import load_settings
from tests.servers.dovecot import Dovecot
from tests.servers.ports import HOST, free_port
from tests.servers.second_client import Incoming

ROOT = Path(__file__).parent.parent
USER, PROVIDER = "alice", "work"
FOLDERS = (("INBOX", 80), ("Archive", 15), ("Sent", 5))
SEED = 1
_APPENDED_AT_ONCE = 100
_START_WITHIN = 20.0

_CONFIGURATION = """\
[server]
port = {port}
data_dir = "data"
workspace = "workspace"

[users.alice.providers.work]
address = "alice@example.org"
username = "{login}"
password = {{ file = "{password_file}" }}
imap = {{ host = "{host}", port = {imap_port}, security = "plain" }}
sync = {{ interval = "1h", idle = {idle} }}

[profiles.open]
folders = [{{ match = "*", access = "write" }}]
content = {{ attachments = {{}} }}

[profiles.restricted]
folders = [{{ match = "*", access = "read" }}]
content = {{ from_deny = ["user1*@example.com"], subject_deny = ["*quarterly*"], max_age = "5000d" }}
"""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A filled mailbox on a running server."""

    dovecot: Dovecot
    login: str
    messages: int
    octets: int
    kind: str = "generated messages"
    folders: int = len(FOLDERS)

    @property
    def described(self) -> str:
        """What is in it, in one line."""
        place = "one folder" if self.folders == 1 else f"{self.folders} folders"
        return f"{self.messages:,} {self.kind}, {self.octets / 1e6:.0f} MB, in {place}"


def fill(dovecot: Dovecot, login: str, messages: int) -> Mailbox:
    """A mailbox of so many generated messages, nine of ten of them seen."""
    chance = random.Random(SEED)
    octets = 0
    names = [name for name, _ in FOLDERS]
    with dovecot.client(login) as client:
        for name in set(names) - set(client.folders()):
            client.create(name)
        source = generate(messages, SEED)
        while raws := list(islice(source, _APPENDED_AT_ONCE)):
            octets += sum(map(len, raws))
            placed: dict[str, list[Incoming]] = {name: [] for name in names}
            for raw in raws:
                [name] = chance.choices(names, [share for _, share in FOLDERS])
                flags = ("\\Seen",) if chance.random() < 0.9 else ()
                placed[name].append(Incoming(raw, flags, date_of(raw)))
            for name, incoming in placed.items():
                if incoming:
                    client.append(name, *incoming)
    return Mailbox(dovecot, login, messages, octets)


@dataclass(frozen=True, slots=True)
class Served:
    """A running `serve`. pid: of its web process."""

    port: int
    pid: int


class Installation:
    """A configuration for the mailbox, with an empty data folder, below this folder.

    imap_port: where the mailbox is reached, when not at its server's own. idle: whether `serve` listens for new mail;
    when not, it makes one pass.
    """

    def __init__(self, folder: Path, mailbox: Mailbox, *, imap_port: int = 0, idle: bool = True) -> None:
        folder.mkdir(mode=0o700)
        self.config = folder / "postmirror.toml"
        self.port = free_port()
        self.config.touch(mode=0o600)
        self.config.write_text(
            _CONFIGURATION.format(
                port=self.port,
                login=mailbox.login,
                password_file=mailbox.dovecot.folder / "password",
                host=HOST,
                imap_port=imap_port or mailbox.dovecot.port,
                idle=str(idle).lower(),
            ),
            "utf-8",
        )

    @property
    def settings(self) -> Settings:
        """The configuration."""
        return load_settings(self.config)

    @property
    def mirror(self) -> Path:
        """The folder of the one mirror."""
        return self.settings.mirror_dir(USER, PROVIDER)

    def postmirror(self, *arguments: str) -> str:
        """What the command prints. Raises CalledProcessError when it fails."""
        command = [sys.executable, "-m", "server.cli", *arguments, "--config", str(self.config)]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return done.stdout

    def token(self, profile: str) -> str:
        """A new token's secret."""
        return self.postmirror("token", "new", USER, profile, "--provider", PROVIDER).strip()

    @contextmanager
    def serving(self, module: str = "server.cli") -> Iterator[Served]:
        """`postmirror serve` for the length of a block. module: what is run in the place of the command."""
        with serving(self.config, self.port, module) as served:
            yield served


@contextmanager
def serving(config: Path, port: int, module: str = "server.cli") -> Iterator[Served]:
    """`postmirror serve` of a configuration that says this port, for the length of a block."""
    command = [sys.executable, "-m", module, "serve", "--config", str(config)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        _wait_until_open(process, port)
        yield Served(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_until_open(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_WITHIN
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"postmirror serve did not start on port {port}") from None
            time.sleep(0.05)
        else:
            return
