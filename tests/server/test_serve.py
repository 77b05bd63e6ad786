"""How the web process listens, and what ends it before it does."""

import asyncio
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from server import connection
from server.cli import main
from server.connection import Connection, raise_open_files
from server.serve import listen

CONFIGURATION = """
[server]
data_dir = "data"
[users.alice.providers.work]
address = "alice@example.org"
imap = { host = "127.0.0.1", port = 9, security = "plain" }
"""


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(body.decode() or "hello")(scope, receive, send)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server whose requests must be there within a moment."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(connection, "KEPT_SECONDS", 0.3)
    monkeypatch.setattr(connection, "_LAST_CHANCE_SECONDS", 0.1)
    server = uvicorn.Server(
        uvicorn.Config(_echo, http=Connection, ws="none", lifespan="off", log_config=None, timeout_keep_alive=60)
    )
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        end = time.monotonic() + 10
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(10)


def ends(client: socket.socket) -> bytes:
    """What the server says until it hangs up, within 5 seconds."""
    client.settimeout(5)
    said = b""
    try:
        while piece := client.recv(65_536):
            said += piece
    except ConnectionResetError:
        pass
    return said


def test_accepted_connections_send_answers_without_waiting_for_an_ack() -> None:
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"]
)
def test_a_client_that_does_not_finish_its_request_is_cut_off(port: int, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(said)
        began = time.monotonic()
        assert b"200" not in ends(client)
        assert 0.2 < time.monotonic() - began < 5


def test_a_second_request_has_as_long_as_the_first(port: int) -> None:
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
    with socket.create_connection(("127.0.0.1", port)) as client:
        for _ in range(2):
            client.sendall(request)
            answer = b""
            while not answer.endswith(b"hi"):
                answer += client.recv(65_536)
        client.sendall(b"GET / HT")
        assert ends(client) == b""


def test_a_kept_connection_may_be_silent_for_longer_than_a_request_may_take(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "KEPT_SECONDS", 1.5)
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(request)
        while not client.recv(65_536).endswith(b"hi"):
            pass
        began = time.monotonic()
        assert ends(client) == b""
        assert 1 < time.monotonic() - began < 5


def test_pipelined_requests_are_all_answered(port: int) -> None:
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(request * 3)
        assert ends(client).count(b"HTTP/1.1 200") == 3


def test_more_connections_than_allowed_are_closed_and_the_others_served(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "most_connections", lambda: 1)
    with (
        socket.create_connection(("127.0.0.1", port)) as first,
        socket.create_connection(("127.0.0.1", port)) as second,
    ):
        assert ends(second) == b""
        first.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"hello" in ends(first)


def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        raise_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(before[1], 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("name", "content", "mode", "reason"),
    [
        ("state.db", b"this is no database at all" * 100, 0o600, "state.db"),
        ("key", b"x" * 32, 0o644, "chmod 600"),
        ("key", b"short", 0o600, "not a data key"),
    ],
)
def test_a_file_that_cannot_be_used_ends_serve_with_one_message(
    tmp_path: Path, name: str, content: bytes, mode: int, reason: str
) -> None:
    configuration = tmp_path / "postmirror.toml"
    configuration.write_text(CONFIGURATION)
    configuration.chmod(0o600)
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / name).write_bytes(content)
    (tmp_path / "data" / name).chmod(mode)
    done = CliRunner().invoke(main, ["serve", "--config", str(configuration), "--port", "0"])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert reason in done.output
