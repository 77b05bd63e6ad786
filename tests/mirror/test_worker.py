"""The sync worker as a process: it follows the mailbox, ends with its parent, and survives being killed."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.mail import generate
from mirror.errors import MirrorCorrupt
from mirror.lock import Lock
from mirror.store import Store
from mirror.wake import wake
from mirror.worker import RELOAD
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, provider_at, truth
from tests.processes import children_of, is_running, until
from tests.servers.dovecot import Dovecot

CONFIGURATION = """
[server]
data_dir = "data"

[users.alice.providers.work]
address = "{user}@example.org"
username = "{user}"
password = {{ file = "{password_file}" }}
imap = {{ host = "127.0.0.1", port = {port}, security = "plain" }}
sync = {{ interval = "{interval}", idle = {idle} }}
"""


class Worker:
    """A worker process on a configuration of its own."""

    def __init__(self, folder: Path, dovecot: Dovecot, user: str, password_file: Path) -> None:
        self.config = folder / "postmirror.toml"
        self.mirror_folder = folder / "data" / "mirrors" / "alice" / "work"
        self._values = {"user": user, "port": dovecot.port, "password_file": password_file}
        self.process: subprocess.Popen[bytes] | None = None
        self.configure()

    def configure(self, interval: str = "10m", idle: str = "false") -> None:
        """Write the configuration file."""
        self.config.touch(mode=0o600)
        self.config.write_text(CONFIGURATION.format(**self._values, interval=interval, idle=idle), "utf-8")

    def start(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mirror.worker", str(self.config)], stdin=subprocess.PIPE
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop(self) -> int:
        """Close its input, as a parent that ends does; its exit code."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=10)

    def count(self, where: str = "state >= 2") -> int:
        """How many contents are in a state; 0 before there is a mirror."""
        if not (self.mirror_folder / "mirror.db").exists():
            return 0
        try:
            with Store(self.mirror_folder) as store:
                row = store._connection.execute(f"SELECT count(*) FROM content WHERE {where}").fetchone()
        except (MirrorCorrupt, sqlite3.DatabaseError):
            return 0
        return int(row[0])


@pytest.fixture
def worker(tmp_path: Path, dovecot: Dovecot, user: str, password_file: Path) -> Iterator[Worker]:
    """A worker that is not started yet."""
    made = Worker(tmp_path, dovecot, user, password_file)
    yield made
    if made.process is not None:
        made.stop()


@pytest.fixture
def mirror_of(
    worker: Worker, make_mirror: Callable[..., Mirror], dovecot: Dovecot, user: str, password_file: Path
) -> Mirror:
    """The worker's own mirror, to compare with the truth."""
    mirror = make_mirror(provider_at(dovecot.port, user, password_file))
    mirror.close()
    mirror.store = Store(worker.mirror_folder)
    return mirror


def test_worker_mirrors_and_ends_when_its_input_closes(worker: Worker, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"), simple("two"))
    worker.start()
    until(lambda: worker.count() == 2)
    assert worker.stop() == 0


def test_nudge_makes_a_pass_at_once(worker: Worker, dovecot: Dovecot, user: str) -> None:
    worker.start()
    until(lambda: (worker.mirror_folder / "wake").exists())
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
    assert wake(worker.mirror_folder)
    until(lambda: worker.count() == 1)


def test_idle_brings_new_mail_without_a_nudge(worker: Worker, dovecot: Dovecot, user: str) -> None:
    worker.configure(idle="true")
    worker.start()
    with dovecot.client(user) as client:
        client.append("INBOX", simple("before"))
        until(lambda: worker.count() == 1)
        client.append("INBOX", simple("after"))
        until(lambda: worker.count() == 2)


def test_killed_in_mid_sync_the_next_start_resumes_without_loss_or_duplicates(
    worker: Worker, dovecot: Dovecot, user: str, mirror_of: Mirror
) -> None:
    with dovecot.client(user) as client:
        mails = list(generate(800, seed=5))
        for start in range(0, len(mails), 250):
            client.append("INBOX", *mails[start : start + 250])
        for wanted in (100, 300, 500):
            worker.start()
            until(lambda wanted=wanted: worker.count() >= wanted)  # type: ignore[misc]  # a lambda bound in a loop
            worker.kill()
        assert 0 < worker.count() < 800
        worker.start()
        until(lambda: worker.count("state >= 2") == 800)
        assert mirror_of.listing() == truth(client)
        assert mirror_of.rows("SELECT count(*) FROM attempt") == [(0,)]


def test_kill_leaves_no_orphan(worker: Worker, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *generate(300, seed=6))
    worker.start()
    until(lambda: worker.count() > 0)
    children = children_of(worker.pid)
    assert children
    worker.kill()
    until(lambda: not any(is_running(child) for child in children))


def test_child_that_is_killed_costs_nothing(worker: Worker, dovecot: Dovecot, user: str, mirror_of: Mirror) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *generate(400, seed=7))
        worker.start()
        until(lambda: worker.count() > 0)
        children = children_of(worker.pid)
        assert children
        for child in children:
            os.kill(child, signal.SIGKILL)
        until(lambda: worker.count() == 400)
        assert mirror_of.listing() == truth(client)


