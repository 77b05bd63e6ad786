"""Room on the disk, and whether the data directory can be written."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from server.doctor.finding import Finding, fail, ok, warn

LEAST = 200_000_000
"""Bytes below which sends, changes and passes are about to fail."""
PROBE = 1 << 20
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs")


def check_disk(data_dir: Path) -> Iterator[Finding]:
    """Of the file system that holds the data directory, or will."""
    place = next(folder for folder in (data_dir, *data_dir.parents) if folder.is_dir())
    if data_dir.is_dir() and (reason := _cannot_write(data_dir)):
        yield fail(
            "disk-write",
            data_dir,
            f"a file of 1 MB cannot be written: {reason}",
            "make room on this disk, or raise the quota or limit",
        )
    room = os.statvfs(place)
    largest = max((path.stat().st_size for path in data_dir.glob("mirrors/*/*/mirror.db")), default=0)
    yield judge_room(room.f_bavail * room.f_frsize, largest, data_dir)
    if room.f_files and not room.f_favail:
        yield fail("disk-inodes", data_dir, "the file system has no inode left", "remove files from this file system")
    kind = _kind(place)
    if kind in _REMOTE:
        yield fail(
            "disk-remote", data_dir, f"it is on {kind}, where SQLite's log and locks do not hold", "use a local disk"
        )


def judge_room(free: int, largest: int, data_dir: Path) -> Finding:
    """free: bytes. largest: bytes of the largest mirror, which a clean-up writes anew."""
    if free < LEAST:
        return fail("disk-full", data_dir, f"{free // 1_000_000} MB are free", "make room on this disk")
    if free < 3 * largest:
        return warn(
            "disk-cleanup",
            data_dir,
            f"{free // 1_000_000} MB are free; the weekly clean-up of the largest mirror wants three times its size,"
            f" {3 * largest // 1_000_000} MB, and is put off until then",
            "make room on this disk",
        )
    return ok("disk", data_dir, f"{free // 1_000_000} MB are free")


def _cannot_write(data_dir: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=data_dir) as file:
            file.write(bytes(PROBE))
            file.flush()
    except OSError as exc:
        return exc.strerror or type(exc).__name__
    return ""


def _kind(place: Path) -> str:
    """The type of the file system that a folder is on, "" where that cannot be told."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    found = [(words[4], line.partition(" - ")[2].split()[0]) for line in lines if len(words := line.split()) > 4]
    below = [(len(point), kind) for point, kind in found if place.absolute().is_relative_to(point)]
    return max(below, default=(0, ""))[1]
