"""The mirror's file under load: no query walks what is not its own, no transaction keeps other writers waiting."""

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror import database
from mirror.content import read_content
from mirror.errors import MirrorAbsent
from mirror.listing import Listed, ListedFolder
from mirror.mirrored import State
from mirror.query.reader import Reader
from mirror.recording import record_of
from mirror.store import Checkpoint, Store

_FIRST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty mirror's file."""
    with Store(tmp_path / "mirror") as made:
        yield made


def folder_of(store: Store, name: str) -> int:
    """A new folder's id."""
    known = [ListedFolder(f.raw, f.name, "/", (), "", selectable=True) for f in store.folders()]
    store.set_folders([*known, ListedFolder(name.encode(), name, "/", (), "", selectable=True)])
    return next(folder.id for folder in store.folders() if folder.name == name)


def listed(count: int, *, start: int = 1, every: float = 60) -> list[Listed]:
    """Messages that came one after the other."""
    return [
        Listed(uid, ("\\Seen",), _FIRST + timedelta(seconds=every * uid), 2_000 + uid)
        for uid in range(start, start + count)
    ]


class Steps:
    """Counts what SQLite does in a block of code, in thousands of its instructions."""

    def __init__(self, store: Store) -> None:
        self._connection = store._connection
        self.thousands = 0

    def __enter__(self) -> "Steps":
        self._connection.set_progress_handler(self._count, 1_000)
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.set_progress_handler(None, 0)

    def _count(self) -> int:
        self.thousands += 1
        return 0


def test_what_a_folder_lacks_costs_the_same_however_much_others_lack(store: Store) -> None:
    large, small = folder_of(store, "INBOX"), folder_of(store, "Old")
    store.add_listed(small, listed(50))
    store.add_listed(large, listed(20_000, start=100))
    with Steps(store) as steps:
        assert len(store.holes(small, State.TEXT, 200)) == 50
        assert len(store.holes(small, State.HEADERS, 200)) == 50
        assert len(store.holes(large, State.TEXT, 200)) == 200
        assert store.count_holes(small) == 50
    assert steps.thousands < 25


def test_headers_that_are_there_are_not_walked_for_those_that_are_not(store: Store) -> None:
    folder = folder_of(store, "INBOX")
    store.add_listed(folder, listed(20_000))
    store._connection.execute("UPDATE content SET state = 1 WHERE id > (SELECT min(id) + 800 FROM content)")
    with Steps(store) as steps:
        assert 0 < len(store.holes(folder, State.HEADERS, 50)) <= 50
    assert steps.thousands < 10


def test_messages_before_the_start_are_not_walked(store: Store) -> None:
    folder = folder_of(store, "INBOX")
    store.add_listed(folder, listed(20_000))
    with Steps(store) as steps:
        assert len(store.holes(folder, State.TEXT, 500, since=_FIRST + timedelta(minutes=19_901))) == 100
        assert store.count_holes(folder, since=_FIRST + timedelta(minutes=19_901)) <= 108
    assert steps.thousands < 10


def test_state_of_a_message_follows_its_content(store: Store) -> None:
    folder, other = folder_of(store, "INBOX"), folder_of(store, "Work")
    mail = [Listed(1, (), _FIRST, 10, 0, "M1")]
    store.add_listed(folder, mail)
    store._connection.execute("UPDATE content SET state = 2")
    store.add_listed(other, mail)
    assert store._connection.execute("SELECT state FROM message").fetchall() == [(2,), (2,)]
    assert store.holes(other, State.TEXT, 9) == []


@pytest.mark.parametrize("work", ["drop a folder", "a changed UIDVALIDITY", "remove", "flags"])
def test_large_work_lets_other_writers_in(store: Store, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SLICE", 0.02)
    folder = folder_of(store, "INBOX")
    other = folder_of(store, "Old")
    messages = listed(12_000)
    store.add_listed(other, messages)
    held: list[float] = []
    began = 0.0

    def trace(statement: str) -> None:
        nonlocal began
        if statement.startswith("BEGIN"):
            began = time.thread_time()
        elif statement.startswith("COMMIT"):
            held.append(time.thread_time() - began)

    store._connection.set_trace_callback(trace)
    if work == "drop a folder":
        store.drop_folder(other)
    elif work == "a changed UIDVALIDITY":
        store.begin_generation(other, 9)
        store.unbind(other)
        store.bind(other, [(message, "") for message in messages])
        store.drop_unbound(other)
    elif work == "remove":
        store.remove(other, range(1, 12_001))
    else:
        store.update_flags(other, [(uid, (), 0) for uid in range(1, 12_001)], time.time())
    store._connection.set_trace_callback(None)
    assert len(held) > 2
    assert max(held) < 0.2
    assert store.count(folder) == 0


def test_rebinding_that_died_at_any_commit_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SLICE", 0.0)
    messages = listed(6)
    for commit in range(1, 30):
        with Store(tmp_path / f"mirror{commit}") as store:
            folder = folder_of(store, "INBOX")
            store.add_listed(folder, messages)
            store._connection.execute("UPDATE content SET state = 1, message_id = 'm' || size")
            ids = dict(store._connection.execute("SELECT content, id FROM message"))

            def rebind(store: Store = store, folder: int = folder) -> None:
                store.unbind(folder)
                store.bind(folder, [(message, f"m{message.size}") for message in messages])
                store.drop_unbound(folder)

            store.begin_generation(folder, 9)
            interrupt_after(store, commit)
            try:
                rebind()
            except sqlite3.OperationalError:
                store._connection.rollback()
            store._connection.set_progress_handler(None, 0)
            if store.has_unbound(folder):
                rebind()
            assert dict(store._connection.execute("SELECT content, id FROM message")) == ids
            assert store.uids(folder) == set(range(1, 7))


def interrupt_after(store: Store, calls: int) -> None:
    """Abort what SQLite does after so many of its instructions."""
    left = calls * 7

    def stop() -> int:
        nonlocal left
        left -= 1
        return left < 0

    store._connection.set_progress_handler(stop, 3)


def test_two_writers_share_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "mirror") as one, Store(tmp_path / "mirror") as two:
        folder = folder_of(one, "INBOX")
        one.add_listed(folder, listed(500))
        message = one._connection.execute("SELECT id FROM message LIMIT 1").fetchone()[0]
        two.set_flags(message, ["\\Flagged"])
        assert one.update_flags(folder, [(1, (), 0)], time.time() - 10) == 0


