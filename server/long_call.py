"""Calls that take long: a tool tells how far it is, and stops when nobody waits for the answer any more.

A tool that may take long runs on a thread and calls `still_wanted` between two steps. What it tells goes to the client
when the client asked for it with a progress token; a client that reads slowly holds up no thread, since only the newest
step is kept for it.
"""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.context import ServerRequestContext

_EVERY_SECONDS = 0.5

T = TypeVar("T")


class Abandoned(Exception):
    """The client has cancelled the call, or hung up; nobody reads an answer."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a call is. total: None when that cannot be said."""

    done: float
    total: float | None
    doing: str


@dataclass(slots=True)
class LongCall:
    """One call on its thread. news: set for each step that the client is told of, None when it did not ask."""

    context: ServerRequestContext[Any]
    news: anyio.Event | None
    step: Step | None = None
    looked: float = field(default_factory=time.monotonic)

    def look(self, step: Step) -> None:
        """Pass a step on, and see whether the client is still there, now and then. Raises Abandoned."""
        if time.monotonic() - self.looked < _EVERY_SECONDS:
            return
        self.looked = time.monotonic()
        try:
            anyio.from_thread.check_cancelled()
            is_gone = anyio.from_thread.run(self._told, step)
        except asyncio.CancelledError:
            raise Abandoned from None
        if is_gone:
            raise Abandoned

    async def _told(self, step: Step) -> bool:
        self.step = step
        if self.news is not None:
            self.news.set()
        request = self.context.request
        return request is not None and await request.is_disconnected()

    async def tell(self) -> None:
        """Send each step to the client, for as long as this is not cancelled."""
        while self.news is not None:
            await self.news.wait()
            self.news = anyio.Event()
            if self.step is not None:
                await self.context.session.report_progress(self.step.done, self.step.total, self.step.doing)


_current: ContextVar[LongCall | None] = ContextVar("long_call", default=None)


def still_wanted(done: float, total: float | None, doing: str) -> None:
    """Tell whoever waits for this call how far it is. Raises Abandoned when nobody does any more."""
    call = _current.get()
    if call is not None:
        call.look(Step(done, total, doing))


def wants_steps(context: ServerRequestContext[Any]) -> bool:
    """Whether the client asked to be told how far the call is."""
    return bool(context.meta and context.meta.get("progress_token") is not None)


async def on_thread(context: ServerRequestContext[Any], work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    """What work returns, called on a thread as a call that may take long."""
    call = LongCall(context, anyio.Event() if wants_steps(context) else None)
    reset = _current.set(call)
    try:
        if call.news is None:
            return await anyio.to_thread.run_sync(work, limiter=limiter)
        async with anyio.create_task_group() as group:
            group.start_soon(call.tell)
            answer = await anyio.to_thread.run_sync(work, limiter=limiter)
            group.cancel_scope.cancel()
        return answer
    finally:
        _current.reset(reset)
