"""How fast searches are: mails generated straight into a mirror, p50 and p99 of the first page by kind of query.

    python -m bench.search [--messages 20000] [--keep DIR] [--pages 1]

The vocabulary grows as real mail's does: words are drawn by Zipf's law from a list without an end, every message has
unique words of its own, and one in twenty is Chinese.
"""

import argparse
import json
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from mirror import schema
from mirror.errors import QueryTooSlow
from mirror.fold import fold, fold_keeping_separators, people
from mirror.query import words
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.reader import Reader
from mirror.query.tree import Query

INBOX, HALF, SMALL, TINY = 1, 2, 3, 4
_FIRST = 1_262_304_000
_SYLLABLES = [
    a + b
    for a in ["b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "pl"]
    for b in ["a", "e", "i", "o", "u", "ai", "ou", "er", "in", "on"]
]
_FLAGS = (("\\Seen", 0.9), ("\\Flagged", 0.01), ("\\Answered", 0.2))
_CHINESE = [chr(0x4E00 + index) for index in range(2_500)]


class Mails:
    """An endless vocabulary and the mails made of it, the same for the same seed."""

    def __init__(self, seed: int, messages: int) -> None:
        self.rng = random.Random(seed)
        self.messages = messages
        self.senders = max(50, int(40 * messages**0.5))

    def rank(self, most: float) -> int:
        """A rank by Zipf's law; the exponent gives the growth of vocabulary that mail has."""
        return int((1 - self.rng.random() * (1 - most**-0.3)) ** (-1 / 0.3))

    def word(self, rank: int) -> str:
        """The word of that rank: the rarer, the longer."""
        spelled = []
        rank += 30
        while rank:
            rank, syllable = divmod(rank, len(_SYLLABLES))
            spelled.append(_SYLLABLES[syllable])
        return "".join(spelled)

    def words(self, count: int) -> str:
        """Running text."""
        return " ".join(self.word(self.rank(50_000_000)) for _ in range(count))

    def chinese(self, count: int) -> str:
        """Running text without blanks."""
        return "".join(_CHINESE[self.rank(2_500) - 1] for _ in range(count))

    def sender(self) -> tuple[str, str]:
        """Name and address of one of the correspondents."""
        number = self.rank(self.senders)
        name = self.word(number * 7 + 100)
        return name.title(), f"{name}{number}@{self.word(number % 500 + 40)}.example"


def rows(mails: Mails) -> Iterator[tuple[tuple[object, ...], tuple[object, ...], tuple[object, ...]]]:
    """Rows of content, body and message, oldest first."""
    rng = mails.rng
    step = 400_000_000 / mails.messages
    last = 0
    for number in range(mails.messages):
        moment = int(_FIRST + number * step + rng.random() * step)
        content = max(last + 1, (moment - 946_684_800) // 60 << schema.SPILL_BITS)
        last = content
        name, address = mails.sender()
        if rng.random() < 0.05:
            subject, text = mails.chinese(8), mails.chinese(300)
        else:
            unique = f"{number:x}q{rng.getrandbits(40):x}\nid {rng.getrandbits(48):012x}"
            subject, text = mails.words(5), f"{mails.words(rng.randint(40, 220))} {unique}\n"
        to = [["Me", "me@example.org"]] if rng.random() < 0.9 else [list(mails.sender())]
        chosen = rng.random()
        folder = TINY if chosen < 0.0003 else SMALL if chosen < 0.01 else HALF if chosen < 0.5 else INBOX
        flags = sorted(flag for flag, share in _FLAGS if rng.random() < share)
        key = fold_keeping_separators(subject).encode()[:64].decode("utf-8", "ignore")
        yield (
            (
                content, 2, moment, 0, 2_000 + len(text), subject, moment - rng.randint(0, 120), 0, moment // 86_400,
                key, fold(name), fold(str(to[0][0])), json.dumps([[name, address]]), json.dumps(to), text[:200],
            ),
            (content, text, "[]"),
            (folder, content, number + 1, json.dumps(flags)),
        )  # fmt: skip


def build(path: Path, mails: Mails) -> tuple[float, float, float]:
    """Write the mirror. Seconds spent storing, and indexing; and the processor's seconds of the latter."""
    storing = indexing = computing = 0.0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.create_function("fold", 1, fold, deterministic=True)
        connection.create_function("people", 1, people, deterministic=True)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")
        schema.migrate(connection)
        connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 1, 1)")
        for name in ("INBOX", "Half", "Small", "Tiny"):
            connection.execute("INSERT INTO folder (raw, name, enumerated) VALUES (?, ?, 1)", (name.encode(), name))
        source = rows(mails)
        while batch := [row for _, row in zip(range(250), source, strict=False)]:
            started = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_CONTENT, (row[0] for row in batch))
            connection.executemany(
                "INSERT INTO body (content, text, headers) VALUES (?, ?, ?)", (row[1] for row in batch)
            )
            connection.executemany(
                "INSERT INTO message (folder, content, uid, generation, flags) VALUES (?, ?, ?, 0, ?)",
                (row[2] for row in batch),
            )
            stored, computed = time.perf_counter(), time.process_time()
            words.index(connection, [int(str(row[1][0])) for row in batch])
            connection.execute("COMMIT")
            storing += stored - started
            indexing += time.perf_counter() - stored
            computing += time.process_time() - computed
        for table in ("fts", "word_trigram"):
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return storing, indexing, computing


