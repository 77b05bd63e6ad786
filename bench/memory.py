"""Resident memory of the processes of `postmirror serve`: while it makes the first sync, and afterwards."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.asks import Ask
from bench.clients import LeanClient, tool_call
from bench.figures import Figure, Section
from bench.installation import Installation, Mailbox
from mirror.errors import MirrorAbsent
from mirror.query.reader import Reader

_LOOK_EVERY = 0.2
_LONGEST = 3_600.0
_SETTLE = 2.0
_MB = 1 / 1_024


def resident_memory(mailbox: Mailbox, folder: Path, installation: Installation, asked: Sequence[Ask]) -> Section:
    """PSS (shared pages divided among their users) and RSS. asked: questions for the installation, asked 20 times."""
    if not sys.platform.startswith("linux"):
        return Section("Memory", ("PSS", "RSS"), note="Measured on Linux only: it is read from /proc.")
    figures = []
    fresh = Installation(folder / "memory", mailbox)
    with fresh.serving() as served:
        peaks = _peaks_until_complete(served.pid, fresh, mailbox)
    figures += [Figure(f"first sync, peak: {role}", *_shown(size)) for role, size in peaks.items()]
    secret = installation.token("open")
    with installation.serving() as served:
        with LeanClient(served.port) as client:
            for ask in (ask for ask in asked if ask.profile == "open"):
                for number in range(20):
                    arguments = ask.arguments[number % len(ask.arguments)]
                    client.send(tool_call(served.port, "/mcp", secret, ask.tool, arguments))
        time.sleep(_SETTLE)
        idle = dict(sizes(served.pid))
        own = _own_memory(served.pid)
    figures += [Figure(f"idle: {role}", *_shown(size)) for role, size in idle.items()]
    figures.append(Figure("idle: web process, own memory", own, "MB"))
    total = [sum(sizes) for sizes in zip(*idle.values(), strict=True)]
    figures.append(Figure("idle: all of it", *_shown((total[0], total[1]))))
    note = (
        "PSS divides pages among the processes that share them. It counts the pages of the mirror's file that readers "
        "have mapped, which the system takes back when it needs them; own memory does not."
    )
    return Section("Memory", ("PSS", "RSS"), figures, note)


def _shown(size: tuple[float, float]) -> tuple[float, str, float]:
    return size[0], "MB", size[1]


def _peaks_until_complete(web: int, installation: Installation, mailbox: Mailbox) -> dict[str, tuple[float, float]]:
    peaks: dict[str, tuple[float, float]] = {}
    deadline = time.monotonic() + _LONGEST
    while not _is_complete(installation, mailbox):
        if time.monotonic() > deadline:
            raise TimeoutError("the first sync did not end")
        for role, (pss, rss) in sizes(web):
            before = peaks.get(role, (0.0, 0.0))
            peaks[role] = max(before[0], pss), max(before[1], rss)
        time.sleep(_LOOK_EVERY)
    return peaks


def _is_complete(installation: Installation, mailbox: Mailbox) -> bool:
    try:
        with Reader(installation.mirror / "mirror.db") as reader:
            if reader.account().pass_ended is None:
                return False
            return sum(folder.messages - folder.pending for folder in reader.folders()) == mailbox.messages
    except MirrorAbsent:
        return False


def sizes(web: int) -> Iterator[tuple[str, tuple[float, float]]]:
    """(PSS, RSS) in MB of the web process, its sync worker, and the worker's parsing children."""
    yield "web process", _size(web)
    for worker in _children(web):
        yield "sync worker", _size(worker)
        # A child that is being started shows its parent's memory until it runs its own program.
        started = [child for child in _children(worker) if _command(child) != _command(worker)]
        for number, child in enumerate(started, 1):
            yield f"parsing child {number}", _size(child)


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return sorted(int(word) for thread in threads for word in thread.read_text("ascii").split())


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _size(pid: int) -> tuple[float, float]:
    try:
        sizes = _smaps(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0  # it ended just now
    return sizes["Pss"], sizes["Rss"]


def _own_memory(pid: int) -> float:
    return _smaps(pid)["Pss_Anon"]


def _smaps(pid: int) -> dict[str, float]:
    """MB by the names of the kernel."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
    return {name: int(rest.split()[0]) * _MB for name, _, rest in (line.partition(":") for line in lines)}
