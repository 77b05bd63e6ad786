"""A TCP proxy on loopback that makes a network bad: slow, cut in the middle of a line, silent, reset."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from tests.servers.ports import HOST, free_port

_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens once the server has said `after` more bytes, over all connections.

    close: hang up as a server does. reset: hang up without a goodbye (RST). stall: nothing more, in either direction.
    half: the client's next words reach the server in half, then both find the connection closed.
    """

    kind: Literal["close", "reset", "stall", "half"]
    after: int


class Proxy:
    """Forwards connections from `port` to a server.

    delay: seconds that everything takes on its way, each way; does not limit how much is on the way. carried: bytes
    that the server said so far. connections: how many were opened. fault: happens once; then the next connection works.
    heard, asked: called with what the server and the client say, before it goes on, on a thread of the proxy's.
    """

    def __init__(
        self,
        target: int,
        *,
        delay: float = 0.0,
        heard: Callable[[bytes], None] = lambda _: None,
        asked: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self.port = free_port()
        self.delay = delay
        self.carried = 0
        self.connections = 0
        self._target = target
        self._heard = heard
        self._asked = asked
        self._fault: Fault | None = None
        self._left = 0
        self._halves = False
        self._connected_tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def fault(self) -> Fault | None:
        """The fault that is still to come."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault | None) -> None:
        self._left = fault.after if fault else 0
        self._fault = fault
        self._halves = False

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, HOST, self.port)

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        # A task of ours: one of the server's own that is cancelled at the end is printed as a fault (Python 3.11).
        task = self._loop.create_task(self._connected(from_client, to_client))
        self._connected_tasks.add(task)
        task.add_done_callback(self._connected_tasks.discard)

    async def _connected(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            from_server, to_server = await asyncio.open_connection(HOST, self._target)
        except OSError:
            to_client.transport.abort()
            return
        up: _Line = asyncio.Queue()
        down: _Line = asyncio.Queue()
        speaking = (asyncio.create_task(self._say(up, to_server)), asyncio.create_task(self._answer(down, to_client)))
        listening = (
            asyncio.create_task(self._hear(from_client, up)),
            asyncio.create_task(self._hear(from_server, down)),
        )
        try:
            await asyncio.wait(speaking, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_client.close()
            to_server.close()
            for task in (*speaking, *listening):
                task.cancel()
            await asyncio.gather(*speaking, *listening, return_exceptions=True)

    async def _hear(self, source: asyncio.StreamReader, line: "_Line") -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = await source.read(_CHUNK)
            except OSError:
                chunk = b""
            line.put_nowait((self._loop.time() + self.delay, chunk))

    async def _say(self, line: "_Line", target: asyncio.StreamWriter) -> None:
        while chunk := await self._next(line):
            self._asked(chunk)
            halved, self._halves = self._halves, False
            target.write(chunk[: len(chunk) // 2] if halved else chunk)
            await target.drain()
            if halved:
                return

    async def _answer(self, line: "_Line", target: asyncio.StreamWriter) -> None:
        while chunk := await self._next(line):
            fault = self._fault if len(chunk) >= self._left else None
            if fault and fault.kind == "half":
                self._fault, self._halves, fault = None, True, None
            if fault:
                chunk, self._fault = chunk[: self._left], None
            self._left -= len(chunk)
            self.carried += len(chunk)
            self._heard(chunk)
            target.write(chunk)
            await target.drain()
            if fault and fault.kind == "stall":
                await asyncio.Event().wait()
            if fault and fault.kind == "reset":
                linger_for_no_time = struct.pack("ii", 1, 0)
                target.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_for_no_time)
                target.transport.abort()
            if fault:
                return

    async def _next(self, line: "_Line") -> bytes:
        due, chunk = await line.get()
        await asyncio.sleep(max(0.0, due - self._loop.time()))
        return chunk


_Line = asyncio.Queue[tuple[float, bytes]]