_CONTENT = """
    INSERT INTO content (id, state, internaldate, internaldate_zone, size, subject, sent, sent_zone, sent_day,
        subject_key, from_key, to_key, sender, recipient, preview)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """


def kinds(mails: Mails) -> dict[str, tuple[int, Callable[[], Query]]]:
    """A folder and a maker of queries by kind."""
    rng = mails.rng

    def himalaya(make: Callable[[], str]) -> Callable[[], Query]:
        return lambda: parse_himalaya(make())

    def common() -> str:
        return mails.word(mails.rank(200))

    def rare() -> str:
        return mails.word(rng.randint(20_000, 1_000_000))

    def any_word() -> str:
        return mails.word(mails.rank(50_000_000))

    def inside(length: int) -> str:
        word = mails.word(rng.randint(3_000, 300_000))
        start = rng.randint(0, max(0, len(word) - length))
        return word[start : start + length]

    def day() -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(_FIRST + rng.randint(0, 400_000_000)))

    def imap_day() -> str:
        return time.strftime("%d-%b-%Y", time.gmtime(_FIRST + rng.randint(0, 400_000_000)))

    digits = "0123456789abcdef"
    return {
        "everything": (INBOX, lambda: Query()),
        "rare word": (INBOX, himalaya(lambda: f"body {rare()}")),
        "any word": (INBOX, himalaya(lambda: f"body {any_word()}")),
        "common word": (INBOX, himalaya(lambda: f"body {common()}")),
        "two words": (INBOX, himalaya(lambda: f"body {any_word()} and body {common()}")),
        "subject or body": (INBOX, himalaya(lambda: f"subject {any_word()} or body {any_word()}")),
        "or of ten": (INBOX, himalaya(lambda: " or ".join(f"body {any_word()}" for _ in range(10)))),
        "not": (INBOX, himalaya(lambda: f"body {common()} and not body {common()}")),
        "phrase": (INBOX, himalaya(lambda: f'body "{common()} {any_word()}"')),
        "phrase of common words": (INBOX, himalaya(lambda: f'body "{common()} {common()}"')),
        "inside a word, 6": (INBOX, himalaya(lambda: f"body {inside(6)}")),
        "inside a word, 4": (INBOX, himalaya(lambda: f"body {inside(4)}")),
        "inside a word, 3": (INBOX, himalaya(lambda: f"body {inside(3)}")),
        "three rare signs": (INBOX, himalaya(lambda: f"body {rng.choice(digits)}q{rng.choice(digits)}")),
        "two letters": (INBOX, himalaya(lambda: f"body {inside(2)}")),
        "two rare signs": (INBOX, himalaya(lambda: f"body q{rng.choice('jxyz')}")),
        "chinese, 1": (INBOX, himalaya(lambda: f"body {mails.chinese(1)}")),
        "chinese, 2": (INBOX, himalaya(lambda: f"body {mails.chinese(2)}")),
        "sender": (INBOX, himalaya(lambda: f"from {mails.sender()[0]}")),
        "address": (INBOX, himalaya(lambda: f"from {mails.sender()[1]}")),
        "date": (INBOX, himalaya(lambda: f"date {day()}")),
        "before": (INBOX, himalaya(lambda: f"before {day()}")),
        "range of dates": (INBOX, himalaya(lambda: f"after {day()} and before {day()}")),
        "received before": (INBOX, lambda: parse_criteria(f"BEFORE {imap_day()}")),
        "received on": (INBOX, lambda: parse_criteria(f"ON {imap_day()}")),
        "word and date": (INBOX, himalaya(lambda: f"body {common()} and before {day()}")),
        "flag, 1 %": (INBOX, himalaya(lambda: "flag flagged")),
        "unseen": (INBOX, himalaya(lambda: "not flag seen")),
        "flag nobody has": (INBOX, himalaya(lambda: "flag draft")),
        "folder 50 %, common": (HALF, himalaya(lambda: f"body {common()}")),
        "folder 1 %, common": (SMALL, himalaya(lambda: f"body {common()}")),
        "folder 1 %, any": (SMALL, himalaya(lambda: f"body {any_word()}")),
        "tiny folder, common": (TINY, himalaya(lambda: f"body {common()}")),
        "sorted by subject, any": (INBOX, himalaya(lambda: f"body {any_word()} order by subject")),
        "sorted by subject, common": (INBOX, himalaya(lambda: f"body {common()} order by subject")),
        "sorted by subject, all": (INBOX, himalaya(lambda: "order by subject")),
        "sorted by date desc": (INBOX, himalaya(lambda: f"body {common()} order by date desc")),
        "sorted by from": (INBOX, himalaya(lambda: f"body {common()} order by from desc")),
        "sorted by to": (INBOX, himalaya(lambda: f"body {common()} order by to subject")),
        "text, common": (INBOX, lambda: parse_criteria(f"TEXT {common()}")),
        "text, rare": (INBOX, lambda: parse_criteria(f"TEXT {rare()}")),
    }