def test_file_of_an_older_schema_is_not_mirrored_yet_for_readers(tmp_path: Path) -> None:
    with Store(tmp_path / "mirror") as store:
        Reader(store.path).close()
        store._connection.execute("DELETE FROM _sqlite_migrations WHERE id = (SELECT max(id) FROM _sqlite_migrations)")
        with pytest.raises(MirrorAbsent):
            Reader(store.path)


def test_dropped_folder_leaves_no_content_behind(store: Store) -> None:
    folder = folder_of(store, "Old")
    store.add_listed(folder, listed(10))
    store.drop_folder(folder)
    store.sweep(before=float("inf"))
    assert store._connection.execute("SELECT count(*) FROM content").fetchone() == (0,)


def test_rename_onto_a_folder_leaves_no_content_behind(store: Store) -> None:
    one, two = folder_of(store, "A"), folder_of(store, "B")
    store.add_listed(one, listed(2))
    store.add_listed(two, listed(3, start=10))
    store.rename_folders({one: ListedFolder(b"B", "B", "/", (), "", selectable=True)})
    store.sweep(before=float("inf"))
    assert store._connection.execute("SELECT count(*) FROM content").fetchone() == (2,)
    assert [(folder.id, folder.name) for folder in store.folders()] == [(one, "B")]


@pytest.mark.parametrize("renamed_first", [True, False])
@pytest.mark.parametrize("is_dropped", [True, False])
def test_messages_of_a_renamed_folder_keep_their_ids_beside_a_move_of_the_same_mail(
    store: Store, renamed_first: bool, is_dropped: bool
) -> None:
    mail = record_of(read_content(b"From: a@example.org\r\nSubject: in two places\r\n\r\nHello\r\n"))

    def hold(folder: int, uid: int) -> int:
        store.add_listed(folder, [Listed(uid, (), _FIRST, 10)])
        hole = next(hole for hole in store.holes(folder, State.TEXT, 1))
        store.set_texts([(hole.content, b"digest", mail)])
        found = store._connection.execute(
            "SELECT id FROM message WHERE folder = ? AND uid = ?", (folder, uid)
        ).fetchone()
        return int(found[0])

    inbox, work, kept = (folder_of(store, name) for name in ("INBOX", "Work", "Kept"))
    in_inbox, in_kept = hold(inbox, 1), hold(kept, 2)
    store.remove(inbox, [1])
    others = [ListedFolder(f.raw, f.name, "/", (), "", selectable=True) for f in store.folders() if f.id != kept]
    renamed = [*others, ListedFolder(b"Renamed", "Renamed", "/", (), "", selectable=True)]
    for _ in range(2 if is_dropped else 1):
        store.set_folders(renamed)
    young = next(folder.id for folder in store.folders() if folder.name == "Renamed")

    if renamed_first:
        found = {"renamed": hold(young, 3), "moved": hold(work, 4)}
    else:
        found = {"moved": hold(work, 4), "renamed": hold(young, 3)}

    assert found == {"renamed": in_kept, "moved": in_inbox}
    assert store._connection.execute("SELECT count(*) FROM departed").fetchone() == (0,)


def test_list_that_says_what_is_known_writes_nothing(store: Store) -> None:
    listed = [ListedFolder(name.encode(), name, "/", ("\\Marked",), "", selectable=True) for name in ("INBOX", "Kept")]
    store.set_folders(listed)
    before = store._connection.total_changes
    assert store.set_folders(listed) == []
    assert store._connection.total_changes == before

    unwanted = [listed[0], replace(listed[1], wanted=False)]
    store.set_folders(unwanted)
    assert [folder.wanted for folder in store.folders()] == [True, False]
    store.set_folders(unwanted[:1])
    assert [folder.name for folder in store.folders()] == ["INBOX"]
    assert store.set_folders(unwanted[:1]) == ["Kept"], "missing a second time"


def test_folder_that_lent_its_ids_is_compared_again_when_it_is_back(store: Store) -> None:
    mail = [Listed(1, (), _FIRST, 10, 0, "M1")]
    kept = folder_of(store, "Kept")
    store.add_listed(kept, mail)
    store.checkpoint(kept, Checkpoint(1, 2, 1, 1), reconciled=True)
    listed_again = [ListedFolder(b"Kept", "Kept", "/", (), "", selectable=True)]
    other = [ListedFolder(b"Other", "Other", "/", (), "", selectable=True)]
    store.set_folders(other)
    store.add_listed(next(folder.id for folder in store.folders()), mail)
    store.set_folders([*other, *listed_again])

    assert not store.count(kept)
    assert not next(folder for folder in store.folders() if folder.id == kept).enumerated


def test_message_without_a_uid_cannot_be_written_to(store: Store) -> None:
    folder = folder_of(store, "INBOX")
    store.set_uidvalidity(folder, 7)
    store.add_listed(folder, listed(1))
    [(message,)] = store._connection.execute("SELECT id FROM message").fetchall()
    assert store.place(message) is not None
    store.begin_generation(folder, 8)
    assert store.place(message) is None
