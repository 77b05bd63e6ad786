"""When passes are made: the only import of apscheduler.

Every mirror has an interval job with jitter, coalesced, one at a time; a nudge (a reader that waits, `postmirror sync`,
IDLE) adds a job for now. Passes of at most `workers` accounts run at once. IDLE threads live outside that pool.
"""

import datetime
import random
import selectors
import threading
from collections.abc import Sequence

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from mirror.keeper import Keeper

FIRST_RUNS_WITHIN = 5.0
"""Seconds over which the first passes of more than a few accounts are spread."""
_POLL = 0.5


class Schedule:
    """Runs keepers until told to stop."""

    def __init__(self, keepers: Sequence[Keeper], workers: int, stopping: threading.Event) -> None:
        self._keepers = keepers
        self._stopping = stopping
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(workers)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=datetime.UTC,
        )

    def run(self) -> None:
        """Make passes, and answer nudges, until stopping is set."""
        for number, keeper in enumerate(self._keepers):
            interval = keeper.provider.sync.interval.total_seconds()
            spread = random.uniform(0, FIRST_RUNS_WITHIN) if number >= len(self._keepers) // 2 > 2 else 0  # noqa: S311 - jitter
            self._scheduler.add_job(
                keeper.run,
                IntervalTrigger(seconds=interval, jitter=interval / 10, timezone=datetime.UTC),
                id=keeper.name,
                next_run_time=datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=spread),
            )
        self._scheduler.start()
        for keeper in self._keepers:
            if keeper.provider.sync.idle:
                threading.Thread(
                    target=keeper.idle, args=(self._nudge,), name=f"idle {keeper.name}", daemon=True
                ).start()
        try:
            while not self._stopping.is_set():
                self._watch()
        finally:
            self._scheduler.shutdown(wait=True)
            for keeper in self._keepers:
                keeper.close()

    def _watch(self) -> None:
        """Wait a moment for nudges, and run what has waited long enough after a failure."""
        with selectors.DefaultSelector() as selector:
            for keeper in self._keepers:
                wake_ups = keeper.wake_ups
                if wake_ups is not None and wake_ups.fileno() >= 0:
                    selector.register(wake_ups, selectors.EVENT_READ, (keeper, wake_ups))
            for key, _ in selector.select(_POLL) if selector.get_map() else ():
                keeper, wake_ups = key.data
                wake_ups.drain()
                self._nudge(keeper)
            if not selector.get_map():
                self._stopping.wait(_POLL)
        for keeper in self._keepers:
            if keeper.is_due():
                self._run_soon(keeper)

    def _nudge(self, keeper: Keeper) -> None:
        keeper.nudge()
        self._run_soon(keeper)

    def _run_soon(self, keeper: Keeper) -> None:
        if not self._stopping.is_set():
            self._scheduler.add_job(keeper.run, id=f"{keeper.name} now", replace_existing=True)
