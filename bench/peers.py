"""The tools that people use for the same end: isync's mbsync, and the indexers mu and notmuch on its Maildir."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Protocol

from bench.installation import Mailbox
from tests.servers.ports import HOST, PASSWORD

_MBSYNC = """\
FSync {fsync}

IMAPAccount bench
Host {host}
Port {port}
User {login}
Pass {password}
SSLType None
AuthMechs LOGIN

IMAPStore far
Account bench

MaildirStore near
Path {folder}/Mail/
Inbox {folder}/Mail/INBOX
SubFolders Verbatim

Channel all
Far :far:
Near :near:
Patterns *
Create Near
Sync Pull
CopyArrivalDate yes
SyncState *
"""

_LEAST_FETCHED = 0.97

_NOTMUCH = """\
[database]
path={folder}/Mail
[user]
name=Alice Example
primary_email=alice@example.org
[new]
ignore=.mbsyncstate;.uidvalidity
[search]
exclude_tags=
"""


class Peer(Protocol):
    """A tool that is run once from nothing, and then again over what it made."""

    name: str
    slug: str

    def first_run(self, mailbox: Mailbox, folder: Path) -> float:
        """Seconds of a run from nothing; what it makes stays in the folder."""

    def again(self) -> None:
        """Run once more."""


class Mbsync:
    """The mailbox as a Maildir. fsync: its own setting, on as it comes."""

    def __init__(self, *, fsync: bool = True) -> None:
        self.name = "mbsync" if fsync else "mbsync, FSync no"
        self.slug = "mbsync" if fsync else "mbsync-unsafe"
        self.maildir = Path()
        self._fsync = fsync
        self._command: list[str] = []

    def first_run(self, mailbox: Mailbox, folder: Path) -> float:
        """Fetch everything."""
        self.maildir = folder / "Mail"
        self.maildir.mkdir(parents=True)
        configuration = folder / "mbsyncrc"
        configuration.write_text(
            _MBSYNC.format(
                fsync="yes" if self._fsync else "no",
                host=HOST,
                port=mailbox.dovecot.port,
                login=mailbox.login,
                password=PASSWORD,
                folder=folder,
            ),
            "utf-8",
        )
        self._command = ["mbsync", "-c", str(configuration), "-q", "-a"]
        seconds = _run(self._command)
        found = sum(1 for path in self.maildir.glob("*/[cn][ue][rw]/*"))
        # Of real mail it leaves out what its header parser refuses.
        if found < mailbox.messages * _LEAST_FETCHED:
            raise RuntimeError(f"mbsync fetched {found} of {mailbox.messages} messages")
        return seconds

    def again(self) -> None:
        """Look for what is new."""
        _run(self._command)


class Mu:
    """mu's index over the Maildir that an Mbsync made."""

    name = "mu index"
    slug = "mu"

    def __init__(self, source: Mbsync) -> None:
        self._source = source
        self._command: list[str] = []

    def first_run(self, mailbox: Mailbox, folder: Path) -> float:
        """Index everything."""
        home = f"--muhome={folder}"
        _run(["mu", "init", home, f"--maildir={self._source.maildir}", "--quiet"])
        self._command = ["mu", "index", home, "--quiet"]
        return _run(self._command)

    def again(self) -> None:
        """Look for what is new."""
        _run(self._command)


class Notmuch:
    """notmuch's index over the Maildir that an Mbsync made."""

    name = "notmuch new"
    slug = "notmuch"

    def __init__(self, source: Mbsync) -> None:
        self._source = source
        self._configuration = Path()

    def first_run(self, mailbox: Mailbox, folder: Path) -> float:
        """Index everything; the database lies in the Maildir."""
        folder.mkdir()
        self._configuration = folder / "notmuch-config"
        self._configuration.write_text(_NOTMUCH.format(folder=self._source.maildir.parent), "utf-8")
        return self._new()

    def again(self) -> None:
        """Look for what is new."""
        self._new()

    def _new(self) -> float:
        return _run(
            ["notmuch", "new", "--quiet"], {"NOTMUCH_CONFIG": str(self._configuration), "HOME": os.environ["HOME"]}
        )


def installed_peers() -> tuple[list[Peer], list[str]]:
    """The peers that this machine has, in the order in which they must run, and the names of the missing."""
    missing = [program for program in ("mbsync", "mu", "notmuch") if shutil.which(program) is None]
    if "mbsync" in missing:
        return [], missing
    maildir = Mbsync()
    peers: list[Peer] = [maildir, Mbsync(fsync=False)]
    if "mu" not in missing:
        peers.append(Mu(maildir))
    if "notmuch" not in missing:
        peers.append(Notmuch(maildir))
    return peers, missing


def _run(command: list[str], variables: dict[str, str] | None = None) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | (variables or {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-500:]}")
    return time.perf_counter() - began
