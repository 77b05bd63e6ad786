"""After the weekly clean-up, nothing of a message that is gone is in any byte of the data directory."""

import hashlib
import random
import sqlite3
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest

from mirror.columns import envelope_record
from mirror.content import read_content, read_envelope
from mirror.grams import grams_of
from mirror.listing import Listed, ListedFolder
from mirror.mirrored import State
from mirror.query.reader import Reader
from mirror.recording import record_of
from mirror.store import Store

LETTERS = str.maketrans("0123456789", "ghijklmnop")


def canary(number: int) -> str:
    """A word that is in one mail only."""
    return "zq" + hashlib.sha256(str(number).encode()).hexdigest()[:20].translate(LETTERS)


def mail(number: int, seed: random.Random) -> bytes:
    """A mail with its canary wherever a canary can be, among words that others share."""
    word = canary(number)
    written = EmailMessage(policy=SMTP)
    written["From"], written["To"] = f"{word} <{word}@example.org>", "alice@example.org"
    written["Subject"], written["Message-ID"], written["X-Thing"] = f"about {word}", f"<{word}@example.org>", word
    words = " ".join(f"word{seed.randrange(2_000)}" for _ in range(seed.choice([5, 50, 500, 3_000])))
    written.set_content(f"{word} {words} {word}")
    if number % 2:
        written.add_alternative(f"<p>{word}</p><p>{words}</p>", subtype="html")
    if number % 5 == 0:
        written.add_attachment(f"{word} attached".encode(), maintype="text", subtype="plain", filename=f"{word}.txt")
    return written.as_bytes()


class Mirrored:
    """A mirror of one folder with mails of these numbers."""

    def __init__(self, folder: Path, numbers: Iterable[int], seed: int = 1) -> None:
        rng = random.Random(seed)
        self.folder = folder
        self.raws = {number: mail(number, rng) for number in numbers}
        self.store = Store(folder)
        self.store.set_folders([ListedFolder(b"INBOX", "INBOX", "/", (), "", True)])
        self.inbox = self.store.folders()[0].id
        self.store.set_uidvalidity(self.inbox, 1)
        uids = list(self.raws)
        for start in range(0, len(uids), 50):
            self._add(uids[start : start + 50])

    def _add(self, uids: list[int]) -> None:
        began = datetime(2026, 1, 1, tzinfo=UTC)
        listed = [Listed(uid, (), began + timedelta(minutes=uid), len(self.raws[uid])) for uid in uids]
        self.store.add_listed(self.inbox, listed)
        holes = self.store.holes(self.inbox, State.HEADERS, 1_000)
        self.store.set_envelopes(
            [(hole.content, envelope_record(read_envelope(self.raws[hole.uid]))) for hole in holes]
        )
        holes = self.store.holes(self.inbox, State.TEXT, 1_000)
        texts = [
            (hole.content, hashlib.sha256(self.raws[hole.uid]).digest(), record_of(read_content(self.raws[hole.uid])))
            for hole in holes
        ]
        self.store.set_texts(texts)
        for hole in holes:
            if hole.uid % 5 == 0:
                self.store.blobs.keep(hole.content, [("3", f"{canary(hole.uid)} attached".encode())])

    def expunge(self, numbers: list[int]) -> None:
        """Remove messages, a few at a time, as passes do."""
        for start in range(0, len(numbers), 7):
            self.store.remove(self.inbox, numbers[start : start + 7])
            self.store.sweep(before=time.time())

    def traces(self, numbers: Iterable[int]) -> list[int]:
        """Those of these mails that a byte of the folder still tells of, also by half of the word."""
        data = b"".join(path.read_bytes() for path in self.folder.rglob("*") if path.is_file())
        names = "".join(str(path) for path in self.folder.rglob("*")).encode()
        halves = {number: (canary(number)[:11].encode(), canary(number)[-11:].encode()) for number in numbers}
        return [number for number, each in halves.items() if any(half in data or half in names for half in each)]


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[Mirrored]:
    made = Mirrored(tmp_path / "mirror", range(1, 21))
    yield made
    made.store.close()


