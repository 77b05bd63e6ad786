"""Mails generated straight into a mirror, for the table of searches.

The vocabulary grows as real mail's does: words are drawn by Zipf's law from a list without an end, every message has
unique words of its own, the lengths of texts have a long tail, and one text in twenty is Chinese.
"""

import json
import math
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from mirror.database import connect
from mirror.fold import FOLD_VERSION, fold, fold_keeping_separators
from mirror.query import fresh_words, lacking, merging, words
from mirror.query.vocabulary import Vocabulary
from mirror.schema import SPILL_BITS, migrate
from mirror.terms import Terms, terms_of

INBOX, HALF, SMALL, TINY = 1, 2, 3, 4
FOLDERS = ("INBOX", "Half", "Small", "Tiny")
FIRST = 1_262_304_000
SPAN = 400_000_000
"""Seconds: the date of the first mail since 1970, and of the last since then."""
_SYLLABLES = [
    a + b
    for a in ["b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "pl"]
    for b in ["a", "e", "i", "o", "u", "ai", "ou", "er", "in", "on"]
]
_CHINESE = [chr(0x4E00 + index) for index in range(2_500)]
_FLAGS = (("\\Seen", 0.9), ("\\Flagged", 0.01), ("\\Answered", 0.2), ("$Forwarded", 0.02), ("receipt", 0.0005))
_VOCABULARY = 50_000_000
_REMEMBERED = 500_000
_AT_ONCE = 500
"""Mails of one transaction: about as many as a first sync's, which ends after store_contents.WRITE_SECONDS."""
_MEDIAN_WORDS, _SPREAD, _MOST_WORDS = 110, 0.95, 4_000


class Mails:
    """An endless vocabulary and the mails made of it, the same for the same seed."""

    def __init__(self, seed: int, messages: int) -> None:
        self.rng = random.Random(seed)
        self.messages = messages
        self.senders = max(50, int(40 * messages**0.5))
        self._known: dict[int, str] = {}

    def rank(self, most: float) -> int:
        """A rank by Zipf's law; the exponent gives the growth of vocabulary that mail has."""
        return int((1 - self.rng.random() * (1 - most**-0.3)) ** (-1 / 0.3))

    def word(self, rank: int) -> str:
        """The word of that rank: the rarer, the longer."""
        known = self._known.get(rank)
        if known is not None:
            return known
        rest = rank + 30
        spelled = []
        while rest:
            rest, syllable = divmod(rest, len(_SYLLABLES))
            spelled.append(_SYLLABLES[syllable])
        word = "".join(spelled)
        if rank < _REMEMBERED:
            self._known[rank] = word
        return word

    def words(self, count: int) -> str:
        """Running text."""
        chance, share, power = self.rng.random, 1 - _VOCABULARY**-0.3, -1 / 0.3
        return " ".join([self.word(int((1 - chance() * share) ** power)) for _ in range(count)])

    def chinese(self, count: int) -> str:
        """Running text without blanks."""
        return "".join(_CHINESE[self.rank(2_500) - 1] for _ in range(count))

    def sender(self) -> tuple[str, str]:
        """Name and address of one of the correspondents."""
        number = self.rank(self.senders)
        name = self.word(number * 7 + 100)
        return name.title(), f"{name}{number}@{self.word(number % 500 + 40)}.example"


@dataclass(frozen=True, slots=True)
class Generated:
    """One mail."""

    moment: int
    sent: int
    sender: tuple[str, str]
    recipient: tuple[str, str]
    subject: str
    text: str
    headers: list[tuple[str, str]]
    folder: int
    flags: list[str]


def generate(mails: Mails) -> Iterator[Generated]:
    """The mails, oldest first."""
    rng = mails.rng
    step = SPAN / mails.messages
    for number in range(mails.messages):
        moment = int(FIRST + number * step + rng.random() * step)
        sender = mails.sender()
        if rng.random() < 0.05:
            subject, text = mails.chinese(8), mails.chinese(300)
        else:
            length = min(_MOST_WORDS, max(5, int(math.exp(rng.gauss(math.log(_MEDIAN_WORDS), _SPREAD)))))
            unique = f"{number:x}q{rng.getrandbits(40):x}\nid {rng.getrandbits(48):012x}"
            subject, text = mails.words(5), f"{mails.words(length)} {unique}\n"
        to = ("Me", "me@example.org") if rng.random() < 0.9 else mails.sender()
        chosen = rng.random()
        sent = moment - rng.randint(0, 120)
        host = sender[1].partition("@")[2]
        yield Generated(
            moment=moment,
            sent=sent,
            sender=sender,
            recipient=to,
            subject=subject,
            text=text,
            headers=[
                ("Received", f"from mail.{host} by mx.example.org with ESMTPS id {rng.getrandbits(60):x}"),
                ("From", f"{sender[0]} <{sender[1]}>"),
                ("To", f"{to[0]} <{to[1]}>"),
                ("Subject", subject),
                ("Date", f"{datetime.fromtimestamp(sent, UTC):%a, %d %b %Y %H:%M:%S} +0000"),
                ("Message-ID", f"<{rng.getrandbits(64):x}@{host}>"),
                ("MIME-Version", "1.0"),
                ("Content-Type", "text/plain; charset=utf-8"),
            ],
            folder=TINY if chosen < 0.0003 else SMALL if chosen < 0.01 else HALF if chosen < 0.5 else INBOX,
            flags=sorted(flag for flag, share in _FLAGS if rng.random() < share),
        )


@dataclass(frozen=True, slots=True)
class Built:
    """Seconds that were spent generating, storing and indexing; and the processor's seconds of the latter."""

    generating: float
    storing: float
    indexing: float
    computing: float


def build(path: Path, mails: Mails) -> Built:
    """Write the mirror, in transactions as a first sync's, merged afterwards."""
    generating = storing = indexing = computing = 0.0
    with closing(connect(path)) as connection:
        migrate(connection)
        connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 1, ?)", (FOLD_VERSION,))
        for name in FOLDERS:
            connection.execute("INSERT INTO folder (raw, name, enumerated) VALUES (?, ?, 1)", (name.encode(), name))
        merging.put_off(connection)
        vocabulary, between = Vocabulary(), merging.Between()
        source, last, uid = generate(mails), 0, 1
        while True:
            began = time.perf_counter()
            batch = list(islice(source, _AT_ONCE))
            if not batch:
                break
            generated = time.perf_counter()
            ids: list[int] = []
            for mail in batch:
                last = max(last + 1, (mail.moment - 946_684_800) // 60 << SPILL_BITS)
                ids.append(last)
            connection.execute("BEGIN IMMEDIATE")
            insert(connection, ids, batch, uid)
            uid += len(batch)
            stored, computed = time.perf_counter(), time.process_time()
            terms = [(content, _terms(mail)) for content, mail in zip(ids, batch, strict=True)]
            words.add(connection, terms, vocabulary, is_backlog=True)
            if between.is_due():
                between.step(connection)
            connection.execute("COMMIT")
            if fresh_words.are_many(connection):
                connection.execute("BEGIN IMMEDIATE")
                for _ in fresh_words.take_in(connection):
                    connection.execute("COMMIT")
                    connection.execute("BEGIN IMMEDIATE")
                connection.execute("COMMIT")
            generating += generated - began
            storing += stored - generated
            indexing += time.perf_counter() - stored
            computing += time.process_time() - computed
        stored, computed = time.perf_counter(), time.process_time()
        connection.execute("BEGIN IMMEDIATE")
        for _ in merging.steps(connection):
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
        while lacking.fill(connection):
            pass
        connection.execute("COMMIT")
        indexing += time.perf_counter() - stored
        computing += time.process_time() - computed
        connection.execute(
            "UPDATE folder SET upstream_messages = (SELECT count(*) FROM message WHERE message.folder = folder.id)"
        )
        for table in ("fts", "word_trigram", "line"):
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Built(generating, storing, indexing, computing)


def _terms(mail: Generated) -> Terms:
    sender, recipient = (f"{name} <{address}>" for name, address in (mail.sender, mail.recipient))
    return terms_of(mail.text, mail.subject, (sender, recipient, "", ""), mail.headers)


def insert(connection: sqlite3.Connection, ids: list[int], batch: list[Generated], uid: int) -> None:
    """Rows of mails that are not indexed yet; uid: of the first."""
    pairs = list(zip(ids, batch, strict=True))
    connection.executemany(
        _CONTENT,
        [
            (
                content, mail.moment, 2_000 + len(mail.text), mail.subject, mail.sent, mail.sent // 86_400,
                fold_keeping_separators(mail.subject).encode()[:64].decode("utf-8", "ignore"), fold(mail.sender[0]),
                fold(mail.recipient[0]), json.dumps([mail.sender]), json.dumps([mail.recipient]), mail.text[:200],
            )
            for content, mail in pairs
        ],
    )  # fmt: skip
    connection.executemany(
        "INSERT INTO body (content, text, headers) VALUES (?, ?, ?)",
        [(content, mail.text, json.dumps(mail.headers, ensure_ascii=False)) for content, mail in pairs],
    )
    connection.executemany(
        "INSERT INTO message (folder, content, uid, generation, flags, state) VALUES (?, ?, ?, 0, ?, 2)",
        [(mail.folder, content, number, json.dumps(mail.flags)) for number, (content, mail) in enumerate(pairs, uid)],
    )


def raw(mail: Generated) -> bytes:
    """The mail as a server has it."""
    lines = "".join(f"{name}: {_encoded(value)}\r\n" for name, value in mail.headers)
    return (lines + "Content-Transfer-Encoding: 8bit\r\n\r\n" + mail.text.replace("\n", "\r\n")).encode()


def _encoded(value: str) -> str:
    return value if value.isascii() else f"=?utf-8?Q?{''.join(f'={octet:02X}' for octet in value.encode())}?="


_CONTENT = """
    INSERT INTO content (id, state, internaldate, internaldate_zone, size, subject, sent, sent_zone, sent_day,
        subject_key, from_key, to_key, sender, recipient, preview)
    VALUES (?, 2, ?, 0, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)
    """
