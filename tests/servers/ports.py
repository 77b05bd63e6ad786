"""Where the servers of the tests listen, and what lets users in."""

import random
import socket
import time

HOST = "127.0.0.1"
PASSWORD = "correct-horse"
# Below the range that outgoing connections are given, so that nothing else takes the port of a stopped server.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A loopback port that nothing listens on."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free loopback port")


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
