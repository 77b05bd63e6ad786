"""A parsing child with the faults that no mail should be able to cause: each on a word in the message."""

import os
import pickle
import time
from collections.abc import Callable
from typing import Any

from mirror import parse_child
from mirror.content import read_content


class _Evil:
    # What a child that hostile mail has taken over would answer.
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {os.environ['CANARY']}",)


def _faulty(operation: Callable[[Any], object]) -> Callable[[Any], object]:
    def run(payload: Any) -> object:
        if b"crash always" in payload or (b"crash once" in payload and operation is read_content):
            os.abort()
        if b"raise" in payload:
            raise ValueError(payload.decode())
        if b"hang" in payload:
            time.sleep(600)
        if b"eat memory" in payload:
            return bytearray(4 << 30)
        if b"evil" in payload:
            return _Evil()
        if b"not a mail" in payload:
            return pickle.loads
        return operation(payload)

    return run


if __name__ == "__main__":
    for name in ("content", "degraded"):
        parse_child.OPERATIONS[name] = _faulty(parse_child.OPERATIONS[name])
    parse_child.main()
