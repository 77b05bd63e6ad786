"""Frames on a pipe: 4 bytes of length, big-endian, then that many octets."""

import struct
from typing import BinaryIO

HEADER = struct.Struct(">I")


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame's bytes; None when the other side closed the pipe."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    size = HEADER.unpack(header)[0]
    frame = stream.read(size)
    return frame if len(frame) == size else None


def write_frame(stream: BinaryIO, frame: bytes) -> None:
    """Send one frame."""
    stream.write(HEADER.pack(len(frame)) + frame)
    stream.flush()
