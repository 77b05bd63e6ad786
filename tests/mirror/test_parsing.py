"""Parsing children: a mail can cost a child, and never anything else."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.errors import ParserBroken
from mirror.parsing import Crash, Parsers
from mirror.record import Record
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, provider_at, truth
from tests.processes import is_running, until
from tests.servers.dovecot import Dovecot

GOOD = [simple(f"good {number}") for number in range(6)]


@pytest.fixture
def faulty() -> Iterator[Parsers]:
    """Two children that fall over certain words."""
    with Parsers(2, deadline=1.0, memory=1 << 30, module="tests.mirror.faulty_child") as parsers:
        yield parsers


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("crash always", "signal 6"),
        ("raise", "exit code 1"),
        ("hang", "longer than 1 s"),
        ("eat memory", "exit code 1"),
    ],
)
def test_one_bad_mail_costs_one_child_and_the_batch_goes_on(faulty: Parsers, words: str, reason: str) -> None:
    answers = faulty.contents([*GOOD[:3], simple(words, words), *GOOD[3:]])
    assert [type(answer) for answer in answers] == [Record] * 3 + [Crash] + [Record] * 3
    assert isinstance(answers[3], Crash)
    assert reason in answers[3].reason


def test_slow_start_of_a_child_is_not_held_against_the_first_mail(
    faulty: Parsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOW_START", "1.5")
    assert isinstance(faulty.contents([GOOD[0]])[0], Record)


@pytest.mark.parametrize("words", ["evil", "not a mail", "odd record", "odd attachment", "half a character"])
def test_an_answer_that_is_more_than_a_value_is_refused_and_not_run(
    faulty: Parsers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    canary = tmp_path / "canary"
    monkeypatch.setenv("CANARY", str(canary))
    answers = faulty.contents([simple(words, words), GOOD[0]])
    assert isinstance(answers[0], Crash)
    assert isinstance(answers[1], Record)
    assert not canary.exists()


def test_a_child_that_raised_does_not_log_what_the_mail_says(
    faulty: Parsers, capfd: pytest.CaptureFixture[str]
) -> None:
    faulty.contents([simple("raise", "raise hunter2")])
    logged = capfd.readouterr().err
    assert "ValueError" in logged
    assert "hunter2" not in logged


def test_one_child_is_kept_warm_and_all_end_with_the_pool() -> None:
    with Parsers(2) as parsers:
        parsers.contents(GOOD * 20)
        pids = [child.pid for child in parsers._idle]
        assert len(pids) == 2
        parsers.rest()
        until(lambda: sum(map(is_running, pids)) == 1)
        started = time.monotonic()
        parsers.contents(GOOD[:1])
        assert time.monotonic() - started < 0.3
    until(lambda: not any(map(is_running, pids)))


def test_one_child_works_while_others_need_the_machine_and_both_afterwards() -> None:
    needed = [True]
    with Parsers(2, are_in_the_way=lambda: needed[0]) as parsers:
        assert all(isinstance(answer, Record) for answer in parsers.contents(GOOD * 20))
        assert len(parsers._idle) == 1
        needed[0] = False
        parsers.contents(GOOD * 20)
        assert len(parsers._idle) == 2


def test_children_can_be_started_before_there_is_mail() -> None:
    with Parsers(2) as parsers:
        parsers.get_ready()
        pids = [child.pid for child in parsers._idle]
        assert len(pids) == 2
        parsers.contents(GOOD * 20)
        parsers.get_ready()
        assert sorted(child.pid for child in parsers._idle) == sorted(pids)
    until(lambda: not any(map(is_running, pids)))


def test_a_child_that_is_not_needed_any_more_while_it_starts_ends_without_a_word(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Parsers(2) as parsers:
        parsers.get_ready()
        parsers.rest()
    assert capfd.readouterr().err == ""


def test_children_that_cannot_be_started_early_are_told_of_when_there_is_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    with Parsers(2) as parsers:
        monkeypatch.setattr("mirror.parsing.sys.executable", "/nowhere/python")
        parsers.get_ready()
        with pytest.raises(ParserBroken, match="no parsing process can be started"):
            parsers.contents(GOOD)


def test_children_that_are_busy_are_not_ended_by_the_end_of_another_backlog() -> None:
    with Parsers(2) as parsers:
        parsers.contents(GOOD * 20)
        pids = [child.pid for child in parsers._idle]
        child = parsers._take()
        parsers.rest()
        parsers._give_back(child)
        assert all(map(is_running, pids))


def test_children_end_when_the_pool_is_forgotten_by_a_kill(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        parsers = Parsers(1)
        parsers.contents(GOOD[:1])
        os.write(writing, str(parsers._idle[0].pid).encode())
        os.kill(os.getpid(), 9)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        child = int(pipe.read())
    os.waitpid(pid, 0)
    until(lambda: not is_running(child))


@pytest.fixture
def frail_mirror(dovecot: Dovecot, user: str, password_file: Path, tmp_path: Path, faulty: Parsers) -> Iterator[Mirror]:
    """A mirror whose parsing children fall over certain words."""
    mirror = Mirror(tmp_path / "mirror", provider_at(dovecot.port, user, password_file), faulty)
    yield mirror
    mirror.close()


def test_mail_that_costs_one_child_is_stored_with_what_could_be_read(
    frail_mirror: Mirror, dovecot: Dovecot, user: str
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *GOOD, simple("poison", "some words, crash once, more words"))
        assert frail_mirror.sync().complete
        assert frail_mirror.listing() == truth(client)
    rows = frail_mirror.rows(
        "SELECT subject, text, findings FROM content JOIN body ON body.content = content.id WHERE subject = 'poison'"
    )
    assert "more words" in str(rows[0][1])
    assert "content_degraded" in str(rows[0][2])


def test_mail_that_costs_two_children_is_put_aside_and_holds_up_nothing(
    frail_mirror: Mirror, dovecot: Dovecot, user: str
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *GOOD, simple("poison", "crash always"))
    frail_mirror.sync()
    assert frail_mirror.rows("SELECT count(*) FROM content WHERE state >= 2") == [(6,)]
    assert frail_mirror.rows("SELECT crashes, next_try > unixepoch() FROM attempt") == [(2, 1)]
    started = time.monotonic()
    frail_mirror.sync()
    assert time.monotonic() - started < 1, "it is not tried again at once"
