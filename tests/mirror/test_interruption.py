"""Killed at any commit or network write and resumed, a pass comes to what it would have come to undisturbed."""

# ruff: noqa: T201 - the long runs print their figures

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.mail import generate
from config.identity import Provider
from mirror.parsing import Parsers
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, provider_at, truth
from tests.mirror.test_sync import _set_uidvalidity
from tests.servers.dovecot import Dovecot
from tests.servers.proxy import Fault, Proxy
from tests.servers.second_client import Incoming, SecondClient

SAMPLE = 7
"""Points of each scenario that are tried when not all are."""


class Runner:
    """The process of tests.mirror.interrupted."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mirror.interrupted"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, mirror: Path, provider: Provider, point: int = 0, work: str = "pass") -> str:
        """The answer to one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = provider.model_dump(mode="json", exclude={"sync"})
        asked = {"work": work, "point": point, "mirror": str(mirror), "provider": told}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """One runner for all."""
    made = Runner()
    yield made
    made.close()


@dataclass(frozen=True)
class Scenario:
    """A mailbox and the mirror it had before it changed. before: None for no mirror yet."""

    provider: Provider
    client: Callable[[], SecondClient]
    before: Path | None

    def copy(self, to: Path) -> Path:
        """A mirror as it was before."""
        if self.before is not None:
            shutil.copytree(self.before, to)
        return to


def seen(folder: Path, provider: Provider, parsers: Parsers) -> dict[str, object]:
    """All that a reader could tell of a mirror, and what it must not have kept."""
    mirror = Mirror(folder, provider, parsers)
    ids = mirror.rows(
        "SELECT content.message_id, folder.name, message.id FROM message JOIN folder ON folder.id = message.folder"
        " JOIN content ON content.id = message.content WHERE content.message_id LIKE 'kept%' ORDER BY 1, 2"
    )
    found: dict[str, object] = {
        "listing": mirror.listing(),
        "ids": ids,
        "contents": mirror.rows("SELECT count(*), min(state), count(DISTINCT digest) FROM content"),
        "indexed": mirror.rows("SELECT count(*) FROM fts_docsize"),
        "attempts": mirror.rows("SELECT count(*) FROM attempt"),
        "folders": mirror.folders(),
    }
    mirror.close()
    return found


def kept(number: int) -> bytes:
    """A mail whose id must survive."""
    return simple(f"kept {number}")


def first_sync(client: SecondClient, mirror: Mirror, folder: Path) -> Path | None:
    """Nothing mirrored yet."""
    client.append("INBOX", *generate(14, seed=21), kept(0))
    client.create("Work")
    client.append("Work", *generate(6, seed=22), kept(0))
    return None


def busy_day(client: SecondClient, mirror: Mirror, folder: Path) -> Path | None:
    """New, expunged, flagged, moved and copied mail; folders made, renamed and deleted."""
    client.append("INBOX", *map(kept, range(12)))
    for name in ("Work", "Old", "Gone"):
        client.create(name)
        client.append(name, Incoming(simple(f"in {name}"), flags=("\\Seen",)))
    mirror.sync()
    mirror.close()
    before = Path(shutil.copytree(mirror.folder, folder / "before"))
    uids = client.uids("INBOX")
    client.append("INBOX", simple("new"))
    client.imap.select("INBOX")
    client.expunge("INBOX", uids[:2])
    client.add_flags("INBOX", uids[2:5], "\\Flagged")
    client.move("INBOX", uids[5:7], to="Work")
    client.examine("INBOX")
    client.rename("Old", "Kept")
    client.delete("Gone")
    client.create("New")
    client.append("New", simple("in New"))
    return before


def make(
    what: Callable[[SecondClient, Mirror, Path], Path | None],
    dovecot: Dovecot,
    user: str,
    password_file: Path,
    tmp_path: Path,
    make_mirror: Callable[[Provider], Mirror],
) -> Scenario:
    """A scenario on a server."""
    provider = provider_at(dovecot.port, user, password_file)
    mirror = make_mirror(provider)
    with dovecot.client(user) as client:
        before = what(client, mirror, tmp_path)
    return Scenario(provider, lambda: dovecot.client(user), before)


@pytest.fixture(params=["first sync", "busy day", "busy day on the lowest rung", "changed UIDVALIDITY"])
def scenario(
    request: pytest.FixtureRequest,
    user: str,
    password_file: Path,
    tmp_path: Path,
    make_mirror: Callable[[Provider], Mirror],
) -> Scenario:
    """Each scenario."""
    lowest = request.param.endswith("lowest rung")
    dovecot: Dovecot = request.getfixturevalue("dovecot_plain_rung" if lowest else "dovecot")
    what = first_sync if request.param == "first sync" else busy_day
    made = make(what, dovecot, user, password_file, tmp_path, make_mirror)
    if request.param == "changed UIDVALIDITY":
        with made.client() as client:
            uidvalidity = client.status("Work")["UIDVALIDITY"]
        _set_uidvalidity(dovecot, user, "Work", uidvalidity - 1_000)
    return made