def test_second_worker_leaves_the_mirror_alone_and_takes_over(worker: Worker, dovecot: Dovecot, user: str) -> None:
    worker.mirror_folder.mkdir(parents=True)
    lock = Lock(worker.mirror_folder / "lock")
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
    with lock:
        worker.configure(interval="10s")
        worker.start()
        time.sleep(1)
        assert worker.count() == 0
    until(lambda: worker.count() == 1)


def test_upstream_that_comes_back_is_followed_again(worker: Worker, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
    worker.start()
    until(lambda: worker.count() == 1)
    dovecot.stop()
    wake(worker.mirror_folder)
    with Store(worker.mirror_folder) as store:
        until(lambda: store._connection.execute("SELECT error <> '' FROM mirror").fetchone()[0])
    dovecot.start()
    with dovecot.client(user) as client:
        client.append("INBOX", simple("two"))
    until(lambda: worker.count() == 2, seconds=30)


def test_refused_login_is_tried_twice_and_then_reported(worker: Worker, dovecot: Dovecot, password_file: Path) -> None:
    password_file.write_text("wrong\n", "utf-8")
    before = dovecot.log().count("auth failed")
    worker.start()
    until(lambda: (worker.mirror_folder / "mirror.db").exists() and dovecot.log().count("auth failed") >= before + 2)
    for _ in range(5):
        wake(worker.mirror_folder)
        time.sleep(0.2)
    assert dovecot.log().count("auth failed") == before + 2
    with Store(worker.mirror_folder) as store:
        error = store._connection.execute("SELECT error FROM mirror").fetchone()[0]
    assert "Correct username and password" in error


def test_mirror_that_is_removed_under_the_worker_is_built_again(worker: Worker, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
    worker.configure(interval="10s")
    worker.start()
    until(lambda: worker.count() == 1)
    shutil.rmtree(worker.mirror_folder)
    until(lambda: worker.count() == 1)
    with dovecot.client(user) as client:
        client.append("INBOX", simple("two"))
    assert wake(worker.mirror_folder)
    until(lambda: worker.count() == 2)


def test_mirror_that_is_damaged_under_the_worker_is_set_aside_and_built_again(
    worker: Worker, dovecot: Dovecot, user: str
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *generate(30, seed=1))
        worker.start()
        until(lambda: worker.count("state = 3") == 30)
        path = worker.mirror_folder / "mirror.db"
        with Store(worker.mirror_folder) as store:
            store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (path.stat().st_size - 4096))
        client.append("INBOX", simple("after the damage"))
        wake(worker.mirror_folder)
        until(lambda: worker.count() == 31)
    assert list(worker.mirror_folder.glob("mirror.damaged-*.db"))


def test_changed_configuration_ends_the_worker_for_a_new_one(worker: Worker) -> None:
    worker.start()
    until(lambda: (worker.mirror_folder / "wake").exists())
    worker.configure(interval="11m")
    assert worker.process is not None
    assert worker.process.wait(timeout=20) == RELOAD
    worker.stop()


def test_broken_configuration_changes_nothing(worker: Worker, dovecot: Dovecot, user: str) -> None:
    worker.start()
    until(lambda: (worker.mirror_folder / "wake").exists())
    worker.config.write_text("[broken", "utf-8")
    time.sleep(2)
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
    wake(worker.mirror_folder)
    until(lambda: worker.count() == 1)
