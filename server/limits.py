"""How often the gateway tools may reach the servers of one account: sliding windows on a monotonic clock.

What is counted is what reaches a server. IMAP operations are counted in this process. Sends are counted here, so that
a clock that is set cannot open the window, and from the journal, so that a restart cannot either.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil

from server.auth import Caller
from server.state import State
from server.tool import Declined

MINUTE = 60.0
HOUR = 3_600.0

History = Callable[[str, str], Sequence[float]]
"""(user, provider) -> how many seconds ago each mail of the last hour was handed to the mail server, oldest first."""


def recent_sends(state: State, user: str, provider: str) -> list[float]:
    """The history of an account, from the journal."""
    now = time.time()
    ages = [
        now - line.created
        for line in state.submissions()
        if (line.user, line.provider) == (user, provider) and line.state != "refused" and now - line.created < HOUR
    ]
    # A clock that was set back leaves lines of the future: they count as of now.
    return [max(age, 0.0) for age in ages[::-1]]


class RateLimited(Declined):
    """The account's limit is reached. retry_after_seconds: until the next operation fits."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Rate limit exceeded. Please try again later.", retry_after_seconds=max(1, ceil(seconds)))


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
    def sending(self, caller: Caller, *unsent: type[BaseException]) -> Iterator[None]:
        """A block that sends one mail; an error of these kinds says that no server was called. Raises RateLimited."""
        history = self._history(caller.user, caller.provider)
        taken = self._take(self._sends, caller, caller.policy.limits.smtp_per_hour, HOUR, history)
        try:
            yield
        except unsent:
            with self._lock:
                self._sends[caller.user, caller.provider].remove(taken)
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
