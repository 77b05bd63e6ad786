"""The commands as processes on a real mailbox: what operator and client see when things are stopped and killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from bench.mail import generate
from tests.processes import children_of, descendants_of, is_running, until
from tests.servers.dovecot import Dovecot
from tests.servers.ports import PASSWORD, free_port
from tests.servers.smtp import SmtpSink

CONFIGURATION = """
[server]
port = {port}
data_dir = "data"

[users.alice.providers.work]
address = "{user}@example.org"
display_name = "Alice Example"
username = "{user}"
password = {{ file = "password" }}
imap = {{ host = "127.0.0.1", port = {imap_port}, security = "plain" }}
smtp = {{ host = "127.0.0.1", port = {smtp_port}, security = "plain" }}
sync = {{ interval = "10m" }}

[users.bob.providers.work]
address = "{user}-bob@example.org"
username = "{user}-bob"
password = {{ file = "password" }}
imap = {{ host = "127.0.0.1", port = {imap_port}, security = "plain" }}

[profiles.assistant]
[[profiles.assistant.folders]]
match = "INBOX"
access = "write"
[[profiles.assistant.folders]]
match = "Sent"
access = "read"
[profiles.assistant.outbound]
to_allow = ["*@example.net"]
"""


def mail(subject: str, body: str = "Hello Alice.") -> bytes:
    """A small plain mail."""
    return (
        f"From: Bob <bob@example.net>\r\nTo: alice@example.org\r\nSubject: {subject}\r\n"
        f"Date: Mon, 5 Jan 2026 10:00:00 +0100\r\nMessage-ID: <{subject.replace(' ', '.')}@example.net>\r\n"
        f"\r\n{body}\r\n"
    ).encode()


class Installation:
    """A configuration in a folder of its own, and the commands run on it."""

    def __init__(self, folder: Path, dovecot: Dovecot, sink: SmtpSink, user: str) -> None:
        self.folder = folder
        self.user = user
        self.port = free_port()
        self.config = folder / "postmirror.toml"
        self.log = folder / "log"
        text = CONFIGURATION.format(user=user, port=self.port, imap_port=dovecot.port, smtp_port=sink.port)
        for path, content in ((self.config, text), (folder / "password", PASSWORD)):
            path.touch(mode=0o600)
            path.write_text(content, "utf-8")

    def command(self, *words: str) -> list[str]:
        """A command line of the program."""
        return [sys.executable, "-m", "server.cli", *words, "--config", str(self.config)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False)

    def token(self, user: str = "alice", name: str = "test") -> str:
        """The secret of a new token."""
        done = self.run("token", "new", user, "assistant", "--name", name)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[bytes]]:
        """`serve`, from the time it answers until the block ends."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(self.command("serve"), stdout=log, stderr=log)
        try:
            until(self.answers)
            yield process
        finally:
            process.terminate()
            process.wait(20)

    def answers(self) -> bool:
        """Whether the server says it is well."""
        try:
            return bool(httpx2.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).json()["status"] == "ok")
        except httpx2.TransportError:
            return False

    def call(self, secret: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers over HTTP, by the SDK's own client; an error as `{"error": text}`."""
        return anyio.run(self._call, secret, tool, arguments)

    async def _call(self, secret: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{self.port}/mcp", http_client=http)
            async with Client(transport) as client:
                return answer_of(await client.call_tool(tool, arguments))

    def status(self, user: str = "alice") -> dict[str, Any]:
        """One mirror as `status --json` shows it."""
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stderr
        mirror: dict[str, Any] = json.loads(done.stdout)[f"{user}/work"]
        return mirror


def answer_of(result: Any) -> dict[str, Any]:
    """A tool's answer as a client reads it."""
    text = result.content[0].text
    answer: dict[str, Any] = {"error": text} if result.is_error else json.loads(text)
    return answer


@pytest.fixture
def installation(tmp_path: Path, dovecot: Dovecot, smtp_sink: SmtpSink, user: str) -> Installation:
    """An installation on an empty mailbox; nothing is running yet."""
    return Installation(tmp_path, dovecot, smtp_sink, user)


def test_offline_reads_answer_as_before_and_writes_fail_clearly_and_online_it_catches_up(
    installation: Installation, dovecot: Dovecot, user: str
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", mail("first offline"), mail("second offline"))
    assert installation.run("sync").returncode == 0
    secret = installation.token()
    with installation.serving():
        until(lambda: installation.status()["error"] == "")
        before = installation.call(secret, "list_messages", folder="INBOX")
        uid = before["messages"][0]["uid"]
        dovecot.stop()
        assert installation.call(secret, "list_messages", folder="INBOX")["messages"] == before["messages"]
        found = installation.call(secret, "search_messages", folder="INBOX", query="subject second")
        assert len(found["messages"]) == 1
        assert "as_of" in found
        assert installation.call(secret, "read_message", folder="INBOX", uid=uid)["body"] == "Hello Alice."
        started = time.monotonic()
        refused = installation.call(
            secret, "update_message_flags", folder="INBOX", uid=uid, flags=["seen"], action="add"
        )
        assert time.monotonic() - started < 5
        assert "mail server" in refused["error"]
        until(lambda: installation.status()["error"] != "", seconds=60)
        dovecot.start()
        with dovecot.client(user) as client:
            client.append("INBOX", mail("third after"))
        until(lambda: len(installation.call(secret, "list_messages", folder="INBOX")["messages"]) == 3, seconds=90)


def test_flag_is_seen_by_another_client_and_mail_arrives_whole(
    installation: Installation, dovecot: Dovecot, smtp_sink: SmtpSink, user: str
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", mail("flag me"))
    installation.run("sync")
    secret = installation.token()
    with installation.serving():
        uid = installation.call(secret, "list_messages", folder="INBOX")["messages"][0]["uid"]
        answer = installation.call(
            secret, "update_message_flags", folder="INBOX", uid=uid, flags=["flagged", "seen"], action="add"
        )
        assert sorted(answer["flags"]) == ["flagged", "seen"]
        with dovecot.client(user) as client:
            assert client.listing("INBOX")[0].flags == {"\\Flagged", "\\Seen"}
        listed = installation.call(secret, "list_messages", folder="INBOX")["messages"][0]
        assert sorted(listed["flags"]) == ["flagged", "seen"]
        sent = installation.call(
            secret, "send_message", **{"from": f"{user}@example.org", "to": ["bob@example.net"]}, subject="Grüße",
            body="Zwölf Boxkämpfer, 5 €",
        )  # fmt: skip
        assert sent["status"] == "sent"
        smtp_sink.wait_for(1)
        assert b"\nDate: " in smtp_sink.messages[0].raw
        assert b"\nMessage-ID: <" in smtp_sink.messages[0].raw


def test_kill_of_serve_leaves_no_orphan_and_the_next_start_goes_on(
    installation: Installation, dovecot: Dovecot, user: str
) -> None:
    with dovecot.client(user) as client:
        mails = list(generate(500, seed=8))
        for start in range(0, len(mails), 250):
            client.append("INBOX", *mails[start : start + 250])
    secret = installation.token()
    process = subprocess.Popen(installation.command("serve"), stderr=subprocess.DEVNULL)
    try:
        until(lambda: _searchable(installation) > 100)
        family = descendants_of(process.pid)
        assert len(family) >= 2, "a worker and a parsing child"
    finally:
        process.kill()
        process.wait()
    until(lambda: not any(is_running(pid) for pid in family))
    with installation.serving():
        until(lambda: _searchable(installation) == 500)
        assert installation.status()["folders"][0]["complete"]
        page = installation.call(secret, "list_messages", folder="INBOX")
        assert page["complete"] is True


def test_worker_that_is_killed_is_started_again(installation: Installation, dovecot: Dovecot, user: str) -> None:
    with installation.serving() as process:
        until(lambda: installation.status()["last_pass"] is not None)
        (worker,) = children_of(process.pid)
        os.kill(worker, signal.SIGKILL)
        with dovecot.client(user) as client:
            client.append("INBOX", mail("after the crash"))
        until(lambda: _searchable(installation) == 1)


def test_second_serve_on_one_data_directory_is_refused(installation: Installation) -> None:
    with installation.serving():
        second = installation.run("serve", "--port", str(free_port()))
        assert second.returncode != 0
        assert "serves" in second.stderr
        assert "data_dir" in second.stderr


def test_sync_beside_serve_lets_the_worker_do_it(installation: Installation, dovecot: Dovecot, user: str) -> None:
    with installation.serving():
        until(lambda: installation.status()["last_pass"] is not None)
        with dovecot.client(user) as client:
            client.append("INBOX", mail("just now"))
        done = installation.run("sync", "alice/work", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["complete"] is True
        assert _searchable(installation) == 1


def test_two_local_sessions_and_serve_share_one_mirror(installation: Installation, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", mail("shared"))

    async def ask() -> list[int]:
        counts = []
        words = installation.command("stdio", "--user", "alice", "--profile", "assistant")
        parameters = StdioServerParameters(command=words[0], args=words[1:], cwd=str(Path.cwd()))
        async with Client(stdio_client(parameters)) as first, Client(stdio_client(parameters)) as second:
            for client in (first, second):
                with anyio.fail_after(30):
                    while True:
                        answer = answer_of(await client.call_tool("list_messages", {"folder": "INBOX"}))
                        if answer.get("complete"):
                            counts.append(len(answer["messages"]))
                            break
                        await anyio.sleep(0.1)
        return counts

    assert anyio.run(ask) == [1, 1]
    with installation.serving():
        assert anyio.run(ask) == [1, 1]


def test_revoked_and_foreign_tokens(installation: Installation, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", mail("alice only"))
    installation.run("sync")
    mine, other = installation.token(), installation.token("bob", "other")
    with installation.serving():
        assert len(installation.call(mine, "list_messages", folder="INBOX")["messages"]) == 1
        assert installation.call(other, "list_messages", folder="INBOX").get("messages", []) == []
        hidden = installation.call(mine, "list_messages", folder="Trash")
        assert hidden == installation.call(mine, "list_messages", folder="Nope")
        assert installation.run("token", "revoke", "test").returncode == 0
        answer = httpx2.post(
            f"http://127.0.0.1:{installation.port}/mcp", headers={"Authorization": f"Bearer {mine}"}, json={}
        )
        assert answer.status_code == 401


def test_sync_reports_a_failure_by_its_exit_code(installation: Installation, dovecot: Dovecot) -> None:
    dovecot.stop()
    done = installation.run("sync", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["errors"].keys() == {"alice/work", "bob/work"}


def test_config_check_names_file_key_and_fix(installation: Installation) -> None:
    assert installation.run("config", "check").returncode == 0
    installation.config.write_text(installation.config.read_text("utf-8").replace("access", "acces"), "utf-8")
    done = installation.run("config", "check")
    assert done.returncode == 1
    assert f"{installation.config}: profiles.assistant.folders.0.acces: unknown key" in done.stderr


def _searchable(installation: Installation) -> int:
    try:
        folders = installation.status()["folders"]
    except AssertionError:
        return 0
    return sum(folder["messages"] - folder["pending"] for folder in folders)
