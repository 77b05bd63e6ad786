"""Somebody who has just installed the program: a home of their own, the command, and a client that asks."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pexpect
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from tests.processes import until
from tests.servers.ports import HOST, free_port

ROOT = Path(__file__).parents[3]
COMMAND = ("-m", "server.cli")


class Newcomer:
    """folder: their home. config: where their configuration comes to lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config" / "postmirror" / "postmirror.toml"
        self.port = free_port()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": str(ROOT),
        }
        self.here = ("--data-dir", str(folder / "data"), "--port", str(self.port))

    def run(self, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        """The command, without a terminal."""
        return subprocess.run(
            [sys.executable, *COMMAND, *words],
            env=self.environment,
            cwd=self.folder,
            input=said,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def on_a_terminal(self, *words: str) -> "pexpect.spawn[str]":
        """The command, on a terminal."""
        return pexpect.spawn(
            sys.executable,
            [*COMMAND, *words],
            env={**self.environment, "TERM": "dumb", "COLUMNS": "400"},
            cwd=str(self.folder),
            encoding="utf-8",
            timeout=30,
            dimensions=(50, 400),
        )

    def written(self) -> list[str]:
        """Every file in the home, below config/ and data/."""
        return sorted(str(each.relative_to(self.folder)) for each in self.folder.rglob("*") if each.is_file())

    def ask_over_stdio(self, entry: dict[str, Any], tool: str, *, is_read: bool = True, **arguments: object) -> Any:
        """What a client hears that was given this entry; with is_read it asks again until the first mail is there."""
        server = entry["mcpServers"]["postmirror"]
        parameters = StdioServerParameters(
            command=server["command"], args=server["args"], env=self.environment, cwd=self.folder
        )

        async def ask() -> Any:
            with (self.folder / "stdio.log").open("a") as log:
                async with Client(stdio_client(parameters, errlog=log)) as client:
                    if is_read:
                        return await _first_answer(client, tool, arguments)
                    result = await client.call_tool(tool, arguments)
                    assert isinstance(result, CallToolResult)
                    assert not result.is_error, result.content
                    return json.loads(result.content[0].text)  # type: ignore[union-attr]  # a block of text

        return anyio.run(ask)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """While `serve` runs, and answers."""
        with (self.folder / "serve.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, *COMMAND, "serve"], env=self.environment, cwd=self.folder, stdout=log, stderr=log
            )

        def is_up() -> bool:
            assert process.poll() is None, (self.folder / "serve.log").read_text()
            try:
                return httpx2.get(f"http://{HOST}:{self.port}/healthz").is_success
            except httpx2.TransportError:
                return False

        try:
            until(is_up)
            yield
        finally:
            process.terminate()
            process.wait(20)

    def ask_over_http(self, entry: dict[str, Any], tool: str, **arguments: object) -> Any:
        """The same over HTTP, from a `serve` that runs for so long."""
        server = entry["mcpServers"]["postmirror"]

        async def ask() -> Any:
            async with (
                httpx2.AsyncClient(headers=server["headers"]) as http,
                Client(streamable_http_client(server["url"], http_client=http)) as client,
            ):
                return await _first_answer(client, tool, arguments)

        with self.serving():
            return anyio.run(ask)


async def _first_answer(client: Client, tool: str, arguments: dict[str, object]) -> Any:
    with anyio.fail_after(60):
        while True:
            result = await client.call_tool(tool, arguments)
            assert isinstance(result, CallToolResult)
            if not result.is_error:
                answer = json.loads(result.content[0].text)  # type: ignore[union-attr]  # a block of text
                if answer.get("messages"):
                    return answer
            await anyio.sleep(0.1)


def entries(output: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two JSON entries of what `init --client json` printed: over HTTP, over stdio."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while (at := output.find('{\n  "mcpServers"', at)) >= 0:
        value, length = decoder.raw_decode(output[at:])
        found.append(value)
        at += length
    first, second = found
    return first, second
