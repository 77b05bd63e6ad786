"""Plain tool calls are answered before the SDK reads them, and like the SDK answers them; odd ones go through it."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from server.app import build_local
from server.channel import Channel
from server.plain_call import PlainCalls
from server.standard_streams import Answer, streams
from server.tool import ToolServer
from tests.server.conftest import FOLDERS
from tests.server.door import ASSISTANT, Door, fill_mirror, settings_for
from tests.servers.ports import free_port

MODERN = "2026-07-28"
VERSIONS = [MODERN, "2025-11-25", "2025-06-18"]
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
CLIENT = {"io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"}}
LIST = ("assistant", "list_messages", {"folder": "INBOX"})
SECONDS = 10.0

Headers = list[tuple[str, str]]
Body = dict[str, Any]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The application with both tool sets."""
    gateway = {**ASSISTANT, "tools": "gateway", "allow": ["list", "search", "get", "send"]}
    profiles = {"assistant": {**ASSISTANT, "content": {"attachments": {}}}, "gateway": gateway}
    settings = settings_for(tmp_path_factory.mktemp("plain") / "data", free_port(), profiles=profiles)
    for provider in ("work", "home"):
        fill_mirror(settings, "alice", provider, FOLDERS)
    with Door(settings) as running:
        # A mirror is opened on a thread.
        uid_in(running, "assistant")
        yield running


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tools whose calls were answered as plain ones. Nothing takes too long for that."""
    names: list[str] = []
    answer = PlainCalls.answer

    def noted(self: PlainCalls, request: Any, version: str) -> bytes | None:
        response = answer(self, request, version)
        if response is not None:
            names.append(request.params["name"])
        return response

    monkeypatch.setattr("server.brief_call.BRIEF_SECONDS", 60.0)
    monkeypatch.setattr(PlainCalls, "answer", noted)
    return names


def posted(door: Door, call: tuple[str, str, Mapping[str, Any]], version: str) -> tuple[Headers, Body]:
    """(headers, body) of a plain call."""
    profile, tool, arguments = call
    headers = [
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", version),
        ("Authorization", f"Bearer {door.token('alice', profile, 'work')}"),
    ]
    params: Body = {"name": tool, "arguments": arguments}
    if version == MODERN:
        headers += [("Mcp-Method", "tools/call"), ("Mcp-Name", tool)]
        params["_meta"] = META
    return headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def answered(door: Door, headers: Headers, body: object) -> tuple[int, object, dict[str, str]]:
    """(status, body, headers but for the date and the length) of the answer to a POST."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = door.http.post(f"{door.url}/mcp", content=content, headers=headers)
    said = {name: value for name, value in response.headers.items() if name not in ("date", "content-length")}
    is_json = response.content and response.headers.get("content-type") == "application/json"
    return response.status_code, response.json() if is_json else response.text, said


def by_the_sdk(door: Door, headers: Headers, body: object, monkeypatch: pytest.MonkeyPatch) -> object:
    """The same when the SDK answers everything."""
    with monkeypatch.context() as without:
        without.setattr("server.app.plain_post", lambda *_: None)
        return answered(door, headers, body)


def uid_in(door: Door, profile: str) -> str:
    """A message of the INBOX, by the name that a profile has for it."""
    if profile == "assistant":
        return str(door.caller().call("list_messages", folder="INBOX").value["messages"][0]["uid"])
    return str(door.caller(profile="gateway").call("search_emails", account="work").value["message_ids"][0])


CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("assistant", "list_folders", {}),
    LIST,
    ("assistant", "search_messages", {"folder": "INBOX", "query": "body lunch"}),
    ("assistant", "search_messages", {"folder": "INBOX", "query": "((("}),
    ("assistant", "read_message", {"folder": "INBOX", "uid": "UID"}),
    ("assistant", "read_messages", {"folder": "INBOX", "uids": ["UID", "x" * 22]}),
    ("assistant", "list_messages", {"folder": "Nowhere"}),
    ("assistant", "list_messages", {"folder": "INBOX", "more": "ä\u2028\U0001f600"}),
    ("gateway", "list_accounts", {}),
    ("gateway", "list_folders", {"account": "work"}),
    ("gateway", "search_emails", {"account": "work", "criteria": "ALL"}),
    ("gateway", "get_email", {"account": "work", "message_id": "UID"}),
    ("gateway", "get_email", {"account": "nobody", "message_id": "UID"}),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_call_is_answered_as_the_sdk_answers_it(
    door: Door, plain: list[str], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    for profile, tool, arguments in CALLS:
        named = json.loads(json.dumps(arguments).replace("UID", uid_in(door, profile)))
        headers, body = posted(door, (profile, tool, named), version)
        plain.clear()
        by_us = answered(door, headers, body)
        assert plain == [tool]
        assert by_us == by_the_sdk(door, headers, body, monkeypatch)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("request_id", [0, -1, 2**53, "", 'ä\u2028"', "1"])
def test_a_plain_answer_has_the_id_of_its_request(
    door: Door, plain: list[str], monkeypatch: pytest.MonkeyPatch, version: str, request_id: object
) -> None:
    headers, body = posted(door, LIST, version)
    body["id"] = request_id
    by_us = answered(door, headers, body)
    assert len(plain) == 1
    assert by_us == by_the_sdk(door, headers, body, monkeypatch)


def with_header(name: str, value: str) -> Any:
    """Adds a header."""
    return lambda headers, body: headers.append((name, value))


def with_other(name: str, value: str) -> Any:
    """Puts another value into a header."""

    def change(headers: Headers, body: Body) -> None:
        headers[:] = [(each, value if each == name else said) for each, said in headers]

    return change


def with_meta(**more: object) -> Any:
    """Puts something into `_meta`."""

    def change(headers: Headers, body: Body) -> None:
        body["params"]["_meta"] = {**body["params"].get("_meta", {}), **more}

    return change


def with_params(**more: object) -> Any:
    """Puts something beside the name."""
    return lambda headers, body: body["params"].update(more)


def with_fields(**more: object) -> Any:
    """Puts something beside the method."""
    return lambda headers, body: body.update(more)


ODD: dict[str, Any] = {
    "a name that is not the header's": with_params(name="list_folders"),
    "a tool that there is not": with_params(name="nothing"),
    "a tool that sends": with_params(name="send_message"),
    "no arguments": with_params(arguments=None),
    "arguments that are none": with_params(arguments=["INBOX"]),
    "a name that is none": with_params(name=7),
    "a field more in the parameters": with_params(task={"ttl": 1}),
    "another method": with_fields(method="tools/list"),
    "an id that is none": with_fields(id=None),
    "an id that is a number with a point": with_fields(id=1.5),
    "another JSON-RPC": with_fields(jsonrpc="1.0"),
    "no parameters": with_fields(params=None),
    "a wish to be told": with_meta(progressToken=1),
    "another version in the envelope": with_meta(**{"io.modelcontextprotocol/protocolVersion": "2025-11-25"}),
    "capabilities that are none": with_meta(**{"io.modelcontextprotocol/clientCapabilities": 5}),
    "a client that is none": with_meta(**{"io.modelcontextprotocol/clientInfo": {"name": 5}}),
    "a long envelope": with_meta(long="x" * 3_000),
    "a session": with_header("Mcp-Session-Id", "x"),
    "a parameter header": with_header("Mcp-Param-Folder", "INBOX"),
    "an origin": with_header("Origin", "http://127.0.0.1"),
    "another origin": with_header("Origin", "http://example.org"),
    "a host that is not ours": with_other("Host", "example.org"),
    "two versions": with_header("MCP-Protocol-Version", MODERN),
    "two names": with_header("Mcp-Name", "list_messages"),
    "an unknown version": with_other("MCP-Protocol-Version", "2027-01-01"),
    "an old version": with_other("MCP-Protocol-Version", "2024-11-05"),
    "another name in the header": with_other("Mcp-Name", "list_folders"),
    "another method in the header": with_other("Mcp-Method", "tools/list"),
    "another type": with_other("Content-Type", "text/plain"),
    "nothing that it takes": with_other("Accept", "text/html"),
    "only a stream that it takes": with_other("Accept", "text/event-stream"),
}


OF_THE_MODERN_ERA = {
    "a name that is not the header's",
    "another name in the header",
    "another method in the header",
}


@pytest.mark.parametrize(
    ("odd", "version"),
    [(odd, version) for version in VERSIONS[:2] for odd in ODD if version == MODERN or odd not in OF_THE_MODERN_ERA],
)
def test_an_odd_call_is_left_to_the_sdk(
    door: Door, plain: list[str], monkeypatch: pytest.MonkeyPatch, odd: str, version: str
) -> None:
    headers, body = posted(door, LIST, version)
    headers.append(("Host", door.url.partition("//")[2]))
    ODD[odd](headers, body)
    by_us = answered(door, headers, body)
    assert plain == []
    assert by_us == by_the_sdk(door, headers, body, monkeypatch)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 5_000, b'{"a":"\\ud800"}', b"null", b"\x00"])
