import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror.query import words
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


def table(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT term, documents FROM word"))


def vocabulary(connection: sqlite3.Connection) -> dict[str, int]:
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, fts, row)")
    return dict(connection.execute("SELECT term, doc FROM temp.vocabulary"))


def check(connection: sqlite3.Connection) -> None:
    assert table(connection) == vocabulary(connection)
    for name in ("fts", "word_trigram"):
        connection.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")


def test_word_table_has_every_word_of_the_index_with_its_documents(writer: sqlite3.Connection) -> None:
    add(writer, mails(300), batch=70)
    check(writer)
    assert table(writer)["unique7"] == 1


def test_word_table_counts_subjects_and_people(writer: sqlite3.Connection) -> None:
    add(writer, [Mail("alpha", "beta", [("gamma", "g@x.org")]), Mail("gamma", "alpha alpha", [("gamma", "g@x.org")])])
    counts = {row[0]: row[1:] for row in writer.execute("SELECT term, documents, subjects, people FROM word")}
    assert counts["alpha"] == (2, 1, 0)
    assert counts["beta"] == (1, 0, 0)
    assert counts["gamma"] == (2, 1, 2)


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
    assert table(writer) == {}
    assert writer.execute("SELECT count(*) FROM word_trigram WHERE word_trigram MATCH 'uni'").fetchone() == (0,)


def test_content_can_be_indexed_again_with_another_text(writer: sqlite3.Connection) -> None:
    (content,) = add(writer, [Mail("alpha", "first")])
    words.unindex(writer, [content])
    writer.execute("UPDATE body SET text = 'second' WHERE content = ?", (content,))
    words.index(writer, [content])
    check(writer)
    assert {"alpha", "second"} <= set(table(writer))
    assert "first" not in table(writer)


def test_index_is_rebuilt_in_batches(writer: sqlite3.Connection) -> None:
    add(writer, mails(120))
    add(writer, [Mail("pending alpha", state=1)])
    before = Counter(table(writer))
    writer.execute("UPDATE word SET documents = documents + 5")
    assert sum(words.rebuild(writer, batch=50)) == 120
    assert Counter(table(writer)) == before
    check(writer)
