"""New mail: how long after the server says so it can be found, and how long after it was delivered."""

import select
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from bench.figures import Section, latency
from bench.installation import Installation, Mailbox
from tests.servers.proxy import Proxy

_LOOK_EVERY = 0.002
_WITHIN = 30.0
_FOUND = "SELECT 1 FROM content WHERE message_id = ? AND state >= 2"


class _Ears:
    """Notes when the server tells the program, on whichever connection, that INBOX has so many messages."""

    def __init__(self) -> None:
        self._awaited = 0
        self._told = threading.Event()
        self.at = 0.0

    def listen_for(self, messages: int) -> None:
        """From now on, for this number."""
        self._told.clear()
        self._awaited = messages

    def hear(self, said: bytes) -> None:
        """What the server says."""
        if b"* %d EXISTS" % self._awaited in said and not self._told.is_set():
            self.at = time.perf_counter()
            self._told.set()

    def wait(self) -> None:
        """Until the server has said it. Raises TimeoutError."""
        if not self._told.wait(_WITHIN):
            raise TimeoutError(f"the server did not say {self._awaited} EXISTS within {_WITHIN:.0f} s")


def new_mail(mailbox: Mailbox, folder: Path, count: int) -> Section:
    """p50 and p99 of so many deliveries, one after the other, while `serve` waits in IDLE."""
    ears = _Ears()
    said, delivered = [], []
    with Proxy(mailbox.dovecot.port, heard=ears.hear) as line, mailbox.dovecot.client(mailbox.login) as writer:
        installation = Installation(folder / "arrival", mailbox, imap_port=line.port)
        installation.postmirror("sync", "--json")
        messages = int(writer.imap.select("INBOX", readonly=True)[1][0] or 0)
        with (
            installation.serving(),
            closing(sqlite3.connect(f"file:{installation.mirror / 'mirror.db'}?mode=ro", uri=True)) as database,
        ):
            time.sleep(3)  # the connection is in IDLE by then; nothing says so
            for number in range(count):
                ears.listen_for(messages + number + 1)
                began = time.perf_counter()
                writer.append("INBOX", _mail(number))
                found = _wait_until_found(database, f"new{number}@arrival.example")
                ears.wait()
                said.append(found - ears.at)
                delivered.append(found - began)
    figures = (
        latency("searchable after the server's line", said, against=""),
        latency("searchable after delivery", delivered, against=""),
    )
    note = (
        f"{count} messages, one after the other. The server's line is the first one of the new message that reaches the"
        " program, on whichever connection. Dovecot waits up to half a second before it tells of new mail."
    )
    return Section("New mail", ("p50", "p99"), figures, note)


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
