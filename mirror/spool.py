"""Large mail on its way from the server to the parser: in a file, so that no process of ours holds it whole.

A file lives as long as the value that names it; what a killed process left behind goes when its mirror is opened again.
"""

import hashlib
import os
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_PREFIX = "spool-"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Spooled:
    """A mail in a file. digest: its SHA-256."""

    path: str
    size: int
    digest: bytes

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """All of it: for the parsing children only."""
        return Path(self.path).read_bytes()


Raw = bytes | Spooled
"""A mail as it came."""


def octets_of(raw: Raw) -> bytes:
    """The octets of a mail, wherever they are."""
    return raw if isinstance(raw, bytes) else raw.read()


def digest_of(raw: Raw) -> bytes:
    """The SHA-256 of a mail, wherever it is."""
    return hashlib.sha256(raw).digest() if isinstance(raw, bytes) else raw.digest


def spooled(folder: Path, write: Callable[[Callable[[bytes], None]], bool]) -> Spooled | None:
    """What `write` hands over piece by piece, in a file of this folder; None when it returns False."""
    descriptor, path = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            sink = _Sink(file)
            is_whole = write(sink.add)
    except BaseException:
        os.unlink(path)
        raise
    if not is_whole:
        os.unlink(path)
        return None
    made = Spooled(path, sink.size, sink.digest.digest())
    weakref.finalize(made, Path(path).unlink, missing_ok=True)
    return made


class _Sink:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self.digest = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        self._file.write(piece)
        self.digest.update(piece)
        self.size += len(piece)


def sweep_spool(folder: Path) -> None:
    """Remove what a process left behind. The caller holds the mirror: nobody else spools there."""
    for path in folder.glob(f"{_PREFIX}*"):
        path.unlink(missing_ok=True)
