"""A network that fails at any byte: never a wrong mirror, always recovered, no time burnt."""

# ruff: noqa: T201 - the long runs print their figures

import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirror.parsing import Parsers
from tests.mirror.mailbox import Mirror
from tests.mirror.scenario import Account
from tests.mirror.test_interruption import EACH_PART, EVERYWHERE
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

    def fail(self, folder: Path, fault: Fault, moment: Moment) -> tuple[int, float]:
        """Passes of which one meets the fault: how many were cut, and CPU seconds."""
        mirror = Mirror(folder, self._provider, self._parsers)
        self._proxy.fault = fault
        cut = 0
        began = time.process_time()
        for _ in range(_PASSES):
            try:
                mirror.sync(lambda: mirror.connect(read_timeout=PATIENCE), batch=8)
            except ConnectionError:
                cut += 1
        spent = time.process_time() - began
        self._proxy.fault = None
        assert cut <= 1, f"{moment.step}, {fault}"
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
                fault = Fault(kind, after=chosen.randrange(carried))  # type: ignore[arg-type]
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
