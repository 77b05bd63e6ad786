"""A gateway process that is killed in the middle of send_email: with that call's key the next sends no second mail."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.door import HANDSHAKE
from tests.server.killed_sender import written_settings
from tests.servers.dovecot import Dovecot
from tests.servers.faulty_smtp import FaultySmtp, Stage

MAIL = {"account": "work", "to": ["bob@example.org"], "subject": "Hi", "body": "Hello.", "idempotency_key": "once"}
_GATEWAY = """
[profiles.agent]
tools = "gateway"
[profiles.agent.outbound]
to_allow = ["*"]
"""


class Session:
    """One `postmirror stdio` and what a client says to it, line by line."""

    def __init__(self, config: Path) -> None:
        command = ["stdio", "--config", str(config), "--user", "alice", "--profile", "agent"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "server.cli", *command],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": "."},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        client = {"name": "test", "version": "0"}
        self.say("initialize", 1, protocolVersion=HANDSHAKE, capabilities={}, clientInfo=client)
        self.hear(1)
        self.say("notifications/initialized")

    def say(self, method: str, number: int | None = None, **params: object) -> None:
        """One request, or a notification without a number."""
        assert self.process.stdin is not None
        named = {} if number is None else {"id": number}
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **named}) + "\n")
        self.process.stdin.flush()

    def hear(self, number: int) -> Any:
        """The result of a request."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if said.get("id") == number:
                return said["result"]
        raise EOFError("the process has ended")

    def send(self) -> Any:
        """Ask for the mail to be sent, and what is answered."""
        self.say("tools/call", 2, name="send_email", arguments=MAIL)
        return self.hear(2)


@contextmanager
def session(config: Path) -> Iterator[Session]:
    """A running one, killed in the end."""
    running = Session(config)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


@pytest.mark.parametrize(
    ("stage", "is_handed_over"),
    [
        ("dot", True),
        pytest.param("data", False, marks=pytest.mark.soak),
        pytest.param("greeting", False, marks=pytest.mark.soak),
        pytest.param("rcpt", False, marks=pytest.mark.soak),
        pytest.param("content", True, marks=pytest.mark.soak),
        pytest.param("quit", True, marks=pytest.mark.soak),
    ],
)
def test_a_key_outlives_a_process_that_was_killed_while_it_sent(
    tmp_path: Path, dovecot: Dovecot, user: str, stage: Stage, is_handed_over: bool
) -> None:
    with FaultySmtp() as server:
        config = written_settings(tmp_path, dovecot.port, server.port, user)
        config.write_text(config.read_text("utf-8").replace('"auto"', '"none"') + _GATEWAY, "utf-8")
        server.misbehave(stage, "stall")
        with session(config) as first:
            first.say("tools/call", 2, name="send_email", arguments=MAIL)
            assert server.said.wait(30)
        server.behave()
        before = len(server.delivered)
        with session(config) as second:
            answer = second.send()
        text = answer["content"][0]["text"]
        if is_handed_over:
            assert answer["isError"]
            assert text.startswith("Uncertain: ")
            assert len(server.delivered) == before
        else:
            assert json.loads(text) == {"status": "sent", "recipients": 1}
            assert (before, len(server.delivered)) == (0, 1)
