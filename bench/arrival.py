"""New mail: how long after the server says so it can be found, and how long after it was delivered."""

import select
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.figures import Section, latency
from bench.installation import Installation, Mailbox
from tests.servers.second_client import SecondClient

_LOOK_EVERY = 0.002
_WITHIN = 30.0
_FOUND = "SELECT 1 FROM content WHERE message_id = ? AND state >= 2"


class _Listener(threading.Thread):
    """Waits in IDLE, and notes when the server says that a message is there."""

    def __init__(self, client: SecondClient) -> None:
        super().__init__(daemon=True)
        self._imap = client.imap
        self.told = 0.0
        self.told_again = threading.Event()

    def run(self) -> None:
        """Listen until the connection ends."""
        self._imap.select("INBOX", readonly=True)
        self._imap.send(b"A1 IDLE\r\n")
        try:
            while line := self._imap.readline():
                if line.endswith(b" EXISTS\r\n"):
                    self.told = time.perf_counter()
                    self.told_again.set()
        except (OSError, ValueError):
            return


def new_mail(mailbox: Mailbox, folder: Path, count: int) -> Section:
    """p50 and p99 of so many deliveries, one after the other, while `serve` waits in IDLE."""
    installation = Installation(folder / "arrival", mailbox)
    installation.postmirror("sync", "--json")
    said, delivered = [], []
    with installation.serving(), mailbox.dovecot.client(mailbox.login) as ears, _writer(mailbox) as writer:
        listener = _Listener(ears)
        listener.start()
        time.sleep(3)  # both connections are in IDLE by then; nothing says so
        with closing(sqlite3.connect(f"file:{installation.mirror / 'mirror.db'}?mode=ro", uri=True)) as database:
            for number in range(count):
                listener.told_again.clear()
                began = time.perf_counter()
                writer.append("INBOX", _mail(number))
                found = _wait_until_found(database, f"new{number}@arrival.example")
                listener.told_again.wait(_WITHIN)
                said.append(max(0.0, found - listener.told))
                delivered.append(found - began)
    figures = (
        latency("searchable after the server's line", said, against=""),
        latency("searchable after delivery", delivered, against=""),
    )
    note = f"{count} messages, one after the other. Dovecot waits up to half a second before it tells of new mail."
    return Section("New mail", ("p50", "p99"), figures, note)


@contextmanager
def _writer(mailbox: Mailbox) -> Iterator[SecondClient]:
    with mailbox.dovecot.client(mailbox.login) as client:
        yield client


def _wait_until_found(database: sqlite3.Connection, message_id: str) -> float:
    deadline = time.perf_counter() + _WITHIN
    while time.perf_counter() < deadline:
        if database.execute(_FOUND, (message_id,)).fetchone() is not None:
            return time.perf_counter()
        select.select([], [], [], _LOOK_EVERY)
    raise TimeoutError(f"{message_id} was not found within {_WITHIN:.0f} s")


def _mail(number: int) -> bytes:
    return (
        f"From: Bob <bob@example.com>\r\nTo: alice@example.org\r\nSubject: News {number}\r\n"
        f"Message-ID: <new{number}@arrival.example>\r\n\r\nSomething new, number {number}.\r\n"
    ).encode("ascii")
