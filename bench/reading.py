"""Searches and reads in process: the server's own path from a tool's arguments to its answer, without HTTP."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from bench.asks import Ask, asks
from bench.figures import Section, latency
from bench.installation import PROVIDER, USER, Installation
from server.app import Parts
from server.auth import Authenticator
from server.live import LiveSettings
from server.relay import Relay, relay_tools
from server.said import as_json
from server.state.store import State
from server.tool import Tool


class Tools:
    """The relay tools of an installation, called directly."""

    def __init__(self, parts: Parts, state: State) -> None:
        authenticator = Authenticator(parts.live, state)
        self._callers = {
            profile: authenticator.by_name(USER, profile, PROVIDER)
            for profile in parts.live.in_force().settings.profiles
        }
        tools: list[Tool[Any]] = relay_tools(Relay(parts.mailboxes, parts.outbound, parts.url))
        self._tools = {tool.name: tool for tool in tools}

    def call(self, profile: str, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """A tool's answer."""
        answer: Mapping[str, Any] = json.loads(self.text(profile, tool, arguments))
        return answer

    def text(self, profile: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """The same as the JSON that a client gets."""
        return as_json(self._tools[tool].call(self._callers[profile], arguments).value)


@contextmanager
def tools_of(installation: Installation) -> Iterator[Tools]:
    """The tools for the length of a block."""
    settings = installation.settings
    with closing(State(settings.server.data_dir)) as state:
        parts = Parts.open(LiveSettings.fixed(settings), state)
        try:
            yield Tools(parts, state)
        finally:
            parts.close()


def questions(installation: Installation) -> list[Ask]:
    """What is asked of this installation, in process and over HTTP."""
    with tools_of(installation) as tools:
        return asks(installation.mirror / "mirror.db", tools.call)


def in_process(installation: Installation, asked: Sequence[Ask], calls: int) -> Section:
    """Latencies of the tools, the kinds taken in turn."""
    taken: dict[str, list[float]] = {ask.name: [] for ask in asked}
    with tools_of(installation) as tools:
        for number in range(calls):
            for ask in asked:
                arguments = ask.arguments[number % len(ask.arguments)]
                began = time.perf_counter()
                tools.text(ask.profile, ask.tool, arguments)
                taken[ask.name].append(time.perf_counter() - began)
    figures = [latency(name, seconds) for name, seconds in taken.items()]
    note = "From the tool's arguments to its answer as JSON: arguments checked, folder rules, policy, one page of 20."
    return Section("Tools in process", ("p50", "p99"), figures, note)
