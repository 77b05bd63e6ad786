"""The clock of this machine against what servers and files say."""

import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from server.amounts import counted
from server.doctor.finding import Finding, fail, ok

TOLERATED = 300.0
"""Seconds."""
_DATE = re.compile(r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} [+-]\d{4}")
_SET_IT = "set the clock of this machine: timedatectl set-ntp true"


def check_clock(greetings: Iterable[str], data_dir: Path) -> Iterator[Finding]:
    """greetings: of the mail servers; some tell the time in it."""
    skews = [skew for greeting in greetings if (skew := _skew(greeting)) is not None]
    wrong = [skew for skew in skews if abs(skew) > TOLERATED]
    ahead = _from_the_future(data_dir)
    if wrong and len(wrong) == len(skews):
        way = "ahead of" if wrong[0] > 0 else "behind"
        yield fail(
            "clock", "this machine", f"the clock is {abs(wrong[0]):.0f} s {way} that of the mail server", _SET_IT
        )
    elif ahead is not None:
        yield fail("clock", "this machine", f"{ahead} was written in the future: the clock was set back", _SET_IT)
    else:
        told = f"agrees with {counted(len(skews), 'mail server')}" if skews else "nothing contradicts it"
        yield ok("clock", "this machine", told)


def _skew(greeting: str) -> float | None:
    """Seconds by which this clock is ahead of the time in a greeting, None when there is none."""
    found = _DATE.search(greeting)
    return None if found is None else (datetime.now(UTC) - parsedate_to_datetime(found[0])).total_seconds()


def _from_the_future(data_dir: Path) -> Path | None:
    latest = time.time() + TOLERATED
    kept = [*data_dir.glob("*"), *data_dir.glob("mirrors/*/*/*")]
    return next((path for path in kept if path.is_file() and path.stat().st_mtime > latest), None)
