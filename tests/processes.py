"""Processes under test: waiting for what they do, and finding what they started."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLDER = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def holding(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a lock file and does nothing else, for the length of a block."""
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(lock)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def until(true: Callable[[], bool], seconds: float = 90) -> None:
    """Return as soon as the condition holds; fail when it never does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """Process ids of the children of a process, whichever of its threads started them."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for thread in threads for word in (thread / "children").read_text("ascii").split()]
    except FileNotFoundError:
        return []


def descendants_of(pid: int) -> list[int]:
    """Process ids of everything below a process."""
    found = []
    for child in children_of(pid):
        found += [child, *descendants_of(child)]
    return found


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
