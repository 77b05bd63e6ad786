"""How often the gateway tools may reach the servers of one account: sliding windows on a monotonic clock.

What is counted is what reaches a server. IMAP operations are counted in this process. Sends are counted here, so that
a clock that is set cannot open the window, and from the journal, so that a restart cannot either.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil

from server.auth import Caller
from server.tool import Declined

MINUTE = 60.0
HOUR = 3_600.0

History = Callable[[str, str], Sequence[float]]
"""(user, provider) -> how many seconds ago each mail of the last hour was handed to the mail server, oldest first."""


class RateLimited(Declined):
    """The account's limit is reached. retry_after_seconds: until the next operation fits."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Rate limit exceeded. Please try again later.", retry_after_seconds=max(1, ceil(seconds)))


@dataclass(frozen=True, slots=True)
class Taken:
    """A place in a window."""

    window: deque[float]
    at: float
    lock: threading.Lock

    def give_back(self) -> None:
        """It was not used."""
        with self.lock, suppress(ValueError):
            self.window.remove(self.at)


class Limits:
    """The windows of every account. Safe to share between threads."""

    def __init__(self, history: History, clock: Callable[[], float] = time.monotonic) -> None:
        self._history = history
        self._clock = clock
        self._lock = threading.Lock()
        self._operations: dict[tuple[str, str], deque[float]] = {}
        self._sends: dict[tuple[str, str], deque[float]] = {}

    def read(self, caller: Caller) -> None:
        """A read of the mirror: counted only where the profile says so. Raises RateLimited."""
        if caller.policy.limits.count_reads:
            self._take(self._operations, caller, caller.policy.limits.imap_per_minute, MINUTE, ())

    def operate(self, caller: Caller) -> None:
        """An operation that reaches the IMAP server. Raises RateLimited."""
        self._take(self._operations, caller, caller.policy.limits.imap_per_minute, MINUTE, ())

    @contextmanager
    def sending(self, caller: Caller, *unsent: type[BaseException]) -> Iterator["Taken"]:
        """A block that sends one mail; an error of these kinds says that no server was called. Raises RateLimited."""
        history = self._history(caller.user, caller.provider)
        at = self._take(self._sends, caller, caller.policy.limits.smtp_per_hour, HOUR, history)
        taken = Taken(self._sends[caller.user, caller.provider], at, self._lock)
        try:
            yield taken
        except BaseException as exc:
            if isinstance(exc, (RateLimited, *unsent)):
                taken.give_back()
            raise

    def _take(
        self,
        windows: dict[tuple[str, str], deque[float]],
        caller: Caller,
        most: int,
        seconds: float,
        history: Sequence[float],
    ) -> float:
        with self._lock:
            now = self._clock()
            window = windows.setdefault((caller.user, caller.provider), deque())
            while window and now - window[0] >= seconds:
                window.popleft()
            waits = [seconds - (now - window[-most]) if len(window) >= most else 0.0]
            if len(history) >= most:
                waits.append(seconds - history[-most])
            if max(waits) > 0:
                raise RateLimited(max(waits))
            window.append(now)
            return now
