"""Whatever a client sends, it gets a clear error: no traceback, no inside of ours, and nothing secret said back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from tests.server.conftest import FOLDERS
from tests.server.door import ASSISTANT, HANDSHAKE, Caller, Door, fill_mirror, settings_for
from tests.servers.ports import free_port

PASSWORD = "hunter2-and-more"
SAID = "s3cret-said-by-the-client"
PROFILES: dict[str, dict[str, object]] = {
    "assistant": ASSISTANT,
    "gateway": {**ASSISTANT, "tools": "gateway"},
}
HUGE = "x" * 1_200_000


def nested(depth: int) -> Any:
    """A list in a list in a list, so deep."""
    value: Any = SAID
    for _ in range(depth):
        value = [value]
    return value


BAD = [
    SAID, "", " ", "\x00", f"a\x00{SAID}", "\ud800", "12px", 0, -1, 501, 2**70, 1.5, True, None, [], [SAID], {},
    {"a": SAID}, [[]], [None], [0], ["\ud800"], ["\x00"], nested(50), [SAID] * 100, "a\r\nb: c", "\u202e", "%00",
    "../../etc", "NaN", "' OR 1=1 --", '"', "\\Seen", "*",
]  # fmt: skip


@pytest.fixture(params=["assistant", "gateway"])
def caller(request: pytest.FixtureRequest, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """A client of either tool set over a mailbox with a password."""
    monkeypatch.setenv("EDGE_PASSWORD", PASSWORD)
    settings = settings_for(data_dir, free_port(), profiles=PROFILES, password={"env": "EDGE_PASSWORD"})
    fill_mirror(settings, "alice", "work", FOLDERS)
    with Door(settings) as door:
        yield door.caller(profile=request.param)


NEVER = (PASSWORD, "Traceback", "pydantic", "input_value", "site-packages", ".py", "/tmp", "127.0.0.1:9")


def check(caller: Caller, said: bytes, status: int, *more: str) -> None:
    """Nothing in an answer that should not be in one."""
    assert status < 500
    for never in (*NEVER, *more, caller.secret):
        assert never.encode() not in said, (never, said[:500])


def good_arguments(tool: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the right types, as far as the schema tells."""
    by_type = {"string": "INBOX", "integer": 1, "boolean": False, "array": ["x"], "object": {}}
    required = tool["inputSchema"].get("required", [])
    properties = tool["inputSchema"]["properties"]
    return {name: by_type.get(properties[name].get("type", "string"), "x") for name in required}


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_bad_arguments_of_every_tool_get_a_clear_error(caller: Caller, era: Literal["modern", "handshake"]) -> None:
    caller.era = era
    tools = caller.request("tools/list").result["tools"]
    for tool in tools:
        good = good_arguments(tool)
        for name in tool["inputSchema"]["properties"]:
            for bad in BAD if era == "modern" else BAD[::4]:
                answer = caller.request("tools/call", {"name": tool["name"], "arguments": {**good, name: bad}})
                check(caller, answer.bytes, answer.status)
        unknown = caller.request("tools/call", {"name": tool["name"], "arguments": {**good, "wrong": SAID}})
        check(caller, unknown.bytes, unknown.status, SAID)
        assert unknown.is_error
        assert "wrong" in unknown.text


def test_arguments_that_are_none_at_all_are_refused(caller: Caller) -> None:
    name = caller.request("tools/list").result["tools"][0]["name"]
    none: list[Any] = [[], "x", 1, nested(3), {"": SAID}, {"x" * 10_000: SAID}, {"\ud800": 1}, {"a\x00b": SAID}]
    for arguments in none:
        answer = caller.request("tools/call", {"name": name, "arguments": arguments})
        check(caller, answer.bytes, answer.status, SAID)
        assert answer.status >= 400 or answer.is_error or "error" in answer.result or "code" in answer.result
        assert len(answer.bytes) < 2_000


NAMES = ["nothing", "", "x" * 100_000, "\ud800", "\x00", "../tools", SAID, "Read_Message"]
METHODS = ["resources/read", "prompts/get", "nothing", "", "tools/../x", "logging/setLevel"]


