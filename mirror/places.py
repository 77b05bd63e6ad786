"""Places for work that is done at the same time: as many as the moment allows, given in the order of asking."""

import threading
from collections import deque
from collections.abc import Callable

_LOOK_EVERY = 1.0
"""Seconds after which who waits looks whether there are more places now."""


class Places:
    """A semaphore whose size changes. size: how many there are now, at least one; asked whenever one may be free."""

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._taken = 0

    def __enter__(self) -> "Places":
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                while self._waiting[0] is not turn or self._taken >= self._size():
                    self._changed.wait(_LOOK_EVERY)
                self._taken += 1
            finally:
                # Whoever gives up waiting (Ctrl-C) must not stand in the way of those behind.
                self._waiting.remove(turn)
                self._changed.notify_all()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()
