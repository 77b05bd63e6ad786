"""Ports that test servers get."""

import subprocess
import sys

from tests.servers.ports import free_port, reserve

TAKE_ONE = "from tests.servers.ports import free_port; print(free_port(), flush=True); input()"


def test_a_port_is_given_out_once_among_all_test_runs() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TAKE_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert not reserve(theirs)
        other.communicate("\n")
    assert reserve(theirs)
    assert not reserve(free_port())
