"""Calls that take long: steps for whoever asks for them, and an end when the client is gone."""

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mirror.mirrored import State
from server.audit.report import tail
from server.reading import TEXT_WAIT
from server.serve import DRAIN_SECONDS
from tests.processes import until
from tests.server.door import (
    HANDSHAKE,
    JSON,
    MODERN,
    Caller,
    Door,
    Folder,
    Mail,
    fill_mirror,
    modern_call,
    settings_for,
)
from tests.server.test_many_calls import serving
from tests.servers.ports import free_port


@pytest.fixture
def waiting(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """The application over a mail whose text never comes, which is waited for as long as it takes to see a step."""
    monkeypatch.setattr("server.long_call._EVERY_SECONDS", 0.1)
    monkeypatch.setattr("server.reading.TEXT_WAIT", 1.0)
    settings = settings_for(data_dir, free_port())
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [Mail(state=State.HEADERS)])])
    with Door(settings) as door:
        yield door


def request(door: Door, era: str, *, with_token: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """(body, headers) of a call that reads the mail."""
    caller = door.caller()
    uid = caller.call("list_messages", folder="INBOX").value["messages"][0]["uid"]
    body, headers = modern_call(caller.secret, "read_message", {"folder": "INBOX", "uid": uid})
    if era == HANDSHAKE:
        headers = {name: value for name, value in headers.items() if not name.startswith("Mcp-")}
        headers["MCP-Protocol-Version"] = HANDSHAKE
        del body["params"]["_meta"]
    if with_token:
        body["params"].setdefault("_meta", {})["progressToken"] = "p1"
    return body, headers


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_a_client_that_asks_is_told_how_far_a_call_is(waiting: Door, era: str) -> None:
    body, headers = request(waiting, era, with_token=True)
    answer = waiting.http.post(f"{waiting.url}/mcp", json=body, headers=headers)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    *steps, last = events
    assert steps
    assert {each["method"] for each in steps} == {"notifications/progress"}
    assert {each["params"]["progressToken"] for each in steps} == {"p1"}
    done = [each["params"]["progress"] for each in steps]
    assert done == sorted(set(done))
    assert "not" in json.loads(last["result"]["content"][0]["text"])["note"]


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_a_client_that_does_not_ask_gets_one_body(waiting: Door, era: str) -> None:
    body, headers = request(waiting, era, with_token=False)
    answer = waiting.http.post(f"{waiting.url}/mcp", json=body, headers=headers)
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.json()["result"]["content"][0]["text"])["body"] is None


def test_a_client_that_takes_no_stream_gets_one_body(waiting: Door) -> None:
    body, headers = request(waiting, MODERN, with_token=True)
    answer = waiting.http.post(f"{waiting.url}/mcp", json=body, headers={**headers, "Accept": "application/json"})
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("with_token", [True, False])
def test_a_call_ends_when_its_client_hangs_up(
    waiting: Door, data_dir: Path, monkeypatch: pytest.MonkeyPatch, with_token: bool
) -> None:
    monkeypatch.setattr("server.reading.TEXT_WAIT", 1_000.0)
    body, headers = request(waiting, MODERN, with_token=with_token)
    payload = json.dumps(body).encode()
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(["POST /mcp HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(payload)}", *lines, "", ""])
    with socket.create_connection(("127.0.0.1", int(waiting.url.rsplit(":", 1)[1]))) as client:
        client.sendall(head.encode() + payload)
        waits = waiting.parts.mirrors.folder("alice", "work") / "mirror.db"
        until(lambda: bool(wanted(waits)))
    until(lambda: any(each["outcome"] == "abandoned" for each in tail(data_dir / "audit", 100)))


def test_a_stop_answers_what_is_under_way_and_ends_in_time(tmp_path: Path) -> None:
    with serving(tmp_path, State.HEADERS) as (process, url, secrets), httpx2.Client(timeout=60) as http:
        uid = Caller(url, secrets["relay"], http).call("list_messages", folder="INBOX").value["messages"][0]["uid"]
        body, headers = modern_call(secrets["relay"], "read_message", {"folder": "INBOX", "uid": uid})
        body["params"]["_meta"]["progressToken"] = "p1"
        with http.stream("POST", f"{url}/mcp", json=body, headers=headers) as answer:
            lines = answer.iter_lines()
            assert any("notifications/progress" in line for line in lines)
            process.terminate()
            assert any('"result"' in line for line in lines)
        process.wait(DRAIN_SECONDS + TEXT_WAIT)
    assert "Traceback" not in (tmp_path / "log").read_text()


def wanted(database: Path) -> list[Any]:
    """What the worker was asked to fetch first."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT * FROM wanted").fetchall()


def test_a_mail_that_speaks_of_a_token_is_answered_like_any_other(waiting: Door) -> None:
    caller = waiting.caller()
    body, headers = modern_call(
        caller.secret, "list_messages", {"folder": "INBOX", "query": 'body "\\"progressToken\\""'}
    )
    answer = waiting.http.post(f"{waiting.url}/mcp", content=json.dumps(body), headers=headers | JSON)
    assert answer.status_code == 200
