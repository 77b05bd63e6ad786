import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror.query import fresh_words, word_table, words
from tests.mirror.query.mailbox import Mail, add, build, connect

VOCABULARY = ("alpha", "beta", "gamma", "delta", "会议", "ab", "x" * 600, "Straße", "5€", "eps-ilon", "zeta_eta")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    build(tmp_path / "mirror.db", [])
    with closing(connect(tmp_path / "mirror.db")) as connection:
        yield connection


def mails(count: int) -> Iterator[Mail]:
    rng = random.Random(1)
    for index in range(count):
        yield Mail(
            " ".join(rng.choices(VOCABULARY, k=2)),
            " ".join(rng.choices(VOCABULARY, k=9)) + f" unique{index}",
            [(rng.choice(VOCABULARY[:5]), "someone@example.org")],
            cc=[("", "copy@example.org")],
            received=datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=index),
        )


def table(connection: sqlite3.Connection) -> set[str]:
    return {term for (term,) in connection.execute("SELECT term FROM word")}


def vocabulary(connection: sqlite3.Connection) -> set[str]:
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, fts, row)")
    return {term for (term,) in connection.execute("SELECT term FROM temp.vocabulary")}


def check(connection: sqlite3.Connection) -> None:
    assert table(connection) == vocabulary(connection)
    for name in ("fts", "word_trigram"):
        connection.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")


def test_word_table_has_every_word_of_the_index(writer: sqlite3.Connection) -> None:
    add(writer, mails(300), batch=70)
    check(writer)
    assert "unique7" in table(writer)


def test_documents_of_a_word_are_estimated(writer: sqlite3.Connection) -> None:
    add(writer, mails(4_000), batch=20)
    counted = dict(writer.execute("SELECT term, documents FROM word WHERE term IN ('alpha', 'zeta', 'unique8')"))
    assert 1_000 < counted["alpha"] < 9_000
    assert 1_000 < counted["zeta"] < 9_000
    assert counted["unique8"] <= 1 + word_table.SAMPLE


def test_word_table_counts_subjects_and_people(writer: sqlite3.Connection) -> None:
    both = [Mail("alpha", "beta", [("gamma", "g@x.org")]), Mail("gamma", "alpha alpha", [("gamma", "g@x.org")])]
    ids = add(writer, both)
    counts = {row[0]: row[1:] for row in writer.execute("SELECT term, subjects, people FROM word")}
    assert (counts["alpha"], counts["beta"], counts["gamma"]) == ((1, 0), (0, 0), (1, 2))
    words.unindex(writer, ids[:1])
    counts = {row[0]: row[1:] for row in writer.execute("SELECT term, subjects, people FROM word")}
    assert (counts["alpha"], counts["gamma"]) == ((0, 0), (1, 1))
    assert "beta" not in counts


def test_words_of_a_backlog_are_taken_in_when_it_is_done(writer: sqlite3.Connection) -> None:
    everything = list(mails(300))
    add(writer, everything[:100], batch=70)
    ids = add(writer, everything[100:], batch=70, is_backlog=True)
    assert "unique200" not in table(writer)
    writer.execute("BEGIN IMMEDIATE")
    list(fresh_words.take_in(writer))
    writer.execute("COMMIT")
    check(writer)
    counts = set(writer.execute("SELECT term, subjects, people FROM word"))
    words.unindex(writer, ids)
    words.index(writer, ids)
    assert set(writer.execute("SELECT term, subjects, people FROM word")) == counts


def test_words_of_a_backlog_that_go_before_they_are_taken_in_leave_nothing_behind(writer: sqlite3.Connection) -> None:
    ids = add(writer, mails(200), batch=50, is_backlog=True)
    steps = fresh_words.take_in(writer)
    next(steps)
    words.unindex(writer, ids[:150])
    assert "unique149" not in table(writer)
    assert table(writer) == vocabulary(writer)
    words.unindex(writer, ids[150:])
    assert table(writer) == set()
    assert writer.execute("SELECT count(*) FROM fresh_words").fetchone() == (0,)


def test_unindexed_contents_leave_no_word_behind(writer: sqlite3.Connection) -> None:
    ids = add(writer, mails(200), batch=50)
    writer.execute("BEGIN IMMEDIATE")
    words.unindex(writer, ids[::2])
    writer.executemany("DELETE FROM message WHERE content = ?", [(content,) for content in ids[::2]])
    writer.executemany("DELETE FROM body WHERE content = ?", [(content,) for content in ids[::2]])
    writer.executemany("DELETE FROM content WHERE id = ?", [(content,) for content in ids[::2]])
    writer.execute("COMMIT")
    check(writer)
    assert "unique0" not in table(writer)
    assert "unique1" in table(writer)
    words.unindex(writer, ids[1::2])
    assert table(writer) == set()
    assert writer.execute("SELECT count(*) FROM word_trigram WHERE word_trigram MATCH 'uni'").fetchone() == (0,)


def test_content_can_be_indexed_again_with_another_text(writer: sqlite3.Connection) -> None:
    (content,) = add(writer, [Mail("alpha", "first")])
    words.unindex(writer, [content])
    writer.execute("UPDATE body SET text = 'second' WHERE content = ?", (content,))
    words.index(writer, [content])
    check(writer)
    assert {"alpha", "second"} <= table(writer)
    assert "first" not in table(writer)


def test_index_is_rebuilt_in_batches(writer: sqlite3.Connection) -> None:
    add(writer, mails(120))
    add(writer, [Mail("pending alpha", state=1)])
    before = table(writer)
    writer.execute("DELETE FROM word WHERE term = 'alpha'")
    assert sum(words.rebuild(writer, batch=50)) == 120
    assert table(writer) == before
    check(writer)
