"""The tools' texts and schemas are product: a change of them is made on purpose."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.server.door import ASSISTANT, HANDSHAKE, Caller, Door, Folder, Mail, fill_mirror, settings_for
from tests.server.every_tool import EVERY_TOOL
from tests.servers.ports import free_port

SNAPSHOT = Path(__file__).with_name("relay_tools.json")
GATEWAY_SNAPSHOT = Path(__file__).with_name("gateway_offers.json")
HELLO = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
ORDINARY_PAGE_TOKENS = 1_500
CHARS_PER_TOKEN = 4
"""Of mail in English, about; tokenizers differ."""


def test_names_descriptions_and_schemas_are_those_of_the_snapshot(door: Door) -> None:
    """To adopt a change: write what this test printed into relay_tools.json."""
    tools = door.caller().request("tools/list").result["tools"]
    assert tools == json.loads(SNAPSHOT.read_text("utf-8")), json.dumps(tools, indent=2, ensure_ascii=False)


def test_everything_that_a_client_of_the_gateway_sees_is_that_of_the_snapshot(data_dir: Path) -> None:
    """To adopt a change: write what this test printed into gateway_offers.json."""
    profile = {**ASSISTANT, "tools": "gateway", "allow": list(EVERY_TOOL)}
    settings = settings_for(data_dir, free_port(), profiles={"assistant": profile})
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [Mail()])])
    with Door(settings) as door:
        offers = offered(door.caller())
    expected = json.loads(GATEWAY_SNAPSHOT.read_text("utf-8"))
    assert offers == expected, json.dumps(offers, indent=2, ensure_ascii=False)


def offered(caller: Caller) -> dict[str, Any]:
    """What a client learns before it calls anything."""
    discovered = caller.request("server/discover").result
    prompts = caller.request("prompts/list").result["prompts"]
    return {
        "instructions": discovered["instructions"],
        "capabilities": discovered["capabilities"],
        "tools": caller.request("tools/list").result["tools"],
        "resources": caller.request("resources/list").result["resources"],
        "templates": caller.request("resources/templates/list").result["resourceTemplates"],
        "prompts": [
            {**each, "messages": caller.request("prompts/get", filled(each)).result["messages"]} for each in prompts
        ],
    }


@pytest.mark.parametrize(
    ("profile", "told", "untold"),
    [
        ({"tools": "gateway"}, "Start with list_accounts", "of which there are"),
        ({"tools": "gateway", "allow": ["search_emails"]}, "of which there are: work, home.", "list_accounts"),
        ({"tools": "gateway", "allow": ["list_folders"]}, "of which there are: work, home.", "search_emails"),
        ({}, "Start with list_folders", "INBOX is a folder"),
        ({"allow": ["search_messages"]}, "INBOX is a folder", "list_folders"),
    ],
)
@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_instructions_name_only_tools_that_there_are(
    data_dir: Path, profile: dict[str, Any], told: str, untold: str, era: Literal["modern", "handshake"]
) -> None:
    settings = settings_for(data_dir, free_port(), profiles={"assistant": {**ASSISTANT, **profile}})
    with Door(settings) as door:
        provider = None if profile.get("tools") == "gateway" else "work"
        caller = door.caller(provider=provider, era=era)
        begin = ("server/discover", {}) if era == "modern" else ("initialize", HELLO)
        text = caller.request(*begin).result["instructions"]
    assert told in text
    assert untold not in text


def filled(prompt: dict[str, Any]) -> dict[str, Any]:
    """A request for this prompt with a word for each argument."""
    return {
        "name": prompt["name"],
        "arguments": {each["name"]: f"<{each['name']}>" for each in prompt.get("arguments", [])},
    }


def test_a_page_of_ordinary_mail_leaves_room_in_a_context_window(data_dir: Path) -> None:
    mails = [
        Mail(
            f"Minutes of the meeting, week {number}",
            f"Person {number} <person{number}@example.org>",
            text="Please find the minutes of our meeting below. " * 10,
            minutes=number,
            flags=("\\Seen",),
        )
        for number in range(25)
    ]
    settings = settings_for(data_dir, free_port())
    fill_mirror(settings, "alice", "work", [Folder("INBOX", mails)])
    with Door(settings) as door:
        page = door.caller().call("list_messages", folder="INBOX")
    assert len(page.value["messages"]) == 20
    assert len(page.text) < ORDINARY_PAGE_TOKENS * CHARS_PER_TOKEN


def test_every_argument_that_needs_it_is_explained(door: Door) -> None:
    for tool in door.caller().request("tools/list").result["tools"]:
        assert tool["description"].endswith((".", "desc"))
        for name, schema in tool["inputSchema"]["properties"].items():
            assert schema.get("description") or schema.get("enum") or name == "subject"


def test_annotations_tell_reads_from_writes(door: Door) -> None:
    annotations = {
        tool["name"]: tool["annotations"]["readOnlyHint"]
        for tool in door.caller().request("tools/list").result["tools"]
    }
    assert [name for name, reads in annotations.items() if not reads] == ["send_message", "update_message_flags"]
