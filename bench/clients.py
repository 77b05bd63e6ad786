"""Clients of the server: some that cost next to nothing, and the SDK's own."""

import json
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.servers.ports import HOST

ERA = "2026-07-28"
HANDSHAKE = "2025-11-25"
_TIMEOUT = 30.0


def tool_call(port: int, path: str, secret: str, tool: str, arguments: Mapping[str, Any]) -> bytes:
    """The HTTP request of one tool call of the modern protocol era."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": ERA,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return post(
        port,
        path,
        secret,
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        (
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {ERA}",
            "Mcp-Method: tools/call",
            f"Mcp-Name: {tool}",
        ),
    )


def post(port: int, path: str, secret: str, value: object, headers: tuple[str, ...] = ()) -> bytes:
    """The HTTP request that posts this value as JSON."""
    body = json.dumps(value).encode()
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: {HOST}:{port}",
        f"Authorization: Bearer {secret}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
        "",
        "",
    )
    return "\r\n".join(lines).encode("ascii") + body


class LeanClient:
    """One connection that is kept, over which ready-made requests are sent."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=_TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def send(self, request: bytes) -> bytes:
        """The body of the answer. Raises ConnectionError unless it is a 200."""
        self._socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._piece()
        head = data[:end].lower()
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise ConnectionError(data.decode("utf-8", "replace"))
        at = head.index(b"content-length:") + 15
        length = int(head[at:].partition(b"\r\n")[0])
        pieces = [data[end + 4 :]]
        have = len(pieces[0])
        while have < length:
            pieces.append(self._piece())
            have += len(pieces[-1])
        return b"".join(pieces)

    def _piece(self) -> bytes:
        piece = self._socket.recv(1 << 18)
        if not piece:
            raise ConnectionError("the server hung up")
        return piece


class LineClient:
    """A program with which JSON is exchanged line by line, over its standard input and output."""

    def __init__(self, program: StdioServerParameters, log: Path) -> None:
        self._number = 0
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [program.command, *program.args],
            cwd=program.cwd,
            env=program.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def __enter__(self) -> Self:
        client = {"name": "bench", "version": "1"}
        self._ask("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate(timeout=_TIMEOUT)
        self._log.close()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The JSON of a tool's answer. Raises RuntimeError when the tool says no."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        text = result["content"][0]["text"] if result["content"] else "null"
        if result.get("isError"):
            raise RuntimeError(f"{tool} {arguments}: {text}")
        return json.loads(text)

    def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self._number:
                return dict(message["result"])
        raise ConnectionError("the program has ended")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()


@asynccontextmanager
async def sdk_client(port: int, path: str, secret: str) -> AsyncIterator[Client]:
    """The SDK's client for the length of a block."""
    headers = {"Authorization": f"Bearer {secret}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT) as http,
        Client(streamable_http_client(f"http://{HOST}:{port}{path}", http_client=http), mode=ERA) as client,
    ):
        yield client