def test_an_unknown_tool_is_an_error_that_does_not_say_its_name(caller: Caller) -> None:
    caller.era = "handshake"
    for name in NAMES:
        answer = caller.request("tools/call", {"name": name, "arguments": {}})
        check(caller, answer.bytes, answer.status, SAID)
        assert answer.is_error or "code" in answer.result
        assert len(answer.bytes) < 2_000


def test_other_methods_are_no_way_around(caller: Caller) -> None:
    caller.era = "handshake"
    for method in METHODS:
        answer = caller.request(method, {"name": SAID, "uri": "file:///etc/passwd"})
        check(caller, answer.bytes, answer.status)
        assert b"root:" not in answer.bytes


BODIES = [
    b"", b"{", b"[]", b"null", b"1", b'"x"', b"[" * 200_000, b'{"a":' * 50_000, b"\xff\xfe\x00", b"\x00" * 100,
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_messages","arguments":{"folder":"\\ud800"}}}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list","method":"x"}',
    b'{"jsonrpc":"2.0","id":NaN,"method":"tools/list"}',
]  # fmt: skip


def test_bodies_that_are_no_request_are_refused(caller: Caller) -> None:
    headers = {
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": HANDSHAKE,
        "Authorization": f"Bearer {caller.secret}", "Content-Type": "application/json",
    }  # fmt: skip
    for body in BODIES:
        answer = caller.http.post(f"{caller.url}/mcp", content=body, headers=headers)
        check(caller, answer.content, answer.status_code)
        assert len(answer.content) < 5_000 or answer.status_code == 200


def test_huge_texts_are_refused_and_not_said_back(caller: Caller) -> None:
    tools = caller.request("tools/list").result["tools"]
    for tool in tools:
        for name in good_arguments(tool):
            arguments = {**good_arguments(tool), name: HUGE}
            answer = caller.request("tools/call", {"name": tool["name"], "arguments": arguments})
            assert answer.is_error
            assert len(answer.bytes) < 3_000


def test_headers_that_are_too_long_or_broken_do_not_harm(caller: Caller) -> None:
    for headers in (
        {"X-Long": "x" * 200_000},
        {"Cookie": "x" * 60_000},
        {"Mcp-Session-Id": SAID},
        {"Accept": "*" * 9_000},
    ):
        try:
            answer = caller.http.post(
                f"{caller.url}/mcp", content="{}", headers={"Authorization": f"Bearer {caller.secret}", **headers}
            )
        except httpx2.TransportError:
            continue  # refused before all of it was read
        check(caller, answer.content, answer.status_code)
    assert caller.call(caller.request("tools/list").result["tools"][0]["name"]).status == 200


def test_a_list_given_as_one_text_is_never_taken_apart(caller: Caller) -> None:
    tools = {tool["name"]: tool for tool in caller.request("tools/list").result["tools"]}
    for tool in tools.values():
        for name, schema in tool["inputSchema"]["properties"].items():
            if schema.get("type") == "array":
                arguments = {**good_arguments(tool), name: "seen"}
                answer = caller.request("tools/call", {"name": tool["name"], "arguments": arguments})
                assert answer.is_error or answer.text.count("seen") == answer.text.count('"seen"') == 1
                assert '"s"' not in answer.text
                assert "'s'" not in answer.text


def test_a_number_may_come_as_text_and_what_is_none_is_refused_by_name(caller: Caller) -> None:
    tools = caller.request("tools/list").result["tools"]
    seen = 0
    for tool in tools:
        for name, schema in tool["inputSchema"]["properties"].items():
            if schema.get("type") != "integer":
                continue
            seen += 1
            for text, is_number in (("3", True), ("12px", False), ("", False), ("1e3", False), ("0x10", False)):
                arguments = {**good_arguments(tool), name: text}
                answer = caller.request("tools/call", {"name": tool["name"], "arguments": arguments})
                assert (f'argument "{name}"' in answer.text) != is_number, (tool["name"], name, text, answer.text)
            least, most = schema.get("minimum"), schema.get("maximum")
            for number in ([] if least is None else [least - 1]) + ([] if most is None else [most + 1]):
                arguments = {**good_arguments(tool), name: number}
                answer = caller.request("tools/call", {"name": tool["name"], "arguments": arguments})
                assert answer.is_error
                assert f'argument "{name}"' in answer.text
    assert seen
