"""MCP over standard input and output, on the event loop alone: one JSON message a line, in UTF-8, each way.

The SDK's transport hands every line to a thread, once to read and twice to write, which is half of what a short call
costs. Here a line is read and written where the loop runs, without waiting; what a slow client leaves over is written
when there is room again. Pipes and sockets are served so; a terminal or a file gets the SDK's transport.

While a session is served, file descriptor 0 is at its end and 1 is standard error, so that nothing that a library
prints stands between two messages. A client that closes either stream ends the session. A message that was begun is
written to its end, also when the request that it answers is cancelled meanwhile.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Self

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from server.brief_call import NotBrief, given_up
from server.channel import STDIN, STDOUT, Channel, claimed

_AT_ONCE = 1 << 16
_LAST_SECONDS = 5.0
"""How long a client may take, when a session ends, to read what is left for it."""


Answer = Callable[[JSONRPCRequest, str], bytes | None]
"""The response to a request of a protocol version, without the SDK; None when it has to go through it.

Raises NotBrief when it was begun and has to be made on a thread.
"""


async def serve_standard_streams(server: Server[Any], answer: Answer = lambda *_: None) -> None:
    """Serve one session over this process's standard input and output, until either is closed.

    answer: is asked first, once the session is open.
    """
    options = server.create_initialization_options()
    with claimed(STDIN, os.O_RDONLY) as source, claimed(STDOUT, os.O_WRONLY) as sink:
        if source is not None and sink is not None:
            incoming, outgoing = streams(source, sink, answer)
            await server.run(incoming, outgoing, options)
            return
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


class Opening:
    """What protocol version a session is of: its first request's, or the handshake's. "" until that is answered."""

    def __init__(self) -> None:
        self.version = ""
        self._asked: dict[RequestId, JSONRPCRequest] = {}
        self._is_begun = False

    def came(self, request: JSONRPCRequest) -> None:
        """A request came in."""
        if not self.version and (not self._is_begun or request.method == "initialize"):
            self._is_begun = True
            self._asked[request.id] = request

    def went(self, message: JSONRPCMessage) -> None:
        """A message went out."""
        if self.version or not isinstance(message, JSONRPCResponse):
            return
        asked = self._asked.get(message.id)
        if asked is not None and asked.method == "initialize":
            self.version = str(message.result.get("protocolVersion", ""))
        elif asked is not None and isinstance(meta := (asked.params or {}).get("_meta"), dict):
            self.version = str(meta.get(PROTOCOL_VERSION_META_KEY, ""))


def streams(source: Channel, sink: Channel, answer: Answer) -> tuple["Incoming", "Outgoing"]:
    """The two streams of a session."""
    opening = Opening()
    outgoing = Outgoing(sink, opening)
    incoming = Incoming(source, opening, outgoing, answer)
    outgoing.broken = incoming.end
    return incoming, outgoing


class Incoming:
    """The messages that come in, as the SDK reads them: a line that is none comes as the exception that says so.

    last_context: what the message last given out is to be served in (the SDK asks its streams for this).
    """

    def __init__(self, channel: Channel, opening: Opening, outgoing: "Outgoing", answer: Answer) -> None:
        self.last_context = copy_context()
        self._opening, self._outgoing, self._answer = opening, outgoing, answer
        self._channel = channel
        self._lines: deque[bytes] = deque()
        self._begun: list[bytes] = []
        """What has come of a line that is not whole yet."""
        self._news: asyncio.Future[None] | None = None
        self._has_ended = self._is_watching = False

    async def receive(self) -> SessionMessage | Exception:
        """The next message that is not answered here. Raises anyio.EndOfStream after the last one."""
        while True:
            line = await self._line()
            self.last_context = copy_context()
            try:
                message = jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False)
            except ValueError as exc:
                return exc
            if not isinstance(message, JSONRPCRequest) or not await self._is_answered(message):
                return SessionMessage(message)

    async def _is_answered(self, request: JSONRPCRequest) -> bool:
        self._opening.came(request)
        if not self._opening.version:
            return False
        try:
            response = self._answer(request, self._opening.version)
        except NotBrief:
            with given_up():
                self.last_context = copy_context()
            return False
        if response is None:
            return False
        with suppress(anyio.BrokenResourceError):
            self._outgoing.put(response)
            await self._outgoing.room()
        if self._lines:
            # Others have their turn between two calls of a client that sends many.
            await asyncio.sleep(0)
        return True

    async def _line(self) -> bytes:
        while not self._lines:
            if self._has_ended:
                raise anyio.EndOfStream
            self._watch()
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return self._lines.popleft()

    def end(self) -> None:
        """Read no more; what has come already is still given out."""
        if self._has_ended:
            return
        self._has_ended = True
        self._unwatch()
        self._tell()

    async def aclose(self) -> None:
        """Read no more, and forget what has come."""
        self._lines.clear()
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _read(self) -> None:
        try:
            data = self._channel.read(_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        first, *others = data.split(b"\n")
        self._begun.append(first)
        if others:
            self._lines.append(b"".join(self._begun))
            self._lines.extend(others[:-1])
            self._begun = [others[-1]]
        if not data:
            if last := b"".join(self._begun):
                self._lines.append(last)
            self.end()
        elif self._lines:
            if self._news is None or self._news.done():
                # Whoever reads is behind: the rest may wait where it is.
                self._unwatch()
            self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            asyncio.get_running_loop().add_reader(self._channel.fd, self._read)

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = False
            asyncio.get_running_loop().remove_reader(self._channel.fd)


class Outgoing:
    """The messages that go out, as the SDK writes them. broken: called when nobody reads them any more."""

    def __init__(self, channel: Channel, opening: Opening) -> None:
        self.broken: Callable[[], None] = lambda: None
        self._opening = opening
        self._channel = channel
        self._left = bytearray()
        self._room: asyncio.Future[None] | None = None
        """There while something is left, and done when nothing is."""
        self._is_broken = self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message; returns when the client has room for it. Raises what says that there is no client."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        self.put(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        self._opening.went(item.message)
        await self.room()

    async def room(self) -> None:
        """Return when everything is written that was put."""
        if self._room is not None:
            await asyncio.shield(self._room)

    def put(self, line: bytes) -> None:
        """Write a line as far as there is room, and the rest of it later. Raises anyio.BrokenResourceError."""
        if self._is_broken:
            raise anyio.BrokenResourceError
        self._left += line
        self._left += b"\n"
        if self._room is not None:
            return
        self._write()
        if self._left:
            loop = asyncio.get_running_loop()
            self._room = loop.create_future()
            loop.add_writer(self._channel.fd, self._write_on)
        elif self._is_broken:
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Take no more, and give the client a moment to read what is left."""
        self._is_closed = True
        if self._room is not None:
            with anyio.move_on_after(_LAST_SECONDS):
                await asyncio.shield(self._room)
        self._has_room()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _write(self) -> None:
        try:
            while self._left:
                del self._left[: self._channel.write(self._left)]
        except BlockingIOError:
            return
        except OSError:
            self._left.clear()
            self._is_broken = True
            self.broken()

    def _write_on(self) -> None:
        self._write()
        if not self._left:
            self._has_room()

    def _has_room(self) -> None:
        if self._room is not None:
            asyncio.get_running_loop().remove_writer(self._channel.fd)
            if not self._room.done():
                self._room.set_result(None)
            self._room = None
