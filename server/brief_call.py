"""Calls that are over within milliseconds, served on the event loop's own thread.

Beside a read, handing it to a thread and back is dear: every row that SQLite gives out is a moment at which threads
fight for the interpreter, so that 16 clients got half of the answers a second that one thread gives. A call is begun
here, and whatever may take longer - the time of a search is up, a text has to be waited for, a mirror to be opened -
gives it up with NotBrief; then it begins anew on a thread of its own. So only what changes nothing is begun here.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

BRIEF_SECONDS = 0.005
"""How long a search may go on before a thread does it. What is read beside it is bounded: a page, or some texts."""

T = TypeVar("T")


class NotBrief(Exception):
    """The call has to be made on a thread."""


_until: ContextVar[float | None] = ContextVar("brief_until", default=None)
_was_given_up: ContextVar[bool] = ContextVar("was_given_up", default=False)


@contextmanager
def given_up() -> Iterator[None]:
    """Serve a block for a call that was begun here already and has to be made on a thread."""
    reset = _was_given_up.set(True)
    try:
        yield
    finally:
        _was_given_up.reset(reset)


def briefly(work: Callable[[], T]) -> T:
    """What work returns, called here. Raises NotBrief when it could hold others up."""
    if _was_given_up.get():
        raise NotBrief
    reset = _until.set(time.monotonic() + BRIEF_SECONDS)
    try:
        return work()
    finally:
        _until.reset(reset)


def time_left() -> float | None:
    """Seconds that this call may still take here, None for as long as it needs. Raises NotBrief when there are none."""
    until = _until.get()
    if until is None:
        return None
    if (left := until - time.monotonic()) <= 0:
        raise NotBrief
    return left


def will_take_long() -> None:
    """Say so before anything that waits or may take long. Raises NotBrief where that would hold others up."""
    if _until.get() is not None:
        raise NotBrief