def test_a_body_that_is_no_request_is_left_to_the_sdk(
    door: Door, plain: list[str], monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    for version in VERSIONS[:2]:
        headers, _ = posted(door, LIST, version)
        assert answered(door, headers, content) == by_the_sdk(door, headers, content, monkeypatch)
    assert plain == []


def initialize(version: str) -> Body:
    """The first request of the handshake era."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def local_call(number: int, call: tuple[str, Mapping[str, Any]], meta: Mapping[str, Any] | None = None) -> Body:
    """A tool call of a local session."""
    tool, arguments = call
    params = {"name": tool, "arguments": arguments, **({} if meta is None else {"_meta": meta})}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def talk(server: ToolServer, answer: Answer, requests: list[Body]) -> list[Body]:
    """The answers to these requests of a local session, each sent after the one before was answered."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    source, sink = Channel.over(theirs_in, os.O_RDONLY), Channel.over(theirs_out, os.O_WRONLY)
    assert source is not None
    assert sink is not None
    os.close(theirs_in)
    os.close(theirs_out)
    incoming, outgoing = streams(source, sink, answer)
    serving = asyncio.create_task(server.run(incoming, outgoing, server.create_initialization_options()))
    answers = []
    try:
        async with asyncio.timeout(SECONDS):
            with os.fdopen(ours_in, "rb") as lines:
                for request in requests:
                    os.write(ours_out, json.dumps(request).encode() + b"\n")
                    if "id" in request:
                        answers.append(json.loads(await asyncio.to_thread(lines.readline)))
            os.close(ours_out)
            await serving
    finally:
        source.close()
        sink.close()
    return answers


LISTED: tuple[str, dict[str, Any]] = ("list_messages", {"folder": "INBOX"})
NOTHING: tuple[str, dict[str, Any]] = ("nothing", {})
SESSIONS: dict[str, tuple[list[Body], int]] = {
    "handshake": (
        [
            initialize("2025-11-25"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            local_call(1, LISTED),
            local_call(2, ("read_message", {"folder": "INBOX", "uid": "x" * 22})),
            local_call(3, LISTED, META),
            local_call(4, NOTHING),
            local_call(5, LISTED, {"example.org/more": 1}),
        ],
        3,
    ),
    "old handshake": ([initialize("2024-11-05"), local_call(1, LISTED)], 0),
    "unknown handshake": ([initialize("2030-01-01"), local_call(1, LISTED)], 1),
    "handshake after a ping": (
        [
            {"jsonrpc": "2.0", "id": 8, "method": "ping", "params": {"_meta": [1]}},
            {"jsonrpc": "2.0", "id": 9, "method": "ping"},
            initialize("2025-11-25"),
            local_call(1, LISTED),
        ],
        1,
    ),
    "no handshake": ([local_call(1, LISTED), local_call(2, LISTED)], 0),
    "modern": (
        [
            local_call(1, LISTED, META),
            local_call(2, LISTED, META | CLIENT),
            local_call(3, LISTED),
            local_call(4, NOTHING, META),
            initialize("2025-11-25"),
            local_call(5, ("list_folders", {}), META),
        ],
        2,
    ),
    "modern, with a fault": ([local_call(1, NOTHING, META), local_call(2, LISTED, META)], 0),
}


@pytest.mark.parametrize("session", SESSIONS)
def test_a_local_session_answers_plain_calls_as_the_sdk_answers_them(
    door: Door, plain: list[str], session: str
) -> None:
    server = build_local(door.parts, "alice", "assistant", "work")
    requests, plainly = SESSIONS[session]
    by_us = asyncio.run(talk(server, PlainCalls(server).answer, requests))
    assert len(plain) == plainly
    assert by_us == asyncio.run(talk(server, lambda *_: None, requests))


def test_a_plain_call_that_takes_long_is_made_once_more_on_a_thread(
    door: Door, plain: list[str], monkeypatch: pytest.MonkeyPatch, on_threads: list[str]
) -> None:
    monkeypatch.setattr("server.brief_call.BRIEF_SECONDS", 0.0)
    server = build_local(door.parts, "alice", "assistant", "work")
    requests, _ = SESSIONS["modern"]
    answers = asyncio.run(talk(server, PlainCalls(server).answer, requests[:2]))
    assert [answer["result"]["isError"] for answer in answers] == [False, False]
    assert (plain, on_threads) == ([], ["thread", "thread"])
