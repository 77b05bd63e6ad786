"""Who holds the locks of the data directory, and whether that process is alive and answers."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from config.identity import Settings
from server.doctor.finding import Finding, fail, ok, warn
from server.doctor.healthz import ask

_LEFT = 600.0


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on this file now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def check_locks(settings: Settings) -> Iterator[Finding]:
    """Locks are the kernel's and die with their holder; one is stale when its holder is stopped or hangs."""
    data_dir = settings.server.data_dir
    for path in (data_dir / "serve.lock", *sorted(data_dir.glob("mirrors/*/*/lock"))):
        if (pid := holder_of(path)) and _state_of(pid) == "T":
            yield fail(
                "lock-stopped", path, f"process {pid} holds it and is stopped", f"kill -CONT {pid}, or kill {pid}"
            )
            return
    path = data_dir / "serve.lock"
    if not is_held(path):
        yield ok("serve", data_dir, "not running")
        return
    pid = holder_of(path)
    said = ask(settings.server, settings.server.host, settings.server.port)
    if said == "ok":
        yield ok("serve", data_dir, "running, and well")
    elif said == "degraded":
        yield warn("serve-degraded", data_dir, "serve runs and says degraded", "its log says why; mend what fails here")
    else:
        yield fail(
            "serve-hangs",
            path,
            f"process {pid or 'unknown'} holds the lock of serve, and nothing answers on"
            f" {settings.server.host}:{settings.server.port} ({said})",
            f"kill {pid} and start serve again, unless it was started with another --port" if pid else "restart serve",
        )


def holder_of(path: Path) -> int:
    """The process that holds the lock on this file, 0 when nobody does or it cannot be told."""
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text("ascii").splitlines()
    except OSError:
        return 0
    for line in lines:
        words = line.split()
        if "FLOCK" in words and words[-3].endswith(f":{inode}"):
            return int(words[-4])
    return 0


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""
