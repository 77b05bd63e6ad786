"""Work that is killed: a process that does some for each line it reads, and dies at the point the line names.

    {"work": "pass", "point": 12, "mirror": "/tmp/…", "provider": {…}, "prefix": "", "delimiter": "/"}

A point is a commit or a network write, counted from 1, of SQLite and imaplib themselves: nothing in the program knows
of it. Point 0 lets it live. Each line is answered with how many points there were, or with "killed". It works in a
fork, so that a kill costs no start of Python, and parses without children.
"""

import imaplib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from config.provider import Provider
from mirror.columns import envelope_record
from mirror.content import read_envelope, read_with_kept
from mirror.parsing import Crash
from mirror.record import EnvelopeRecord, Record
from mirror.recording import record_of
from mirror.sanitize import sanitized
from mirror.spool import Raw, octets_of
from mirror.store import Store
from mirror.sync import Pass
from mirror.upstream import Upstream
from tests.mirror.scenario import WRITES, Account


class InlineParsers:
    """Parses where it stands."""

    def get_ready(self) -> None:
        """Nothing is to be started."""

    def are_healthy(self) -> bool:
        """They are."""
        return True

    def envelopes(self, blocks: Sequence[bytes]) -> list[EnvelopeRecord | Crash]:
        """Each header block read."""
        return [envelope_record(read_envelope(block)) for block in blocks]

    def envelopes_later(self, blocks: Sequence[bytes]) -> Callable[[], list[EnvelopeRecord | Crash]]:
        """Each header block read, now."""
        envelopes = self.envelopes(blocks)
        return lambda: envelopes

    def contents(self, raws: Sequence[Raw], largest: int = 0) -> list[Record | Crash]:
        """Each message read."""
        return [record_of(*read_with_kept(octets_of(raw), largest)) for raw in raws]

    def contents_later(self, raws: Sequence[Raw], largest: int = 0) -> Callable[[], list[Record | Crash]]:
        """Each message read, now."""
        records = self.contents(raws, largest)
        return lambda: records

    def html_later(self, forms: Sequence[bytes]) -> Callable[[], list[bytes | None]]:
        """Each form sanitized."""
        return lambda: [sanitized(form) for form in forms]


class Points:
    """Counts commits and network writes; kills this process ahead of one of them."""

    def __init__(self, fatal: int) -> None:
        self.count = 0
        self._fatal = fatal

    def reached(self) -> None:
        """One more."""
        self.count += 1
        if self.count == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, store: Store) -> None:
        """Count those of this store and of every IMAP connection."""
        connection = store._connection

        def executed(statement: str) -> None:
            word = statement.split(None, 1)[0].upper() if statement.strip() else ""
            if word == "COMMIT" or (word in ("INSERT", "UPDATE", "DELETE") and not connection.in_transaction):
                self.reached()

        connection.set_trace_callback(executed)
        send = imaplib.IMAP4.send

        def counted(imap: imaplib.IMAP4, data: bytes) -> None:
            self.reached()
            send(imap, data)

        imaplib.IMAP4.send = counted  # type: ignore[method-assign, assignment]  # counts what is sent


def run_pass(store: Store, provider: Provider, name: Callable[..., str]) -> None:
    """A whole pass."""
    parsers: Any = InlineParsers()
    Pass(store, provider.sync, parsers, lambda: Upstream.connect(provider), batch=8).run()
    store.sweep(before=float("inf"))


def run_writes(store: Store, provider: Provider, name: Callable[..., str]) -> None:
    """Everything that we do ourselves, each upstream and then here."""
    with Upstream.connect(provider) as upstream:
        for write in WRITES:
            write(store, upstream, name)


WORK: dict[str, Callable[[Store, Provider, Callable[..., str]], None]] = {"pass": run_pass, "writes": run_writes}


class Runner:
    """That process, seen from a test."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mirror.interrupted"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, mirror: Path, account: Account, point: int = 0, work: str = "pass") -> str:
        """The answer to one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        provider = account.provider.model_dump(mode="json", exclude={"sync"})
        names = {"prefix": account.server.prefix, "delimiter": account.server.delimiter}
        asked = {"work": work, "point": point, "mirror": str(mirror), "provider": provider} | names
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


def _naming(asked: dict[str, str]) -> Callable[..., str]:
    return lambda *levels: asked["prefix"] + asked["delimiter"].join(levels)


def main() -> None:
    """Answer lines until there are no more."""
    for text in sys.stdin:
        asked = json.loads(text)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            points = Points(asked["point"])
            with Store(Path(asked["mirror"])) as store:
                points.watch(store)
                WORK[asked["work"]](store, Provider.model_validate(asked["provider"]), _naming(asked))
            os.write(writing, str(points.count).encode())
            os._exit(0)
        os.close(writing)
        status = os.waitpid(child, 0)[1]
        told = os.read(reading, 100).decode()
        os.close(reading)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print("killed" if killed else told or "failed", flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
