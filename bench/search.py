"""How fast searches are: mails generated straight into a mirror, p50 and p99 of the first page by kind of query.

    python -m bench.search [--messages 20000] [--keep DIR] [--only NAME] [--writing] [--dovecot]

`cold`: with a new connection, and nothing of the file in the system's cache. `busy`: the goal is kept by the time of
the processor alone, so that other programs on the machine may be why it is not by the clock. --writing: ten searchers
at once while
another process adds mail. --dovecot: its SEARCH of the same mail, beside.
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.search_asked import Asked, ask, share_of
from bench.search_kinds import AT_20_000, SORTED_AT_20_000, Kind, kinds
from bench.search_mails import Mails, build
from bench.search_on_dovecot import OnDovecot
from bench.search_writing import while_writing
from mirror.database import connect
from mirror.query.reader import Reader
from mirror.schema import migrate
from tests.servers.dovecot import Dovecot

_SAMPLES, _WARMING, _COLD_SAMPLES = 400, 5, 5


def measure(path: Path, mails: Mails, seconds: float, only: str, beside: Callable[[Kind], float | None] | None) -> None:
    """Print p50 and p99 of every kind, and whether they keep the goal for so many messages."""
    chosen = [kind for kind in kinds(mails) if only in kind.name]
    warm = {kind.name: warm_searches(path, kind, seconds) for kind in chosen}
    print(f"{'kind':26} {'n':>4} {'p50 ms':>7} {'p99 ms':>7} {'CPU p50':>7} {'p99':>7} {'goal':>9}", end="      ")
    print(f"{'cold':>7} {'worst':>6}  found  in part/too slow" + ("  Dovecot" if beside else ""))
    missed = 0
    for kind in chosen:
        asked = warm[kind.name]
        wall = share_of(asked.taken, 0.5), share_of(asked.taken, 0.99)
        processor = share_of(asked.computed, 0.5), share_of(asked.computed, 0.99)
        goal = goal_at(kind, mails.messages)
        kept = "" if goal is None else "ok" if within(wall, goal) else "busy" if within(processor, goal) else "MISS"
        missed += kept == "MISS"
        cold = cold_searches(path, kind)
        print(f"{kind.name:26} {len(asked.taken):4}", *(f"{each:7.2f}" for each in (*wall, *processor)), end=" ")
        print(f"{'' if goal is None else f'{goal[0]:g}/{goal[1]:g}':>9} {kept:4}", end=" ")
        print(f"{statistics.median(cold):7.1f} {max(cold):6.0f} {asked.found / len(asked.taken):6.1f}", end="  ")
        print(f"{asked.partial}/{asked.slow}", end="")
        other = beside(kind) if beside else None
        print("" if other is None else f"  {other:.1f}", flush=True)
    print(f"{missed} kinds miss their goal")


def warm_searches(path: Path, kind: Kind, seconds: float) -> Asked:
    """Searches for as long, after a few that are not counted."""
    asked = Asked()
    with Reader(path) as reader:
        for _ in range(_WARMING):
            ask(reader, kind, Asked(), kind.make())
        end = time.perf_counter() + seconds
        while len(asked.taken) < _SAMPLES and (len(asked.taken) < 8 or time.perf_counter() < end):
            ask(reader, kind, asked, kind.make())
    return asked


def within(taken: tuple[float, float], goal: tuple[float, float]) -> bool:
    """Whether p50 and p99 keep a goal."""
    return taken[0] <= goal[0] and taken[1] <= goal[1]


def goal_at(kind: Kind, messages: int) -> tuple[float, float] | None:
    """p50 and p99 that are wanted of a kind in a mirror of so many messages; None where nothing was set."""
    if messages > 20_000:
        return kind.goal if messages >= 1_000_000 else None
    return SORTED_AT_20_000 if kind.name.startswith("sorted") else AT_20_000


def cold_searches(path: Path, kind: Kind) -> list[float]:
    """What searches take that find nothing of the file in memory."""
    asked = Asked()
    for _ in range(_COLD_SAMPLES):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with Reader(path) as reader:
            ask(reader, kind, asked, kind.make())
    return asked.taken


def sizes(path: Path) -> None:
    """Print what the file is made of."""
    with closing(sqlite3.connect(path)) as connection:
        text = connection.execute(_OCTETS).fetchone()[0]
        print(f"text {text / 1e6:.0f} MB, file {path.stat().st_size / 1e6:.0f} MB, words", end=" ")
        print(connection.execute("SELECT count(*) FROM word").fetchone()[0])
        try:
            parts = connection.execute(
                "SELECT CASE WHEN name LIKE 'fts%' THEN 'fts' WHEN name LIKE 'word_trigram%' THEN 'word_trigram'"
                " WHEN name LIKE 'line%' THEN 'line' WHEN name IN ('universal', 'lacking') THEN 'lacking'"
                " WHEN name LIKE '%word%' AND name NOT LIKE '%keyword%' THEN 'word' ELSE name END AS part, sum(pgsize)"
                " FROM dbstat GROUP BY part ORDER BY 2 DESC"
            ).fetchall()
        except sqlite3.OperationalError:
            return
        index = sum(size for part, size in parts if part in ("fts", "word", "word_trigram", "line", "lacking"))
        print(
            ", ".join(f"{part} {size / 1e6:.0f}" for part, size in parts if size > 1e6),
            f"MB; index / text {index / text:.2f}",
        )


_OCTETS = "SELECT sum(length(CAST(text AS BLOB))) FROM body"


def main() -> None:
    """Generate, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1.0, help="at most this long per kind")
    parser.add_argument(
        "--keep", type=Path, help="a folder to build in and to leave there; used again when it has a mirror"
    )
    parser.add_argument("--only", default="", help="measure the kinds whose name has this")
    parser.add_argument("--writing", action="store_true", help="also measure while mail is written; changes the mirror")
    parser.add_argument("--dovecot", action="store_true", help="also time Dovecot's SEARCH")
    arguments = parser.parse_args()
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="postmirror-search-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mirror.db"
    try:
        if not path.exists():
            built = build(path, Mails(1, arguments.messages))
            print(f"{arguments.messages} messages: generated in {built.generating:.1f} s, stored in", end=" ")
            print(f"{built.storing:.1f} s, indexed in {built.indexing:.1f} s", end=" ")
            print(
                f"({arguments.messages / built.indexing:.0f}/s; {built.computing:.1f} s of processor time)", flush=True
            )
        with closing(connect(path)) as connection:
            migrate(connection)
        sizes(path)
        mails = Mails(2, arguments.messages)
        if arguments.dovecot:
            with Dovecot(tls=False) as dovecot:
                measure(path, mails, arguments.seconds, arguments.only, OnDovecot(dovecot, arguments.messages).median)
        else:
            measure(path, mails, arguments.seconds, arguments.only, None)
        if arguments.writing:
            while_writing(path, mails)
    finally:
        if arguments.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
