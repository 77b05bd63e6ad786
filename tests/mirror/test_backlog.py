"""A backlog of texts: written without merging the index along, and no different afterwards."""

import hashlib
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror.content import read_content
from mirror.listing import Listed, ListedFolder
from mirror.mirrored import State
from mirror.query import merging
from mirror.recording import record_of
from mirror.store import Store

_BEGAN = datetime(2024, 1, 1, tzinfo=UTC)


def _fill(store: Store, count: int, at_once: int) -> None:
    """Add that many mails, so many in each call."""
    store.set_folders([ListedFolder(b"INBOX", "INBOX", "/", (), "", selectable=True)])
    raws = {
        uid: f"From: a{uid % 9}@example.org\r\nSubject: number {uid}\r\n\r\nword{uid} and word{uid // 3}\r\n".encode()
        for uid in range(1, count + 1)
    }
    store.add_listed(1, [Listed(uid, (), _BEGAN + timedelta(hours=uid), len(raw)) for uid, raw in raws.items()])
    while holes := store.holes(1, State.TEXT, at_once):
        store.set_texts(
            (hole.content, hashlib.sha256(raws[hole.uid]).digest(), record_of(read_content(raws[hole.uid])))
            for hole in holes
        )


def _index(folder: Path) -> list[list[tuple[object, ...]]]:
    """What the index holds: where each word stands, and the table of words without its estimates."""
    with closing(sqlite3.connect(folder / "mirror.db")) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, fts, instance)")
        connection.execute("CREATE VIRTUAL TABLE temp.parts USING fts5vocab(main, word_trigram, row)")
        connection.execute("CREATE VIRTUAL TABLE temp.lines USING fts5vocab(main, line, row)")
        return [
            connection.execute("SELECT * FROM temp.places ORDER BY 1, 2, 3, 4").fetchall(),
            connection.execute("SELECT term, doc FROM temp.parts ORDER BY 1").fetchall(),
            connection.execute("SELECT term, doc FROM temp.lines ORDER BY 1").fetchall(),
            connection.execute("SELECT term, subjects, people FROM word ORDER BY 1").fetchall(),
        ]


def test_index_is_the_same_whether_merges_were_put_off_or_not(tmp_path: Path) -> None:
    with Store(tmp_path / "usual") as store:
        _fill(store, 300, 300)
    with Store(tmp_path / "backlog") as store:
        store.begin_backlog()
        _fill(store, 300, 10)
        store.settle(lambda: True)
        assert not merging.are_put_off(store._connection)
        for table in ("fts", "word_trigram", "line"):
            store._connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")

    assert _index(tmp_path / "usual") == _index(tmp_path / "backlog")


def test_long_backlog_is_merged_along_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MANY_RUNS", 10)
    with Store(tmp_path / "usual") as store:
        _fill(store, 300, 300)
    most = 0

    def count_runs(statement: str) -> None:
        nonlocal most
        if statement.startswith("COMMIT"):
            most = max(most, *(store._connection.execute(each).fetchone()[0] for each in merging._RUNS))

    with Store(tmp_path / "backlog") as store:
        store.begin_backlog()
        store._connection.set_trace_callback(count_runs)
        _fill(store, 300, 1)
        store._connection.set_trace_callback(None)
        assert merging.are_put_off(store._connection)
        store.settle(lambda: True)
    assert 10 < most < 30
    assert _index(tmp_path / "usual") == _index(tmp_path / "backlog")


def test_runs_of_a_backlog_that_was_cut_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MANY_RUNS", 10)
    for count in (8, 16):
        with Store(tmp_path / "mirror") as store:
            store.begin_backlog()
            _fill(store, count, 1)
            runs = store._connection.execute(merging._RUNS[0]).fetchone()[0]
    assert runs < 16


def test_merges_of_a_backlog_that_was_cut_are_found_by_whoever_opens_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "mirror") as store:
        store.begin_backlog()
        _fill(store, 100, 5)
        store.settle(lambda: False)

    with Store(tmp_path / "mirror", repair=True) as store:
        assert merging.are_put_off(store._connection)
        store.settle(lambda: True)
        assert not merging.are_put_off(store._connection)


def test_words_that_another_connection_took_away_are_added_again(tmp_path: Path) -> None:
    with Store(tmp_path / "mirror") as store, Store(tmp_path / "mirror") as other:
        _fill(store, 20, 20)
        before = _index(tmp_path / "mirror")[2]
        other.remove_all(1)
        other.sweep(before=float("inf"))
        assert _index(tmp_path / "mirror")[2] == []

        _fill(store, 20, 20)
        assert _index(tmp_path / "mirror")[2] == before


def test_words_of_a_transaction_that_was_rolled_back_are_added_again(tmp_path: Path) -> None:
    with Store(tmp_path / "mirror") as store:
        _fill(store, 5, 5)
        expected = _index(tmp_path / "mirror")[2]
    with Store(tmp_path / "cut") as store:
        store._connection.execute(
            "CREATE TEMP TRIGGER cut AFTER INSERT ON body WHEN (SELECT count(*) FROM body) = 3"
            " BEGIN SELECT raise(ABORT, 'cut'); END"
        )
        try:
            _fill(store, 5, 5)
        except sqlite3.IntegrityError:
            store._connection.execute("DROP TRIGGER cut")
        _fill(store, 5, 5)

    assert _index(tmp_path / "cut")[2] == expected
