"""A parsing child: reads jobs from its standard input, writes results to its standard output, and fears nothing.

Everything that looks inside a mail runs here: a crash, a hang or a memory bomb costs this process and nothing else. It
ends when its input closes, so that no child outlives its parent, and an alarm ends it even inside a C library.

Frames on both pipes: 4 bytes of length, big-endian, then a pickle. An empty one says that the child is ready. A job is
(operation, [payload, ...]); one frame answers each payload, in order. The parent reads answers with a restricted
unpickler (mirror.parsing).
"""

import gc
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from mirror.columns import envelope_record
from mirror.content import degraded, read_envelope, read_with_kept, recleaned
from mirror.frames import read_frame, write_frame
from mirror.recording import record_of
from mirror.spool import octets_of


def _sanitized(normalised: bytes) -> bytes | None:
    # bleach is two fifths of a child's start, and the first texts do not need it.
    from mirror.sanitize import sanitized

    return sanitized(normalised)


OPERATIONS: dict[str, Callable[..., object]] = {
    "envelope": lambda block: envelope_record(read_envelope(block)),
    "content": lambda asked: record_of(*read_with_kept(octets_of(asked[0]), asked[1])),
    "html": _sanitized,
    "recleaned": lambda source: record_of(recleaned(source)),
    "degraded": lambda raw: record_of(degraded(octets_of(raw), "parsing this message failed before")),
}


def main() -> None:
    """Serve jobs until the input closes. Arguments: seconds per payload, bytes of address space (0: no limit)."""
    deadline, memory = int(sys.argv[1]), int(sys.argv[2])
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but frames may reach the pipe
    gc.freeze()  # what was imported stays, and is not to be looked through again and again
    try:
        _serve(source, sink, deadline)
    except BrokenPipeError:
        os._exit(0)  # nobody waits for the answer any more; what is left in the buffer has nowhere to go


def _serve(source: BinaryIO, sink: BinaryIO, deadline: int) -> None:
    write_frame(sink, b"")
    while (frame := read_frame(source)) is not None:
        job: tuple[str, list[Any]] = pickle.loads(frame)  # noqa: S301 - written by the parent itself
        operation = OPERATIONS[job[0]]
        for payload in job[1]:
            signal.alarm(deadline)  # the default action ends the process, in the middle of C code too
            try:
                result = operation(payload)
            except Exception as exc:  # noqa: BLE001 - the boundary of the process
                # Its place and kind only: the text of an exception may quote the mail.
                traceback.print_tb(exc.__traceback__)
                sys.exit(f"{type(exc).__name__} in a parsing child")
            signal.alarm(0)
            write_frame(sink, pickle.dumps(result, protocol=5))


if __name__ == "__main__":
    main()
