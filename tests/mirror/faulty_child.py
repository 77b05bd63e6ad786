"""A parsing child with the faults that no mail should be able to cause: each on a word in the message."""

import os
import pickle
import time
from collections.abc import Callable
from typing import Any

from mirror import parse_child


class _Evil:
    # What a child that hostile mail has taken over would answer.
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {os.environ['CANARY']}",)


_CONTENT = parse_child.OPERATIONS["content"]


def _faulty(operation: Callable[[Any], object]) -> Callable[[Any], object]:
    def run(asked: Any) -> object:
        payload = asked[0] if operation is _CONTENT else asked
        if b"crash always" in payload or (b"crash once" in payload and operation is _CONTENT):
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
        answer: Any = operation(asked)
        if b"odd record" in payload:
            return answer._replace(preview=[1])
        if b"odd attachment" in payload:
            return answer._replace(kept=((1, payload),))
        if b"half a character" in payload:
            return answer._replace(envelope=answer.envelope._replace(subject="\ud800"))
        return answer

    return run


if __name__ == "__main__":
    time.sleep(float(os.environ.get("SLOW_START", "0")))
    for name in ("content", "degraded"):
        parse_child.OPERATIONS[name] = _faulty(parse_child.OPERATIONS[name])
    parse_child.main()
