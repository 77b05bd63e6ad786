"""A session over standard input and output: its lines whole, whoever reads or writes them how slowly."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from server.channel import Channel
from server.standard_streams import streams
from tests.server.echo_over_stdio import echo_server

ROOT = Path(__file__).parents[2]
HELLO = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]
SECONDS = 10.0


def call(number: int, **arguments: object) -> dict[str, object]:
    """A request to the echo tool."""
    params = {"name": "echo", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def line(message: object) -> bytes:
    """A message as it goes over the wire."""
    return json.dumps(message).encode() + b"\n"


class Session:
    """The client's ends of the two streams."""

    def __init__(self, to_server: int, from_server: int) -> None:
        self.to_server, self.from_server = to_server, from_server
        self.goes_on_writing = False
        self._read = b""

    def write(self, data: bytes) -> None:
        """Write bytes to the server; waits until they have room."""
        while data:
            data = data[os.write(self.to_server, data) :]

    async def answer(self) -> dict[str, Any]:
        """The next line of the server."""
        while b"\n" not in self._read:
            self._read += await asyncio.to_thread(os.read, self.from_server, 4_096)
        first, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = json.loads(first)
        return answer

    async def text(self) -> str:
        """The text of the next answer, which is a result."""
        return str((await self.answer())["result"]["content"][0]["text"])


Talk = Callable[[Callable[[Session], Awaitable[None]]], None]


@pytest.fixture(params=["pipes", "sockets"])
def talk(request: pytest.FixtureRequest) -> Iterator[Talk]:
    """Runs a client against the echo server; the session must have ended after it closed both streams."""
    pairs: list[tuple[int, int]]
    if request.param == "pipes":
        pairs = [os.pipe(), os.pipe()]
    else:
        ends = [socket.socketpair(), socket.socketpair()]
        pairs = [(one.detach(), other.detach()) for one, other in ends]
    (their_in, to_server), (from_server, their_out) = pairs
    session = Session(to_server, from_server)

    async def run(client: Callable[[Session], Awaitable[None]]) -> None:
        source, sink = Channel.over(their_in, os.O_RDONLY), Channel.over(their_out, os.O_WRONLY)
        assert source is not None
        assert sink is not None
        os.close(their_in)
        os.close(their_out)
        server = echo_server()
        incoming, outgoing = streams(source, sink, lambda *_: None)
        serving = asyncio.create_task(server.run(incoming, outgoing, server.create_initialization_options()))
        try:
            async with asyncio.timeout(SECONDS):
                session.write(b"".join(map(line, HELLO)))
                await session.answer()
                await client(session)
                if not session.goes_on_writing:
                    os.close(session.to_server)
                await serving
        finally:
            source.close()
            sink.close()

    yield lambda client: asyncio.run(run(client))
    for end in (session.from_server, session.to_server):
        with suppress(OSError):
            os.close(end)


def test_a_message_that_comes_in_pieces_is_one_and_several_in_one_piece_are_several(talk: Talk) -> None:
    async def client(session: Session) -> None:
        whole = line(call(2, text="ä"))
        for at in range(0, len(whole), 7):
            session.write(whole[at : at + 7])
            await asyncio.sleep(0)
        assert await session.text() == "ä"
        session.write(line(call(3, text="b")) + line(call(4, text="c")) + line(call(5, text="d")))
        assert {await session.text() for _ in range(3)} == {"b", "c", "d"}

    talk(client)


def test_what_is_no_message_is_passed_over(talk: Talk) -> None:
    async def client(session: Session) -> None:
        session.write(b"\n{]\n\xff\xfe\n" + b"[" * 50_000 + b"\n" + line(call(2, text="after")))
        assert await session.text() == "after"
        session.write(
            b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"\xff"}}}\n'
        )
        assert await session.text() == "\ufffd"

    talk(client)


def test_long_messages_come_whole_through_streams_that_are_full(talk: Talk) -> None:
    async def client(session: Session) -> None:
        long = "x" * 300_000
        for number in (2, 3):
            await asyncio.to_thread(session.write, line(call(number, text=long, times=5)))
        for _ in (2, 3):
            assert await session.text() == long * 5

    talk(client)


def test_a_client_that_reads_nothing_any_more_ends_the_session(talk: Talk) -> None:
    async def client(session: Session) -> None:
        os.close(session.from_server)
        session.write(line(call(2, text="unread")))
        session.goes_on_writing = True

    talk(client)


def test_a_session_ends_though_its_last_answer_is_not_read(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.standard_streams._LAST_SECONDS", 0.1)

    async def client(session: Session) -> None:
        session.write(line(call(2, text="unread", times=1_000_000)))
        session.write(line(call(3, text="unread")))

    talk(client)


@pytest.mark.parametrize("kind", ["pipe", "socket", "file"])
def test_what_a_library_prints_does_not_stand_between_two_messages(tmp_path: Path, kind: str) -> None:
    data = b"".join(map(line, [*HELLO, call(2, text="one", print=True)]))
    command = [sys.executable, "-m", "tests.server.echo_over_stdio"]
    with (tmp_path / "asked").open("w+b") as asked:
        if kind == "file":
            asked.write(data)
            asked.seek(0)
            ran = subprocess.run(command, cwd=ROOT, stdin=asked, capture_output=True, timeout=60, check=True)
        elif kind == "pipe":
            ran = subprocess.run(command, cwd=ROOT, input=data, capture_output=True, timeout=60, check=True)
        else:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.sendall(data)
                ours.shutdown(socket.SHUT_WR)
                ran = subprocess.run(
                    command, cwd=ROOT, stdin=theirs.fileno(), capture_output=True, timeout=60, check=True
                )
    *answers, last = ran.stdout.splitlines()
    assert last == b"back at standard output"
    assert json.loads(answers[0])["id"] == 1
    assert all(json.loads(each)["jsonrpc"] == "2.0" for each in answers)
