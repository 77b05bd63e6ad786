"""Where one request ends and the next begins: no two programs may read that differently."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.server.door import Door

_BODY = b"0\r\n\r\n"
_NEXT = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def answers(door: Door, head: str, body: bytes) -> bytes:
    """Everything that comes back on one connection for a request, and another one behind it, until it is closed."""
    place = urlsplit(door.url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=5) as connection:
        connection.sendall(head.encode() + body)
        found = b""
        while piece := connection.recv(65_536):
            found += piece
    return found


@pytest.mark.parametrize("length", [len(_BODY), len(_BODY) + len(_NEXT), 0])
def test_a_request_of_two_lengths_is_refused_and_nothing_behind_it_is_read(door: Door, length: int) -> None:
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {door.caller().secret}\r\n"
        f"Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    found = answers(door, head, _BODY + _NEXT)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"HTTP/1.1 ") == 1


def test_a_slash_at_the_end_of_a_path_is_no_route(door: Door) -> None:
    assert door.http.post(f"{door.url}/mcp/", content=b"{}").status_code == 404
