"""The machine that a benchmark ran on, in the words that its figures need beside them."""

import os
import platform
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """load: the average of the last minute when the run began; above 0.5 somebody else was at work."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    python: str
    sqlite: str
    load: float
    date: str

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gb:.0f} GB, {self.system}, Python {self.python}, "
            f"SQLite {self.sqlite}; load {self.load:.1f} at the start; {self.date}"
        )


def this_machine() -> Machine:
    """The machine as it is now."""
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_gb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        load=os.getloadavg()[0],
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
