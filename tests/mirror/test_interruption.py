"""Killed at any commit or network write and resumed, work comes to what it would have come to undisturbed."""

# ruff: noqa: T201 - the long runs print their figures

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.provider import Provider
from mirror.parsing import Parsers
from tests.mirror.interrupted import Runner
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, provider_at, truth
from tests.mirror.scenario import Account, Server
from tests.mirror.walk import Moment, seen, walk

MakeMirror = Callable[[Provider], Mirror]
SAMPLE = 1
"""Points of each step that are tried when not all are."""

EACH_PART = ("dovecot", "dovecot_plain_rung")
EVERYWHERE = (*EACH_PART, "cyrus", "courier", "pymap_server")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """One runner for all."""
    made = Runner()
    yield made
    made.close()


def kill_at(points: list[int], moment: Moment, account: Account, runner: Runner, to: Path, parsers: Parsers) -> int:
    """Kill, resume and compare at these points, at all of them when none is given. How many there were."""
    whole = moment.copy(to / "whole")
    count = int(runner.run(whole, account))
    shutil.rmtree(whole)
    tried = sorted({min(point, count) for point in points} or range(1, count + 1))
    for point in tried:
        folder = moment.copy(to / f"point{point}")
        assert runner.run(folder, account, point) == "killed"
        for _ in range(2):
            assert runner.run(folder, account).isdigit(), (moment.step, point)
        mirror = Mirror(folder, account.provider, parsers)
        found = seen(mirror)
        mirror.close()
        assert found.listing == moment.after.listing, f"{moment.step} killed at {point} of {count}"
        assert found.equals(moment.after, moment.ids), f"{moment.step} killed at {point} of {count}"
        shutil.rmtree(folder)
    return len(tried)


@pytest.mark.parametrize("account", EACH_PART, indirect=True)
def test_killed_and_resumed_it_comes_to_the_same(
    account: Account, runner: Runner, tmp_path: Path, parsers: Parsers
) -> None:
    chosen = random.Random(4)
    for moment in walk(account, tmp_path, parsers):
        kill_at(chosen.sample(range(1, 30), SAMPLE), moment, account, runner, tmp_path, parsers)


@pytest.mark.soak
@pytest.mark.parametrize("account", EVERYWHERE, indirect=True)
def test_killed_at_every_point_and_resumed_it_comes_to_the_same(
    account: Account, runner: Runner, tmp_path: Path, parsers: Parsers
) -> None:
    points = {
        moment.step: kill_at([], moment, account, runner, tmp_path, parsers)
        for moment in walk(account, tmp_path, parsers)
    }
    print(f"\n{sum(points.values())} points: {points}")


def kill_writes(part: bool, server: Server, user: str, password_file: Path, runner: Runner, make: MakeMirror) -> int:
    """Kill what we write at every point, or at every sixth; the next pass makes the mirror true. The last point."""
    count = point = 1
    while True:
        account = Account(server, f"{user}p{point}", provider_at(server.port, f"{user}p{point}", password_file))
        mirror = make(account.provider)
        with account.client() as client:
            mails = [simple(f"kept {number}") for number in range(5)]
            client.append("INBOX", *mails)
            client.create(account.name("Work"))
            client.append(account.name("Work"), simple("in Work"))
            mirror.sync()
        answer = runner.run(mirror.folder, account, point, "writes")
        if answer.isdigit():
            return count
        assert answer == "killed"
        with account.client() as client:
            assert mirror.sync().complete
            found = truth(client)
            assert mirror.listing() == found, point
            # The newest of INBOX went to Work, and is what is deleted there: nothing else may be gone.
            assert len({sha for *_, sha in found}) >= 5, point
        count, point = point, point + (6 if part else 1)


@pytest.mark.parametrize("server", EACH_PART)
def test_writes_that_are_killed_leave_a_mirror_that_the_next_pass_makes_true(
    request: pytest.FixtureRequest, server: str, user: str, password_file: Path, runner: Runner, make_mirror: MakeMirror
) -> None:
    assert kill_writes(True, request.getfixturevalue(server), user, password_file, runner, make_mirror) > 10


@pytest.mark.soak
@pytest.mark.parametrize("server", ["dovecot", "dovecot_plain_rung", "cyrus", "courier"])
def test_writes_that_are_killed_at_every_point_leave_a_mirror_that_the_next_pass_makes_true(
    request: pytest.FixtureRequest, server: str, user: str, password_file: Path, runner: Runner, make_mirror: MakeMirror
) -> None:
    count = kill_writes(False, request.getfixturevalue(server), user, password_file, runner, make_mirror)
    print(f"\n{count} points")
    assert count > 20
