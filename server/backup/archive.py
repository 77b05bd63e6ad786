"""A backup: one tar file with what cannot be had again, and on demand the mirrors.

manifest.json          first: the format, when it was made and by which version, size and SHA-256 of every other member
config/postmirror.toml the configuration; never the secrets that it names
data/key, data/state.db, data/audit/*
data/mirrors/USER/PROVIDER/mirror.db, …/blobs/*/*   with mirrors only

server.backup.writing writes one, server.backup.restoring reads it.
"""

import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.unusable import FileUnusable

FORMAT = 1
CONFIG = "config/postmirror.toml"
MANIFEST = "manifest.json"
_LARGEST = 64 << 20
MEMBER = re.compile(
    r"config/postmirror\.toml|data/(?:key|state\.db|audit/(?:\d{8}\.jsonl|head|keys-[0-9a-f]{16})"
    r"|mirrors/[a-z0-9][a-z0-9_-]{0,31}/[a-z0-9][a-z0-9_-]{0,31}/(?:mirror\.db|blobs/[0-9a-f]{2}/[0-9a-f]{62}))"
)


class NothingToBackUp(FileUnusable):
    """The data directory holds nothing yet."""


class NotEmpty(FileUnusable):
    """A backup is not restored over anything."""


class ArchiveUnusable(FileUnusable):
    """The file is no backup, of a newer version, or damaged."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a backup. made: when, in ISO 8601. mirrors: USER/PROVIDER of those in it."""

    made: str
    files: int
    size: int
    mirrors: tuple[str, ...]


def read_config(source: Path) -> str:
    """The configuration in a backup. Raises ArchiveUnusable."""
    with opened(source) as tar:
        read_manifest(tar, source)
        while (member := tar.next()) is not None:
            if member.name == CONFIG and (file := tar.extractfile(member)) is not None:
                return file.read().decode("utf-8", "replace")
    raise ArchiveUnusable(f"{source}: there is no configuration in it")


@contextmanager
def opened(source: Path) -> Iterator[tarfile.TarFile]:
    """A backup, for reading. Raises ArchiveUnusable, also for what the block finds damaged."""
    try:
        with tarfile.open(source, mode="r:") as tar:
            yield tar
    except tarfile.TarError as exc:
        raise ArchiveUnusable(f"{source} is no backup of postmirror, or it was cut short: {exc}") from exc
    except FileNotFoundError as exc:
        raise ArchiveUnusable(f"{exc.filename}: there is no such file") from exc


def read_manifest(tar: tarfile.TarFile, source: Path) -> dict[str, Any]:
    """`{"format", "made", "files": {name: {"size", "sha256"}}}`, checked. Raises ArchiveUnusable."""
    first = tar.next()
    file = None if first is None or first.name != MANIFEST or first.size > _LARGEST else tar.extractfile(first)
    try:
        manifest = json.loads(b"" if file is None else file.read())
        number, files = int(manifest["format"]), dict(manifest["files"])
        str(manifest["made"])
    except (ValueError, TypeError, KeyError) as exc:
        raise ArchiveUnusable(f"{source} is no backup of postmirror") from exc
    if number != FORMAT:
        raise ArchiveUnusable(f"{source} was made by a newer postmirror (format {number}): upgrade the program")
    if strange := [name for name in files if not MEMBER.fullmatch(name)]:
        raise ArchiveUnusable(f"{source} holds a file that no backup has: {strange[0]!r}")
    return dict(manifest)


def contents_of(made: str, files: dict[str, dict[str, Any]]) -> Contents:
    """What a manifest tells."""
    mirrors = sorted("/".join(name.split("/")[2:4]) for name in files if name.endswith("/mirror.db"))
    return Contents(made, len(files), sum(int(each["size"]) for each in files.values()), tuple(mirrors))
