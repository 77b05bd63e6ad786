"""A nudge from any process to the sync worker: one datagram on a Unix socket in the data directory."""

import contextlib
import os
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path

NAME = "wake"
_NOW = b"."
_LONGEST_ADDRESS = 100


def wake(data_dir: Path) -> bool:
    """Ask the worker to look at its work now. False when no worker listens; nothing is lost, its next pass comes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            with _address(data_dir) as address:
                sender.sendto(_NOW, address)
        except BlockingIOError:
            return True  # its queue is full of nudges already
        except OSError:
            return False
    return True


class WakeUps:
    """The worker's end. Receiving drains every nudge that has come."""

    def __init__(self, data_dir: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        (data_dir / NAME).unlink(missing_ok=True)
        with _address(data_dir) as address:
            self._socket.bind(address)
        (data_dir / NAME).chmod(0o600)

    def fileno(self) -> int:
        """The socket, for a selector; -1 once it is closed."""
        return self._socket.fileno()

    def wait(self, timeout: float) -> bool:
        """True as soon as somebody nudged, False after so many seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(timeout)) and self.drain()

    def drain(self) -> bool:
        """Take every nudge that has come; whether there was one. False once it is closed."""
        came = False
        with contextlib.suppress(OSError):
            while self._socket.recv(16):
                came = True
        return came

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@contextlib.contextmanager
def _address(data_dir: Path) -> Iterator[str]:
    # A Unix socket's address holds about 107 bytes; a long folder is reached by its descriptor.
    plain = str(data_dir / NAME)
    if len(os.fsencode(plain)) <= _LONGEST_ADDRESS:
        yield plain
        return
    folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)
