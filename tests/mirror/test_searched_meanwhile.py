"""Ten searchers beside a first sync: no search finds the mirror locked, and none loses what it has found before."""

# ruff: noqa: T201 - the long run prints its figures

import multiprocessing
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from bench.maildir import write_folder
from bench.stress_mails import small
from mirror.errors import MirrorAbsent, MirrorError
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.reader import Reader
from tests.mirror.mailbox import provider_at, sync_alone
from tests.processes import until
from tests.servers.dovecot import Dovecot

SEARCHERS = 10
AT_MOST = 50
"""Hits of a page."""
QUERIES = (
    "body n1",
    "body e and not flag flagged",
    "subject ab or body ba",
    "from sender7 order by subject",
    'TEXT "sender1"',
    "NOT SEEN",
    'OR BODY "zo" SUBJECT "k"',
    "SINCE 2-Jan-2010",
)


class Searcher(threading.Thread):
    """Asks one query after the other. found: how many hits each had so far. faults: what went wrong."""

    def __init__(self, database: Path, number: int, stop: threading.Event) -> None:
        super().__init__()
        self._database = database
        self._number = number
        self._ended = stop
        self.found: dict[str, int] = {}
        self.seconds: list[float] = []
        self.faults: list[str] = []

    def run(self) -> None:
        """Search until told to stop, and then everything once more; until something is wrong."""
        with Reader(self._database, deadline=60) as reader:
            while not self._ended.is_set() and not self.faults:
                self._ask(reader, QUERIES[(len(self.seconds) + self._number) % len(QUERIES)])
            for query in QUERIES:
                self._ask(reader, query)

    def _ask(self, reader: Reader, text: str) -> None:
        query = parse_criteria(text) if text.split()[0].isupper() else parse_himalaya(text)
        began = time.perf_counter()
        try:
            [folder] = [each.id for each in reader.folders() if each.name == "INBOX"]
            hits = len(reader.page(folder, query, None, AT_MOST).messages)
        except (sqlite3.Error, MirrorError) as exc:
            self.faults.append(f"{text}: {exc!r}")
            return
        self.seconds.append(time.perf_counter() - began)
        if hits < self.found.get(text, 0):
            self.faults.append(f"{text}: {hits} hits after {self.found[text]}")
        self.found[text] = hits


def is_readable(database: Path) -> bool:
    """Whether a mirror has its folders."""
    try:
        with Reader(database) as reader:
            return bool(reader.folders())
    except MirrorAbsent:
        return False


@pytest.mark.parametrize("messages", [600, pytest.param(20_000, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_ten_searchers_beside_a_first_sync_are_answered(
    dovecot: Dovecot, user: str, password_file: Path, tmp_path: Path, messages: int
) -> None:
    write_folder(dovecot, user, "INBOX", small(messages))
    folder = tmp_path / "mirror"
    sync = multiprocessing.get_context("spawn").Process(
        target=sync_alone, args=(folder, provider_at(dovecot.port, user, password_file))
    )
    sync.start()
    stop = threading.Event()
    until(lambda: is_readable(folder / "mirror.db"))
    searchers = [Searcher(folder / "mirror.db", number, stop) for number in range(SEARCHERS)]
    for searcher in searchers:
        searcher.start()
    sync.join()
    stop.set()
    for searcher in searchers:
        searcher.join()
    taken = sorted(second for searcher in searchers for second in searcher.seconds)
    p50, p99 = (1_000 * taken[int(len(taken) * share)] for share in (0.5, 0.99))
    print(
        f"\n{messages} messages, {SEARCHERS} searchers: {len(taken)} searches, p50 {p50:.1f} ms, p99 {p99:.1f} ms",
        end="",
    )
    assert [fault for searcher in searchers for fault in searcher.faults] == []
    assert sync.exitcode == 0
    for searcher in searchers:
        assert set(searcher.found) == set(QUERIES)
        assert searcher.found == searchers[0].found
    assert searchers[0].found["SINCE 2-Jan-2010"] == AT_MOST
