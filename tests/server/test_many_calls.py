"""Every tool called many times, with arguments that it takes and arguments that it does not."""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from config.settings import load_settings
from mirror.mirrored import State as Mirrored
from server.state.store import State
from tests.server.door import Caller, Folder, Mail, fill_mirror
from tests.server.every_tool import EVERY_TOOL
from tests.server.serve_process import memory, serve_process
from tests.servers.ports import free_port

CONFIG = """
[server]
data_dir = "data"
workspace = "workspace"
port = {port}

[users.alice.providers.work]
address = "alice@example.org"
imap = {{ host = "127.0.0.1", port = 9, security = "plain" }}
smtp = {{ host = "127.0.0.1", port = 9, security = "plain" }}

[profiles.relay]
folders = [{{ match = "*", access = "write" }}]
content = {{ attachments = {{}} }}
outbound = {{ to_allow = ["*@example.org"] }}

[profiles.gateway]
tools = "gateway"
allow = {grants}
folders = [{{ match = "*", access = "write" }}]
content = {{ attachments = {{}} }}
outbound = {{ to_allow = ["*@example.org"] }}
"""
PDF = (("a.pdf", "application/pdf", b"%PDF"),)
WORDS = [
    "INBOX",
    "work",
    "alice@example.org",
    "report",
    "a\u0301\u202e\U0001f600",
    "",
    " ",
    "x" * 2_000,
    '"',
    "\\",
    "../../etc/passwd",
]
MANY, SEED = int(os.environ.get("POSTMIRROR_SOAK_CALLS", "10000")), int(os.environ.get("POSTMIRROR_SOAK_SEED", "9"))
"""Calls of each tool in `make soak`, and which ones: a run of many can be made of several of fewer."""
QUERIES = ["ALL", "UNSEEN", "FROM bob", "from bob", "body word order by date", "((((", "NOT", "1:*", 'subject "open']
ODD: list[object] = [None, True, -1, 0, 3, 10**30, 1.5, [], ["INBOX"], [["x"]], {}, {"a": {"b": []}}, "\x00", "5"]


@contextmanager
def serving(
    folder: Path, state: Mirrored = Mirrored.TEXT
) -> Iterator[tuple[subprocess.Popen[bytes], str, dict[str, str]]]:
    """(process, URL, secret by profile) of a `serve` over a mailbox of 40 mails, without a mail server.

    state: how much of them is mirrored.
    """
    port = free_port()
    config = folder / "postmirror.toml"
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(port=port, grants=list(EVERY_TOOL)))
    settings = load_settings(config)
    settings.server.data_dir.mkdir(mode=0o700)
    mails = [
        Mail(f"subject {each}", text="word " * 500, minutes=each, attachments=PDF, state=state) for each in range(40)
    ]
    fill_mirror(settings, "alice", "work", [Folder("INBOX", mails), Folder("Sent", role="\\Sent")])
    opened = State(settings.server.data_dir)
    secrets = {profile: opened.issue_token("alice", profile, provider="work")[1] for profile in settings.profiles}
    opened.close()
    with serve_process(config, settings.server) as (process, url):
        yield process, url, secrets


class Generated:
    """Arguments for tools, made from their schemas: every other set as it should be, as far as that is known."""

    def __init__(self, uids: list[str]) -> None:
        self._chance = random.Random(SEED)
        self._uids = uids

    def arguments(self, schema: Mapping[str, Any]) -> dict[str, object]:
        """The arguments of one call."""
        properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
        required = schema.get("required", [])
        given = {
            name: self._fitting(name, each)
            for name, each in properties.items()
            if name in required or self._chance.random() < 0.3
        }
        if self._chance.random() < 0.5:
            return given
        for _ in range(self._chance.randint(1, 3)):
            match self._chance.randrange(3):
                case 0 if given:
                    del given[self._chance.choice(list(given))]
                case 1:
                    given["unknown"] = self._chance.choice(ODD)
                case _:
                    given[self._chance.choice([*properties, "other"])] = self._chance.choice([*ODD, *WORDS])
        return given

    def _fitting(self, name: str, schema: Mapping[str, Any]) -> object:
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        match schema.get("type"):
            case "integer":
                return self._chance.randint(int(schema.get("minimum", 0)), 50)
            case "boolean":
                return self._chance.random() < 0.5
            case "array":
                return [self._fitting(name.rstrip("s"), schema["items"]) for _ in range(self._chance.randint(1, 3))]
        known = {
            "account": ["work"], "folder": ["INBOX"], "source_folder": ["INBOX"], "dest_folder": ["Sent"],
            "uid": self._uids, "message_id": self._uids, "query": QUERIES, "criteria": QUERIES, "filename": ["a.pdf"],
            "from": ["alice@example.org"], "to": ["bob@example.org"], "cursor": WORDS, "attachment": ["../x"],
        }  # fmt: skip
        return self._chance.choice(known.get(name, WORDS))


@pytest.mark.parametrize("calls", [15, pytest.param(MANY, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])])
def test_no_arguments_bring_a_tool_down(tmp_path: Path, calls: int) -> None:
    outcomes: Counter[str] = Counter()
    with serving(tmp_path) as (process, url, secrets), httpx2.Client(timeout=60) as http:
        clients = {profile: Caller(url, secret, http) for profile, secret in secrets.items()}
        page = clients["relay"].call("list_messages", folder="INBOX").value["messages"]
        ids = clients["gateway"].request(
            "tools/call", {"name": "search_emails", "arguments": {"account": "work", "criteria": "ALL"}}
        )
        known = {"relay": [each["uid"] for each in page], "gateway": ids.value["message_ids"]}
        tools = {
            (profile, tool["name"]): tool["inputSchema"]
            for profile, client in clients.items()
            for tool in client.request("tools/list").result["tools"]
        }
        generated = {profile: Generated(uids) for profile, uids in known.items()}
        after_a_tenth = 0.0
        for turn in range(calls):
            if turn == calls // 10:
                after_a_tenth = memory(process.pid)
            for (profile, name), schema in tools.items():
                arguments = generated[profile].arguments(schema)
                answer = clients[profile].request("tools/call", {"name": name, "arguments": arguments})
                assert answer.status == 200, (name, arguments, answer.bytes[:500])
                outcomes["error" if answer.is_error else "done"] += 1
                assert "Internal error" not in str(answer.result), (name, arguments)
                assert "server logs" not in str(answer.result), (name, arguments)
        grown = memory(process.pid) / after_a_tenth
    log = (tmp_path / "log").read_text("utf-8", "replace")
    sys.stdout.write(f"{calls} calls of each of {len(tools)} tools: {dict(outcomes)}, memory x{grown:.2f}\n")
    assert len(tools) >= 19
    assert min(outcomes["done"], outcomes["error"]) > calls
    assert "Traceback" not in log
    assert "failed, reference" not in log
    assert grown <= 1.10 or calls < 1_000
