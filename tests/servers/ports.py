"""Where the servers of the tests listen, and what lets users in."""

import fcntl
import os
import random
import socket
import tempfile
import time
from functools import cache
from pathlib import Path

HOST = "127.0.0.1"
PASSWORD = "correct-horse"
# Below the range that outgoing connections are given, so that nothing else takes the port of a stopped server.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A loopback port that nothing listens on, and that no other call gives out while this process lives."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        if not reserve(port):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free loopback port")


def reserve(port: int) -> bool:
    """Whether nobody has this port; from now on this process has it, until it ends.

    By a lock on one byte of a file that all test runs share. A port that was only looked at could be given out twice
    before a server listens on it.
    """
    if port in _ours:
        return False
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    _ours.add(port)
    return True


_ours: set[int] = set()


@cache
def _reservations() -> int:
    # Opened once and never closed: closing any descriptor of a file gives up all locks of the process on it.
    path = Path(tempfile.gettempdir()) / f"postmirror-test-ports-{os.geteuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def wait_for_greeting(port: int, *, seconds: float = 10.0) -> bytes:
    """The first line a server says on this port, within the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((HOST, port), timeout=1) as connection, connection.makefile("rb") as lines:
                if greeting := lines.readline():
                    return greeting
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing greets on port {port} after {seconds:.0f} s")
        time.sleep(0.02)
