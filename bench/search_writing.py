"""Searches of ten threads at once, while another process adds mail to the mirror and while none does."""

import multiprocessing
import sqlite3
import threading
import time
from contextlib import closing
from itertools import chain, count, islice
from multiprocessing.synchronize import Event
from pathlib import Path

from bench.search_asked import Asked, ask, share_of
from bench.search_kinds import kinds
from bench.search_mails import Mails, generate, insert
from mirror.database import connect, transaction
from mirror.query import words
from mirror.query.reader import Reader
from mirror.schema import SPILL_BITS

_SEARCHERS, _SECONDS = 10, 10.0


def while_writing(path: Path, mails: Mails) -> None:
    """Print what ten searchers at once wait for an answer, alone and while another process stores and indexes mail."""
    for is_writing in (False, True):
        stop = multiprocessing.Event()
        writer = multiprocessing.Process(target=_write, args=(path, mails.messages, stop))
        if is_writing:
            writer.start()
        asked: list[Asked] = []
        faults: list[str] = []
        threads = [
            threading.Thread(target=_search_on, args=(path, mails.messages, number, asked, faults))
            for number in range(_SEARCHERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        if is_writing:
            writer.join()
        taken = [each for one in asked for each in one.taken]
        print(f"ten searchers, {'mail being written' if is_writing else 'nothing written'}:", end=" ")
        print(f"{len(taken)} searches, p50 {share_of(taken, 0.5):.1f} ms, p99 {share_of(taken, 0.99):.1f} ms,", end=" ")
        print(f"faults {faults or 'none'}", flush=True)


def _search_on(path: Path, messages: int, number: int, all_asked: list[Asked], faults: list[str]) -> None:
    asked = Asked()
    chosen = [kind for kind in kinds(Mails(100 + number, messages)) if kind.goal is not None]
    end = time.monotonic() + _SECONDS
    with Reader(path) as reader:
        while time.monotonic() < end:
            kind = chosen[len(asked.taken) % len(chosen)]
            try:
                ask(reader, kind, asked, kind.make())
            except sqlite3.Error as error:
                faults.append(str(error))
                break
    all_asked.append(asked)


def _write(path: Path, messages: int, stop: Event) -> None:
    source = chain.from_iterable(generate(Mails(seed, messages)) for seed in count(7))
    with closing(connect(path)) as connection:
        (last, uid) = connection.execute("SELECT max(content), max(uid) FROM message").fetchone()
        while not stop.is_set():
            batch = list(islice(source, 50))
            ids = [(last >> SPILL_BITS << SPILL_BITS) + (number << SPILL_BITS) for number in range(1, len(batch) + 1)]
            with transaction(connection) as db:
                insert(db, ids, batch, uid + 1)
                words.index(db, ids)
            last, uid = ids[-1], uid + len(batch)
