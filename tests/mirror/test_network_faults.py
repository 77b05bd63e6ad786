"""A network that fails at any byte: never a wrong mirror, always recovered, no time burnt."""

# ruff: noqa: T201 - the long runs print their figures

import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirror.errors import UpstreamUnavailable
from mirror.parsing import Parsers
from mirror.upstream import Upstream
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, agree, provider_at
from tests.mirror.scenario import WRITES, Account, Server
from tests.mirror.test_interruption import EACH_PART, EVERYWHERE, MakeMirror
from tests.mirror.walk import Moment, seen, walk
from tests.servers.proxy import Fault, Proxy

KINDS = ("close", "reset", "stall", "half")
PATIENCE = 1.0
"""Seconds that a pass waits for an answer: what a loop that does not wait would burn at each stall."""
_PASSES = 4


class Line:
    """The mirror's connections to an account, over a proxy."""

    def __init__(self, account: Account, proxy: Proxy, parsers: Parsers) -> None:
        imap = account.provider.imap.model_copy(update={"port": proxy.port})
        self._provider = account.provider.model_copy(update={"imap": imap})
        self._proxy = proxy
        self._parsers = parsers

    def carried(self, folder: Path) -> tuple[int, float]:
        """Bytes that the server says in an undisturbed pass, and CPU seconds that passes take."""
        mirror = Mirror(folder, self._provider, self._parsers)
        before, began = self._proxy.carried, time.process_time()
        mirror.sync(batch=8)
        carried = self._proxy.carried - before
        for _ in range(_PASSES - 1):
            mirror.sync(batch=8)
        mirror.close()
        return carried, time.process_time() - began

    def _patience(self) -> float:
        """Short only while the fault is still to come: a slow machine is no fault."""
        return PATIENCE if self._proxy.fault is not None else 60.0

    def fail(self, folder: Path, fault: Fault, moment: Moment) -> tuple[int, float]:
        """Passes of which one meets the fault: how many were cut, and CPU seconds."""
        mirror = Mirror(folder, self._provider, self._parsers)
        self._proxy.fault = fault
        cut = 0
        began = time.process_time()
        for _ in range(_PASSES - 1):
            try:
                mirror.sync(lambda: mirror.connect(read_timeout=self._patience()), batch=8)
            except ConnectionError:
                cut += 1
        self._proxy.fault = None
        mirror.sync(batch=8)
        spent = time.process_time() - began
        found = seen(mirror)
        mirror.close()
        assert found.listing == moment.after.listing, f"{moment.step}, {fault}"
        assert found.equals(moment.after, moment.ids), f"{moment.step}, {fault}"
        return cut, spent


def kinds_for(step: int, times: int) -> Sequence[str]:
    """Every kind so many times; for none, one kind in each step."""
    return KINDS * times if times else KINDS[step % len(KINDS) :][:1]


def fail_everywhere(times: int, account: Account, to: Path, parsers: Parsers) -> str:
    """So many faults of each kind in each step, at bytes chosen at random. What they came to, in words."""
    chosen = random.Random(9)
    offsets = cut = 0
    most = calm = 0.0
    with Proxy(account.server.port) as proxy:
        line = Line(account, proxy, parsers)
        for step, moment in enumerate(walk(account, to, parsers)):
            carried, undisturbed = line.carried(moment.copy(to / "undisturbed"))
            shutil.rmtree(to / "undisturbed")
            for kind in kinds_for(step, times):
                fault = Fault(kind, after=chosen.randrange(carried))  # type: ignore[arg-type]  # one of the kinds
                was_cut, spent = line.fail(moment.copy(to / "failing"), fault, moment)
                shutil.rmtree(to / "failing")
                offsets, cut = offsets + 1, cut + was_cut
                most, calm = max(most, spent), max(calm, undisturbed)
                # Whoever does not wait burns a whole PATIENCE.
                assert spent < 2 * undisturbed + PATIENCE, f"{moment.step}, {fault}"
    return f"{offsets} faults, {cut} passes cut, {most:.2f} s of CPU at most ({calm:.2f} undisturbed)"


@pytest.mark.parametrize("account", EACH_PART, indirect=True)
def test_network_that_fails_makes_no_mirror_wrong(account: Account, tmp_path: Path, parsers: Parsers) -> None:
    fail_everywhere(0, account, tmp_path, parsers)


@pytest.mark.soak
@pytest.mark.parametrize("account", EVERYWHERE, indirect=True)
def test_network_that_fails_at_any_byte_makes_no_mirror_wrong(
    account: Account, tmp_path: Path, parsers: Parsers
) -> None:
    print(f"\n{fail_everywhere(11, account, tmp_path, parsers)}")


def write_over(fault: Fault | None, account: Account, proxy: Proxy, mirror: Mirror) -> bool:
    """Everything that we write, over a network that fails; the next pass makes the mirror true. Whether it was cut."""
    with account.client() as client:
        client.append("INBOX", *(simple(f"kept {number}") for number in range(5)))
        client.create(account.name("Work"))
        client.append(account.name("Work"), simple("in Work"))
    mirror.sync()
    cut = False
    imap = account.provider.imap.model_copy(update={"port": proxy.port})
    proxy.fault = fault
    for write in WRITES:
        try:
            provider = account.provider.model_copy(update={"imap": imap})
            with Upstream.connect(provider, read_timeout=PATIENCE) as upstream:
                write(mirror.store, upstream, account.name)
        except UpstreamUnavailable:
            cut = True
    proxy.fault = None
    with account.client() as client:
        agree(mirror, client)
        # One of seven was deleted, one came, and a copy that lost its answer may be there twice: nothing else is gone.
        assert len({sha for *_, sha in mirror.listing()}) >= 5, fault
    return cut


@pytest.mark.parametrize("count", [pytest.param(8, id="part"), pytest.param(120, marks=pytest.mark.soak, id="all")])
@pytest.mark.parametrize("server", EACH_PART)
def test_writes_over_a_network_that_fails_leave_a_mirror_that_the_next_pass_makes_true(
    request: pytest.FixtureRequest, server: str, count: int, user: str, password_file: Path, make_mirror: MakeMirror
) -> None:
    provided: Server = request.getfixturevalue(server)
    chosen = random.Random(5)
    cut = 0
    with Proxy(provided.port) as proxy:
        for number in range(count + 1):
            owner = f"{user}w{number}"
            account = Account(provided, owner, provider_at(provided.port, owner, password_file))
            mirror = make_mirror(account.provider)
            if not number:
                write_over(None, account, proxy, mirror)
                written = proxy.carried
                continue
            fault = Fault(KINDS[number % len(KINDS)], after=chosen.randrange(written))  # type: ignore[arg-type]  # one of the kinds
            cut += write_over(fault, account, proxy, mirror)
    print(f"\n{count} faults within {written} bytes while writing, {cut} of them cut a write")
    assert cut > count // 2
