"""Passes that are killed: a process that runs one for each line it reads, and dies at the point the line names.

    {"work": "pass", "point": 12, "mirror": "/tmp/…", "provider": {…}}

A point is a commit or a network write, counted from 1, of SQLite and imaplib themselves: nothing in the program knows
of it. Point 0 lets it live. Each line is answered with how many points there were, or with "killed". The pass runs in
a fork, so that a kill costs no start of Python, and parses without children.
"""

import imaplib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from config.identity import Provider
from mirror.content import Content, Envelope, clean_html, read_content, read_envelope
from mirror.message import read_attachments
from mirror.parsing import Crash
from mirror.store import Store
from mirror.sync import Pass
from mirror.upstream import Upstream


class InlineParsers:
    """Parses where it stands."""

    def are_healthy(self) -> bool:
        """They are."""
        return True

    def envelopes(self, blocks: Sequence[bytes]) -> list[Envelope | Crash]:
        """Each header block read."""
        return [read_envelope(block) for block in blocks]

    def contents(self, raws: Sequence[bytes]) -> list[Content | Crash]:
        """Each message read."""
        return [read_content(raw) for raw in raws]

    def html(self, forms: Sequence[str]) -> list[str | Crash]:
        """Each form sanitized."""
        return [clean_html(form) for form in forms]

    def attachments(self, raws: Sequence[bytes], largest: int) -> list[list[tuple[str, bytes]]]:
        """The small attachments of each message."""
        return [list(read_attachments(raw, largest)) for raw in raws]


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

        imaplib.IMAP4.send = counted  # type: ignore[method-assign, assignment]


def run_pass(store: Store, provider: Provider) -> None:
    """A whole pass."""
    parsers: Any = InlineParsers()
    Pass(store, provider.sync, parsers, lambda: Upstream.connect(provider), batch=8).run()
    store.sweep(before=float("inf"))


def run_writes(store: Store, provider: Provider) -> None:
    """The second message flagged, the third moved to Work, the fourth deleted, each upstream and then here."""
    rows = store._connection.execute("SELECT id FROM message ORDER BY folder, uid LIMIT 4").fetchall()
    folder = next(folder.id for folder in store.folders() if folder.name == "Work")
    places = [store.place(row[0]) for row in rows]
    with Upstream.connect(provider) as upstream:
        assert places[1] is not None
        now = upstream.store_flags(places[1], "add", ["\\Flagged"])
        store.set_flags(rows[1][0], now.flags, now.modseq)
        assert places[2] is not None
        arrived = upstream.move(places[2], b"Work")
        store.move(rows[2][0], folder, arrived.uidvalidity, arrived.uid)
        assert places[3] is not None
        upstream.remove(places[3])
        store.forget(rows[3][0])


WORK: dict[str, Callable[[Store, Provider], None]] = {"pass": run_pass, "writes": run_writes}


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
                WORK[asked["work"]](store, Provider.model_validate(asked["provider"]))
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