def measure(path: Path, mails: Mails, seconds: float, only: str) -> None:
    """Print p50 and p99 of every kind, first page of 20."""
    print(f"{'kind':28} {'n':>5} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}  found  in part / too slow")
    with Reader(path) as reader:
        for name, (folder, make) in kinds(mails).items():
            if only not in name:
                continue
            taken: list[float] = []
            found = partial = slow = 0
            end = time.perf_counter() + seconds
            while len(taken) < 400 and (len(taken) < 8 or time.perf_counter() < end):
                query = make()
                started = time.perf_counter()
                try:
                    page = reader.page(folder, query, None, 20)
                    found += len(page.messages)
                    partial += page.searched_back_to is not None
                except QueryTooSlow:
                    slow += 1
                taken.append(time.perf_counter() - started)
            taken.sort()
            p50, p99 = (1000 * taken[min(len(taken) - 1, int(len(taken) * share))] for share in (0.5, 0.99))
            print(f"{name:28} {len(taken):5} {p50:8.2f} {p99:8.2f} {1000 * taken[-1]:8.2f}", end=" ")
            print(f"{found / len(taken):6.1f}  {partial} / {slow}", flush=True)


def sizes(path: Path) -> None:
    """Print what the file is made of."""
    with closing(sqlite3.connect(path)) as connection:
        text = connection.execute("SELECT sum(length(CAST(text AS BLOB))) FROM body").fetchone()[0]
        print(f"text {text / 1e6:.0f} MB, file {path.stat().st_size / 1e6:.0f} MB, words", end=" ")
        print(connection.execute("SELECT count(*) FROM word").fetchone()[0])
        try:
            parts = connection.execute(
                "SELECT CASE WHEN name LIKE 'fts%' THEN 'fts' WHEN name LIKE 'word_trigram%' THEN 'word_trigram'"
                " WHEN name LIKE '%word%' THEN 'word' ELSE name END AS part, sum(pgsize) FROM dbstat"
                " GROUP BY part ORDER BY 2 DESC"
            ).fetchall()
        except sqlite3.OperationalError:
            return
        index = sum(size for part, size in parts if part in ("fts", "word", "word_trigram"))
        print(
            ", ".join(f"{part} {size / 1e6:.0f}" for part, size in parts if size > 1e6),
            f"MB; index / text {index / text:.2f}",
        )


def main() -> None:
    """Generate, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1.0, help="at most this long per kind")
    parser.add_argument(
        "--keep", type=Path, help="a folder to build in and to leave there; used again when it has a mirror"
    )
    parser.add_argument("--only", default="", help="measure the kinds whose name has this")
    arguments = parser.parse_args()
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="postmirror-search-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mirror.db"
    try:
        if not path.exists():
            storing, indexing, computing = build(path, Mails(1, arguments.messages))
            print(f"{arguments.messages} messages: stored in {storing:.1f} s, indexed in {indexing:.1f} s", end=" ")
            print(f"({arguments.messages / indexing:.0f}/s; {computing:.1f} s of processor time)")
        sizes(path)
        measure(path, Mails(2, arguments.messages), arguments.seconds, arguments.only)
    finally:
        if arguments.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
