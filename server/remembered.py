"""What was made of objects lately, found again by the very same objects, never by others that are like them."""

import threading
from collections.abc import Sequence
from itertools import islice
from operator import is_
from typing import Generic, TypeVar

V = TypeVar("V")
Objects = tuple[object, ...]

_FORGOTTEN_AT_ONCE = 50


class Remembered(Generic[V]):
    """The latest `most` values. Safe to share between threads.

    It is for pure functions of objects that nobody changes: then a value never grows old. The objects are kept as long
    as their value, so that no other one can take their place in memory.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: dict[tuple[int, ...], tuple[Objects, V]] = {}

    def find(self, objects: Objects) -> tuple[V] | None:
        """The value made of these objects, in a tuple; None when there is none."""
        found = self._values.get(tuple(map(id, objects)))
        return (found[1],) if found is not None and all(map(is_, found[0], objects)) else None

    def keep(self, made: Sequence[tuple[Objects, V]]) -> None:
        """Keep these values, and forget the oldest when there are too many."""
        with self._lock:
            self._values.update((tuple(map(id, objects)), (objects, value)) for objects, value in made)
            if len(self._values) > self._most:
                excess = len(self._values) - self._most + _FORGOTTEN_AT_ONCE
                for oldest in list(islice(self._values, excess)):
                    del self._values[oldest]
