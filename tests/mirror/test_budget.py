"""The byte limit of a day: what it holds back, what it lets through, and when it ends."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from config.provider import Provider, SyncRule
from mirror.query.reader import Reader
from tests.mirror.mailbox import Mirror, provider_at
from tests.servers.lying import FIRST, LyingImap, Message, mail

OLD = range(1, 41)
LIMITED = SyncRule(daily_bytes=30_000)


@pytest.fixture
def server() -> Iterator[LyingImap]:
    """A mailbox of forty old messages of about 2 KB."""
    with LyingImap() as made:
        made.folders["INBOX"].messages = {
            number: Message(mail(number, "old text " * 200), minutes=number) for number in OLD
        }
        yield made


@pytest.fixture
def mirror(server: LyingImap, password_file: Path, make_mirror: Callable[[Provider], Mirror]) -> Mirror:
    """A mirror of it, empty yet."""
    return make_mirror(provider_at(server.port, "alice", password_file))


def texts(mirror: Mirror) -> set[int]:
    """The uids whose texts are there."""
    return {int(str(uid)) for (uid,) in mirror.rows("SELECT uid FROM message WHERE state >= 2")}


def arrive(server: LyingImap, number: int) -> None:
    """A message comes in now."""
    minutes = int((datetime.now(UTC) - FIRST).total_seconds()) // 60
    server.folders["INBOX"].messages[number] = Message(mail(number), minutes=minutes)


def test_backlog_waits_once_the_limit_of_the_day_is_reached(server: LyingImap, mirror: Mirror) -> None:
    report = mirror.sync(rule=LIMITED, batch=5)
    assert 0 < len(texts(mirror)) < len(OLD)
    assert report.waiting == len(OLD) - len(texts(mirror))
    assert not report.complete
    # One pass, one look: it ends instead of looking again and again.
    assert len(server.asked("^LIST")) == 1
    with Reader(mirror.store.path) as reader:
        account = reader.account()
        [folder] = reader.folders()
    assert account.daily_bytes == 30_000 <= account.bytes_today < 35_000
    assert account.bytes_total == account.bytes_today
    assert account.bytes_pending == sum(
        len(server.folders["INBOX"].messages[uid].raw) for uid in set(OLD) - texts(mirror)
    )
    assert not folder.complete
    assert str(folder.complete_back_to) == "2026-01-06"


def test_new_mail_and_what_a_reader_waits_for_are_fetched_all_the_same(server: LyingImap, mirror: Mirror) -> None:
    mirror.sync(rule=LIMITED, batch=5)
    before = texts(mirror)
    arrive(server, 50)
    [(wanted,)] = mirror.rows("SELECT content FROM message WHERE uid = 1")
    mirror.store.want(int(str(wanted)))
    mirror.sync(rule=LIMITED, batch=5)
    assert texts(mirror) == before | {50, 1}


def test_limit_is_remembered_over_a_restart_and_ends_at_midnight(server: LyingImap, mirror: Mirror) -> None:
    mirror.sync(rule=LIMITED, batch=5)
    before = texts(mirror)
    fetched = len(server.asked(r"BODY\.PEEK\[\]"))
    mirror.sync(rule=LIMITED, batch=5)
    assert len(server.asked(r"BODY\.PEEK\[\]")) == fetched
    mirror.store._connection.execute("UPDATE mirror SET fetched_on = fetched_on - 1")
    mirror.sync(rule=LIMITED, batch=5)
    assert len(texts(mirror)) > len(before)
    with Reader(mirror.store.path) as reader:
        account = reader.account()
    assert account.bytes_today < account.bytes_total


def test_no_limit_where_the_configuration_says_so(mirror: Mirror) -> None:
    assert mirror.sync(rule=SyncRule(daily_bytes=0)).complete
    assert len(texts(mirror)) == len(OLD)


def test_what_the_configuration_leaves_out_is_said_and_not_waited_for(mirror: Mirror) -> None:
    report = mirror.sync(rule=SyncRule(since=FIRST.date().replace(day=20)))
    assert report.complete
    with Reader(mirror.store.path) as reader:
        account = reader.account()
        [folder] = reader.folders()
    assert (folder.complete, str(folder.complete_back_to), folder.pending) == (False, "2026-01-20", 0)
    assert account.bytes_pending == 0