def test_no_byte_tells_of_a_message_that_is_gone(tmp_path: Path) -> None:
    mirrored = Mirrored(tmp_path / "mirror", range(1, 201))
    gone = random.Random(2).sample(range(1, 201), 100)
    kept = [number for number in range(1, 201) if number not in gone]
    with Reader(mirrored.folder / "mirror.db") as reader:
        reader.folders()
        mirrored.expunge(gone)
        assert mirrored.traces(gone), "there is something to clean"
        assert mirrored.store.clean_up()
        assert mirrored.traces(gone) == []
        assert mirrored.traces(kept) == kept
        assert len(reader.page(mirrored.inbox, None, None, 1_000).messages) == 100
    assert mirrored.store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    mirrored.store._connection.execute("INSERT INTO fts (fts, rank) VALUES ('integrity-check', 1)")
    mirrored.store.close()


def test_index_of_header_lines_keeps_no_piece_of_a_message_that_is_gone(mirrored: Mirrored) -> None:
    def pieces() -> set[str]:
        db = mirrored.store._connection
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.held USING fts5vocab(main, line, row)")
        return {piece for (piece,) in db.execute("SELECT term FROM temp.held")}

    gone, kept = set(grams_of(canary(7))), set().union(*(grams_of(canary(number)) for number in (*range(1, 7), 8)))
    assert gone <= pieces()
    mirrored.expunge([7, *range(9, 21)])
    assert mirrored.store.clean_up()
    assert not (gone - kept) & pieces()
    assert kept <= pieces()
    [(segments,)] = mirrored.store._connection.execute("SELECT count(DISTINCT segid) FROM line_idx")
    assert segments == 1


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_no_byte_tells_of_a_message_that_is_gone_whatever_the_order(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    numbers = rng.sample(range(1, 3_000), 800)
    made = Mirrored(tmp_path / "mirror", numbers, seed)
    gone = rng.sample(numbers, rng.choice([1, 20, 400, 799]))
    made.expunge(gone)
    assert made.store.clean_up()
    assert made.traces(gone) == []
    made.store.close()


def test_a_word_of_many_mails_is_forgotten_with_the_last_of_them(mirrored: Mirrored) -> None:
    db = mirrored.store._connection
    db.execute("UPDATE word SET documents = 5000 WHERE term = ?", (canary(7),))
    mirrored.expunge([7])
    assert db.execute("SELECT 1 FROM word WHERE term = ?", (canary(7),)).fetchone()
    assert mirrored.store.clean_up()
    assert mirrored.traces([7]) == []


def test_without_anything_gone_the_file_is_not_written_anew(mirrored: Mirrored) -> None:
    assert mirrored.store.clean_up()
    ran: list[str] = []
    mirrored.store._connection.set_trace_callback(ran.append)
    assert mirrored.store.clean_up()
    assert "VACUUM" not in ran
    mirrored.expunge([1])
    assert mirrored.store.clean_up()
    assert "VACUUM" in ran


def test_a_reader_in_the_middle_of_an_answer_puts_it_off(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored.store._connection.execute("PRAGMA busy_timeout = 50")
    mirrored.expunge([1])
    reading = sqlite3.connect(mirrored.folder / "mirror.db", isolation_level=None)
    reading.execute("BEGIN")
    reading.execute("SELECT * FROM content").fetchone()
    before = mirrored.store.cleaned_at()
    assert not mirrored.store.clean_up()
    assert mirrored.store.cleaned_at() == before
    reading.execute("COMMIT")
    reading.close()
    assert mirrored.store.clean_up()
    assert mirrored.traces([1]) == []


def test_a_full_disk_puts_it_off(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored.expunge([1])
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    assert not mirrored.store.clean_up()
    monkeypatch.undo()
    assert mirrored.store.clean_up()
    assert mirrored.traces([1]) == []


def test_it_is_due_a_week_after_the_last_one_or_when_it_is_asked_for(
    mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not mirrored.store.is_cleanup_due()
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + 8 * 86_400)
    assert mirrored.store.is_cleanup_due()
    assert mirrored.store.clean_up()
    assert not mirrored.store.is_cleanup_due()
    mirrored.store.want_cleanup()
    assert mirrored.store.is_cleanup_due()


def test_a_damaged_file_is_kept_for_a_week(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = mirrored.folder / "mirror.damaged-20260101-000000.db"
    aside.write_bytes(canary(1).encode())
    mirrored.store.forget_set_aside()
    assert aside.exists()
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + 8 * 86_400)
    mirrored.store.forget_set_aside()
    assert not aside.exists()
