"""Fifty accounts under one worker: a bounded number of threads, and few connections for each account."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mirror.errors import MirrorAbsent
from mirror.query.reader import Reader
from tests.mirror.mail import simple
from tests.processes import until
from tests.servers.dovecot import Dovecot

ACCOUNTS = 50
WORKERS = 4
OTHER_THREADS = 16
"""The main thread, the scheduler's, those that watch file and parent, and those that feed the parsing children."""
_ACCOUNT = """
[users.user{number}.providers.work]
address = "many{number}@example.org"
username = "many{number}"
password = {{ file = "{password_file}" }}
imap = {{ host = "127.0.0.1", port = {port}, security = "plain" }}
sync = {{ interval = "1h" }}
"""


class Crowd:
    """A worker process that keeps fifty accounts. threads, connections: the most that were seen."""

    def __init__(self, folder: Path, dovecot: Dovecot, password_file: Path) -> None:
        self._folder = folder
        self._dovecot = dovecot
        self.threads = self.connections = 0
        config = folder / "postmirror.toml"
        config.touch(mode=0o600)
        accounts = [
            _ACCOUNT.format(number=number, password_file=password_file, port=dovecot.port) for number in range(ACCOUNTS)
        ]
        head = f'[server]\ndata_dir = "data"\n[sync]\nworkers = {WORKERS}\n'
        config.write_text(head + "".join(accounts), "utf-8")
        self.process = subprocess.Popen([sys.executable, "-m", "mirror.worker", str(config)], stdin=subprocess.PIPE)

    def look(self) -> None:
        """Count threads and connections once more."""
        proc = Path(f"/proc/{self.process.pid}")
        self.threads = max(self.threads, len(list((proc / "task").iterdir())))
        mine = set()
        for descriptor in (proc / "fd").iterdir():
            with suppress(FileNotFoundError):
                mine.add(os.readlink(descriptor))
        to_server = f":{self._dovecot.port:04X}"
        rows = [line.split() for line in (proc / "net" / "tcp").read_text("ascii").splitlines()[1:]]
        here = sum(row[2].endswith(to_server) and f"socket:[{row[9]}]" in mine for row in rows)
        self.connections = max(self.connections, here)

    def mirrored(self) -> int:
        """How many accounts are complete."""
        self.look()
        return sum(self._is_complete(number) for number in range(ACCOUNTS))

    def _is_complete(self, number: int) -> bool:
        try:
            with Reader(self._folder / "data" / "mirrors" / f"user{number}" / "work" / "mirror.db") as reader:
                account, folders = reader.account(), reader.folders()
        except MirrorAbsent:
            return False
        return account.pass_ended is not None and bool(folders) and all(folder.complete for folder in folders)

    def most_connections_of_one(self) -> int:
        """The most connections that one account had at a time, by the server's log."""
        now: Counter[str] = Counter()
        most = 0
        for login, end in re.findall(
            r"imap-login: Info: Login: user=<(many\d+)>|imap\((many\d+)\)\S*: Info: (?:Disc|Logged|Conn)",
            self._dovecot.log(),
        ):
            now[login or end] += 1 if login else -1
            most = max(most, now[login])
        return most

    def stop(self) -> int:
        """End it; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=20)


@pytest.fixture
def crowd(tmp_path: Path, dovecot: Dovecot, password_file: Path) -> Iterator[Crowd]:
    """Fifty accounts, each with one message, and their worker."""
    for number in range(ACCOUNTS):
        with dovecot.client(f"many{number}") as client:
            client.append("INBOX", simple(f"for {number}"))
    running = Crowd(tmp_path, dovecot, password_file)
    yield running
    running.stop()


def test_fifty_accounts_are_kept_without_a_storm_of_threads_or_connections(crowd: Crowd, dovecot: Dovecot) -> None:
    until(lambda: crowd.mirrored() == ACCOUNTS, seconds=120)
    until(lambda: dovecot.log().count("Login: user=<many") >= 3 * ACCOUNTS or _settled(crowd), seconds=30)
    assert ACCOUNTS < crowd.threads <= ACCOUNTS + WORKERS + OTHER_THREADS
    assert ACCOUNTS <= crowd.connections <= 2 * ACCOUNTS
    assert 1 <= crowd.most_connections_of_one() <= 3


def _settled(crowd: Crowd) -> bool:
    """Whether every account has its two connections: for passes and for IDLE."""
    crowd.look()
    return crowd.connections == 2 * ACCOUNTS
