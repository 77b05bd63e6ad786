"""Searches and reads over MCP and HTTP, beside an echo tool and a bare POST in the same server process."""

import asyncio
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from mcp.types import CallToolResult

from bench.asks import Ask
from bench.clients import LeanClient, post, sdk_client, tool_call
from bench.figures import Figure, Section, latency
from bench.installation import Installation, Served

_ECHO = {"text": "hello"}
_WARM_UP = 20
_CLIENTS = 16
_CROWDED_SECONDS = 3.0
_SDK_ASKS = ("list_messages, newest", "search: common word", "read_message")


def over_http(installation: Installation, asked: Sequence[Ask], calls: int) -> list[Section]:
    """Latencies by a lean client and by the SDK's, the kinds taken in turn."""
    secrets = {profile: installation.token(profile) for profile in ("open", "restricted")}
    with installation.serving("bench.beside") as served:
        lean = _lean(served.port, secrets, asked, calls)
        crowded = _crowded(served, secrets, asked)
        sdk = asyncio.run(_sdk(served.port, secrets["open"], asked, max(_WARM_UP, calls // 3)))
    return [lean, sdk, crowded]


def _lean(port: int, secrets: dict[str, str], asked: Sequence[Ask], calls: int) -> Section:
    echo = tool_call(port, "/echo", secrets["open"], "echo", _ECHO)
    bare = post(port, "/bare", secrets["open"], _ECHO)
    requests = {"echo tool": [echo], "bare JSON POST": [bare]} | {
        ask.name: [tool_call(port, "/mcp", secrets[ask.profile], ask.tool, each) for each in ask.arguments]
        for ask in asked
    }
    taken: dict[str, list[float]] = {name: [] for name in requests}
    with LeanClient(port) as client:
        for name, variants in requests.items():
            for request in variants[:_WARM_UP]:
                answer = json.loads(client.send(request))
                if "error" in answer or answer.get("result", {}).get("isError"):
                    raise RuntimeError(f"{name}: {answer}")
        for number in range(calls):
            for name, variants in requests.items():
                request = variants[number % len(variants)]
                began = time.perf_counter()
                client.send(request)
                taken[name].append(time.perf_counter() - began)
    figures = [latency(name, each, key="echo" if name == "echo tool" else "") for name, each in taken.items()]
    note = "A client that sends ready-made bytes over one kept connection; protocol of 2026-07-28, one JSON body."
    return Section("MCP over HTTP", ("p50", "p99"), figures, note)


def _crowded(served: Served, secrets: dict[str, str], asked: Sequence[Ask]) -> Section:
    """How long one call takes when many clients call at once, which is what it costs."""
    requests = {"echo tool": [tool_call(served.port, "/echo", secrets["open"], "echo", _ECHO)]} | {
        ask.name: [tool_call(served.port, "/mcp", secrets[ask.profile], ask.tool, each) for each in ask.arguments]
        for ask in asked
        if ask.name in _SDK_ASKS
    }
    figures = []
    for name, variants in requests.items():
        began, cpu = time.perf_counter(), _cpu_seconds(served.pid)
        with ThreadPoolExecutor(_CLIENTS) as pool:
            calls = sum(pool.map(partial(_keep_calling, served.port, variants), [began + _CROWDED_SECONDS] * _CLIENTS))
        each, work = (time.perf_counter() - began) / calls, (_cpu_seconds(served.pid) - cpu) / calls
        is_echo = name == "echo tool"
        figures.append(
            Figure(
                name,
                each * 1_000,
                "ms",
                work * 1_000,
                "crowded echo" if is_echo else "",
                "" if is_echo else "crowded echo",
            )
        )
    note = f"{_CLIENTS} lean clients at once: the time divided by the calls, and the CPU of the web process for each."
    return Section("MCP over HTTP, many clients", ("per call", "CPU"), figures, note)


def _keep_calling(port: int, variants: Sequence[bytes], until: float) -> int:
    calls = 0
    with LeanClient(port) as client:
        while time.perf_counter() < until:
            client.send(variants[calls % len(variants)])
            calls += 1
    return calls


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _sdk(port: int, secret: str, asked: Sequence[Ask], calls: int) -> Section:
    chosen = [ask for ask in asked if ask.name in _SDK_ASKS]
    taken: dict[str, list[float]] = {name: [] for name in ("echo tool", *_SDK_ASKS)}
    async with AsyncExitStack() as stack:
        echo = await stack.enter_async_context(sdk_client(port, "/echo", secret))
        client = await stack.enter_async_context(sdk_client(port, "/mcp", secret))
        for number in range(-_WARM_UP, calls):
            for ask in (Ask("echo tool", "echo", [_ECHO]), *chosen):
                to = echo if ask.tool == "echo" else client
                arguments = dict(ask.arguments[number % len(ask.arguments)])
                began = time.perf_counter()
                result = await to.call_tool(ask.tool, arguments)
                seconds = time.perf_counter() - began
                if not isinstance(result, CallToolResult) or result.is_error:
                    raise RuntimeError(f"{ask.name}: {result}")
                if number >= 0:
                    taken[ask.name].append(seconds)
    figures = [
        latency(name, each, key="sdk echo" if name == "echo tool" else "", against="sdk echo")
        for name, each in taken.items()
    ]
    return Section("MCP over HTTP, the SDK's client", ("p50", "p99"), figures)
