"""One end of a pipe or a socket that makes nobody wait, and the standard streams as such."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

STDIN, STDOUT, STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Channel:
    """read and write raise BlockingIOError where they would have to wait."""

    fd: int
    read: Callable[[int], bytes]
    write: Callable[[bytes | bytearray], int]
    close: Callable[[], None]

    @classmethod
    def over(cls, fd: int, flags: int) -> "Channel | None":
        """A channel to what a descriptor is open on; None when that is neither a pipe nor a socket.

        O_NONBLOCK is not set on the descriptor itself: others that share it, such as a shell, would find it changed.
        """
        kind = os.fstat(fd).st_mode
        if stat.S_ISSOCK(kind):
            end = socket.socket(fileno=os.dup(fd))
            now = socket.MSG_DONTWAIT
            return cls(end.fileno(), lambda most: end.recv(most, now), lambda data: end.send(data, now), end.close)
        if not stat.S_ISFIFO(kind):
            return None
        try:
            own = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
        except OSError:  # not on Linux, or the pipe of another user
            return None
        return cls(own, partial(os.read, own), partial(os.write, own), partial(os.close, own))


@contextmanager
def claimed(fd: int, flags: int) -> Iterator[Channel | None]:
    """A channel to a standard stream that nobody else has for the length of a block; None when it can be none."""
    channel = Channel.over(fd, flags)
    if channel is None:
        yield None
        return
    kept = os.dup(fd)
    diverted = os.open(os.devnull, os.O_RDONLY) if fd == STDIN else os.dup(STDERR)
    os.dup2(diverted, fd)
    os.close(diverted)
    try:
        yield channel
    finally:
        channel.close()
        os.dup2(kept, fd)
        os.close(kept)
