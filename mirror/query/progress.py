"""How far a search has got, and when its time is up."""

import logging
import sqlite3
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from mirror.query.sql import Value
from mirror.query.ways import plan

_log = logging.getLogger(__name__)

_INSTRUCTIONS = 2_000
"""SQLite instructions between two looks at the clock."""
_MANY = 5_000
"""Messages tested for one page that are worth a line in the log."""

Pair = tuple[int, int]
Rows = Iterator[Pair]
_DONE = -(2**62)


class OutOfTime(Exception):
    """A search newest first was cut; everything before the position was tested.

    shown_back_to: the INTERNALDATE of the last message on the way that a view showed, None for none.
    """

    def __init__(self, position: Pair, shown_back_to: datetime | None = None) -> None:
        super().__init__(position)
        self.position = position
        self.shown_back_to = shown_back_to


class Progress:
    """Down to which content id a search newest first has tested everything, and whether time is left for more."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._began = self._end = 0.0
        self._tested = 0
        self._statement: tuple[str, tuple[Value, ...]] = ("", ())
        self._reached = 0
        self._reached_lines = self._reached_pending = _DONE
        self._produced: dict[int, deque[Pair]] = {}
        connection.create_function("produced", 3, self._produce)
        connection.create_function("reached", 1, self._reach)
        connection.create_function("reached_lines", 1, self.reach_lines)
        connection.create_function("reached_pending", 1, self._reach_pending)

    def start(self, seconds: float) -> None:
        """From now on, statements are interrupted when that many seconds have passed."""
        self._began = time.monotonic()
        self._end = self._began + seconds
        self._tested = 0
        self._produced.clear()
        self._connection.set_progress_handler(self.is_over, _INSTRUCTIONS)

    def stop(self) -> None:
        """Let statements run without a limit again."""
        self._connection.set_progress_handler(None, 0)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Statements within run without a limit: they are short, and their result is wanted even when time is up."""
        self.stop()
        try:
            yield
        finally:
            self._connection.set_progress_handler(self.is_over, _INSTRUCTIONS)

    def tell(self, folder: int) -> None:
        """Log a search that looked at many messages one by one: its plan, and not what was searched for."""
        if self._tested >= _MANY:
            statement, values = self._statement
            facts = {
                "folder": folder,
                "tested": self._tested,
                "milliseconds": round(1000 * (time.monotonic() - self._began)),
                "plan": plan(self._connection, statement, values),
            }
            _log.info("a search looked at messages one by one", extra=facts)

    def executing(self, statement: str, values: tuple[Value, ...]) -> None:
        """The statement that is run from now on."""
        self._statement = (statement, values)

    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._end

    def rows(self, statement: str, values: Sequence[str | int]) -> Iterator[Pair]:
        """The rows of a statement that gives pairs in index order, all that it produced before it was interrupted.

        Python's sqlite3 steps to the next row before it hands out the current one, and loses that when the step fails.
        """
        slot = len(self._produced)
        ahead = self._produced[slot] = deque()
        self.executing(statement, (slot, *values))
        try:
            for content, message, _ in self._connection.execute(statement, (slot, *values)):
                ahead.popleft()
                yield content, message
        except sqlite3.OperationalError:
            yield from ahead
            raise

    def begin(self, high: int) -> None:
        """Everything above `high` was tested, nothing else."""
        self._reached = high + 1
        self._reached_lines = self._reached_pending = _DONE

    def together(self, rows: Rows, lines: Rows, pending: Rows) -> list[Rows]:
        """Streams to be merged: what is tested is what all have passed."""
        self._reached_lines = self._reached_pending = self._reached
        return [self._until_done(rows), self._until_lines_done(lines), self._until_pending_done(pending)]

    def passed(self, high: int, count: int, most: int) -> None:
        """One statement tested everything above `high`: so many messages, of so many that there are."""
        self.begin(high)
        self._tested = min(self._tested + count, most)

    def reach_lines(self, content: int) -> bool:
        """The header lines of every content above this were tested. Always true."""
        self._reached_lines = content
        self._tested += 1
        return True

    @property
    def tested_above(self) -> int:
        """Every content with an id above this was tested. It may itself be tested in part."""
        return max(self._reached, self._reached_lines, self._reached_pending)

    def _until_done(self, rows: Rows) -> Rows:
        yield from rows
        self._reached = _DONE

    def _until_lines_done(self, rows: Rows) -> Rows:
        yield from rows
        self._reached_lines = _DONE

    def _until_pending_done(self, rows: Rows) -> Rows:
        yield from rows
        self._reached_pending = _DONE

    def _produce(self, slot: int, content: int, message: int) -> None:
        self._produced[slot].append((content, message))

    def _reach(self, content: int) -> bool:
        self._reached = content
        self._tested += 1
        return True

    def _reach_pending(self, content: int) -> bool:
        self._reached_pending = content
        return True