def kill_at(points: list[int], scenario: Scenario, runner: Runner, tmp_path: Path, parsers: Parsers) -> int:
    """Kill, resume and compare at each of these points. How many there were."""
    whole = scenario.copy(tmp_path / "undisturbed")
    count = int(runner.run(whole, scenario.provider))
    assert runner.run(whole, scenario.provider).isdigit()
    expected = seen(whole, scenario.provider, parsers)
    with scenario.client() as client:
        assert expected["listing"] == truth(client)
    tried = points or list(range(1, count + 1))
    for point in [min(point, count) for point in tried]:
        mirror = scenario.copy(tmp_path / f"point{point}")
        assert runner.run(mirror, scenario.provider, point) == "killed"
        for _ in range(2):  # what is missing from LIST goes with the second pass
            assert runner.run(mirror, scenario.provider).isdigit(), point
        found = seen(mirror, scenario.provider, parsers)
        assert found == expected, f"killed at {point} of {count}"
        shutil.rmtree(mirror)
    return len(tried)


def test_killed_and_resumed_it_comes_to_the_same(
    scenario: Scenario, runner: Runner, tmp_path: Path, parsers: Parsers
) -> None:
    points = sorted(random.Random(4).sample(range(1, 60), SAMPLE))
    kill_at(points, scenario, runner, tmp_path, parsers)


@pytest.mark.soak
def test_killed_at_every_point_and_resumed_it_comes_to_the_same(
    scenario: Scenario, runner: Runner, tmp_path: Path, parsers: Parsers
) -> None:
    print(f"\n{kill_at([], scenario, runner, tmp_path, parsers)} points")


@pytest.mark.parametrize("part", [pytest.param(False, marks=pytest.mark.soak, id="all"), pytest.param(True, id="part")])
def test_writes_that_are_killed_leave_a_mirror_that_the_next_pass_makes_true(
    part: bool,
    dovecot: Dovecot,
    user: str,
    password_file: Path,
    runner: Runner,
    tmp_path: Path,
    make_mirror: Callable[[Provider], Mirror],
    parsers: Parsers,
) -> None:
    count = 1
    point = 0
    while point < count:
        point += 1 if not part or point == 0 else 6
        name = f"{user}point{point}"
        provider = provider_at(dovecot.port, name, password_file)
        mirror = make_mirror(provider)
        with dovecot.client(name) as client:
            client.append("INBOX", *map(kept, range(5)))
            client.create("Work")
            mirror.sync()
            answer = runner.run(mirror.folder, provider, point, "writes")
            if answer.isdigit():
                break
            assert answer == "killed"
            count = point + 1
            mirror.sync()
            assert mirror.listing() == truth(client), point
    assert point > 15


def fail_at(offset: int, kind: str, scenario: Scenario, tmp_path: Path, target: int, parsers: Parsers) -> float:
    """A pass over a network that fails once after so many bytes, then others until it agrees. CPU seconds it took."""
    with Proxy(target) as proxy:
        provider = scenario.provider.model_copy(
            update={"imap": scenario.provider.imap.model_copy(update={"port": proxy.port})}
        )
        mirror = Mirror(scenario.copy(tmp_path / f"{kind}{offset}"), provider, parsers)
        proxy.fault = Fault(kind, after=offset)  # type: ignore[arg-type]
        began = time.process_time()
        for _ in range(4):
            try:
                mirror.sync(lambda: mirror.connect(read_timeout=0.5), batch=8)
            except ConnectionError:
                assert mirror.listing() or scenario.before is None
        spent = time.process_time() - began
        with scenario.client() as client:
            assert mirror.listing() == truth(client), f"{kind} after {offset} bytes"
        mirror.close()
        shutil.rmtree(mirror.folder)
        return spent


def faults(count: int, scenario: Scenario, tmp_path: Path, target: int, parsers: Parsers) -> list[float]:
    """So many faults of every kind, over the bytes of a pass."""
    with Proxy(target) as proxy:
        provider = scenario.provider.model_copy(
            update={"imap": scenario.provider.imap.model_copy(update={"port": proxy.port})}
        )
        whole = Mirror(scenario.copy(tmp_path / "undisturbed"), provider, parsers)
        whole.sync(batch=8)
        whole.close()
        carried = proxy.carried
    chosen = random.Random(9)
    return [
        fail_at(chosen.randrange(carried), ("close", "reset", "stall")[number % 3], scenario, tmp_path, target, parsers)
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [pytest.param(6, id="part"), pytest.param(130, marks=pytest.mark.soak, id="all")])
def test_network_that_fails_at_any_byte_makes_no_mirror_wrong(
    count: int, scenario: Scenario, tmp_path: Path, parsers: Parsers
) -> None:
    spent = faults(count, scenario, tmp_path, scenario.provider.imap.port, parsers)
    print(f"\n{count} faults, {max(spent):.2f} s of CPU at most")
    assert max(spent) < 5
