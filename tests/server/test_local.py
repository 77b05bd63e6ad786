"""A local session: the same tools without HTTP, for whoever the command line named."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.types import CallToolResult, TextContent

from server.app import build_local
from server.live import ConfigurationLost, InForce
from server.tool import LOST
from tests.server.conftest import INBOX
from tests.server.door import ASSISTANT, Door, Folder, fill_mirror, settings_for
from tests.server.test_relay import TOOLS
from tests.servers.ports import free_port


def text_of(result: CallToolResult) -> str:
    """The one text of an answer."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_local_session_has_the_same_tools_and_the_policy_of_its_profile(door: Door, mode: Any) -> None:
    server = build_local(door.parts, "alice", "assistant", "work")

    async def session() -> tuple[list[str], Any, bool]:
        async with Client(server, mode=mode) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            folders = text_of(await client.call_tool("list_folders", {}))
            hidden = await client.call_tool("list_messages", {"folder": "Secret plans"})
            return tools, json.loads(folders), bool(hidden.is_error)

    tools, folders, hidden = asyncio.run(session())
    assert tools == TOOLS
    assert "INBOX" in folders["folders"]
    assert "Secret plans" not in folders["folders"]
    assert hidden


@pytest.mark.parametrize(
    ("user", "profile", "provider", "missing"),
    [
        ("nobody", "assistant", None, "users.nobody"),
        ("alice", "nothing", None, "profiles.nothing"),
        ("alice", "assistant", "office", "providers.office"),
        ("alice", "assistant", None, "2 providers"),
    ],
)
def test_a_local_session_for_nobody_is_refused_at_once(
    door: Door, user: str, profile: str, provider: str | None, missing: str
) -> None:
    with pytest.raises(ValueError, match=missing):
        build_local(door.parts, user, profile, provider)


def test_uids_of_a_local_session_are_those_of_a_token_with_the_same_profile(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port(), profiles={"assistant": ASSISTANT})
    fill_mirror(settings, "bob", "work", [Folder("INBOX", INBOX)])
    with Door(settings) as door:
        over_http = door.caller("bob").call("list_messages", folder="INBOX").value["messages"]
        server = build_local(door.parts, "bob", "assistant")

        async def session() -> str:
            async with Client(server) as client:
                return text_of(await client.call_tool("list_messages", {"folder": "INBOX"}))

        assert json.loads(asyncio.run(session()))["messages"] == over_http


def test_a_local_session_is_told_when_the_configuration_is_lost(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    server = build_local(door.parts, "alice", "assistant", "work")

    def lost() -> InForce:
        raise ConfigurationLost

    async def session() -> CallToolResult:
        async with Client(server) as client:
            monkeypatch.setattr(door.live, "in_force", lost)
            result = await client.call_tool("list_messages", {"folder": "INBOX"})
            assert isinstance(result, CallToolResult)
            return result

    result = asyncio.run(session())
    assert (result.is_error, text_of(result)) == (True, LOST)
