"""Reads while a first sync runs: one client in a closed loop of searches and reads, idle first and then beside it."""

import time
from pathlib import Path
from typing import Any

from bench.clients import LeanClient, tool_call
from bench.figures import Figure, Section, latency
from bench.installation import Installation, Mailbox
from mirror.errors import MirrorAbsent
from mirror.query.reader import Reader

_WORDS = ("invoice", "meeting", "order", "offer", "report", "travel", "contract", "build")
_IDLE_CALLS = 10_000
"""At most so many: as many as beside the sync, so that what else the machine does meets both alike."""
_FIRST = 100
_LONGEST = 3_600.0


class _Loop:
    """One client that searches and lists in turn."""

    def __init__(self, client: LeanClient, port: int, secret: str) -> None:
        self._client = client
        self._port = port
        self._secret = secret
        self._count = 0
        self.taken: list[float] = []

    def once(self) -> None:
        """Ask once more."""
        word = _WORDS[self._count % len(_WORDS)]
        asked: tuple[str, dict[str, Any]] = (
            ("list_messages", {"folder": "INBOX"})
            if self._count % 2
            else ("search_messages", {"folder": "INBOX", "query": f"subject {word}"})
        )
        self._count += 1
        request = tool_call(self._port, "/mcp", self._secret, *asked)
        began = time.perf_counter()
        answer = self._client.send(request)
        self.taken.append(time.perf_counter() - began)
        if b"database is locked" in answer:
            raise RuntimeError("a read found the database locked")


def reads_beside_first_sync(mailbox: Mailbox, folder: Path) -> Section:
    """p50 and p99 beside the sync and idle afterwards, on the same mirror, and how long the WAL grew."""
    installation = Installation(folder / "contended", mailbox)
    secret = installation.token("open")
    wal = installation.mirror / "mirror.db-wal"
    longest = 0
    with installation.serving() as served, LeanClient(served.port) as client:
        began = time.monotonic()
        _wait_for(installation, _FIRST)
        beside = _Loop(client, served.port, secret)
        while _missing(installation, mailbox) > 0:
            for _ in range(20):
                beside.once()
            longest = max(longest, wal.stat().st_size if wal.exists() else 0)
        seconds = time.monotonic() - began
        time.sleep(2)  # the last merges
        idle = _Loop(client, served.port, secret)
        for _ in range(min(len(beside.taken), _IDLE_CALLS)):
            idle.once()
    figures = [
        latency("idle", idle.taken, key="idle reads", against=""),
        latency("while the first sync runs", beside.taken, against="idle reads"),
        Figure("p99 / p99 idle", _p99(beside.taken) / _p99(idle.taken), "x"),
        Figure("calls in that time", len(beside.taken), ""),
        Figure("the sync, until all is searchable", seconds, "s"),
        Figure("WAL, longest", longest / 1e6, "MB"),
    ]
    return Section("Reads beside a first sync", ("p50", "p99"), figures)


def _p99(taken: list[float]) -> float:
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * 0.99))]


def _mirrored(installation: Installation) -> int:
    try:
        with Reader(installation.mirror / "mirror.db") as reader:
            return sum(folder.messages - folder.pending for folder in reader.folders())
    except MirrorAbsent:
        return 0


def _missing(installation: Installation, mailbox: Mailbox) -> int:
    return mailbox.messages - _mirrored(installation)


def _wait_for(installation: Installation, messages: int) -> None:
    deadline = time.monotonic() + _LONGEST
    while _mirrored(installation) < messages:
        if time.monotonic() > deadline:
            raise TimeoutError("the first sync did not begin")
        time.sleep(0.1)
