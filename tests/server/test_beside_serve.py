"""doctor, backup and forget beside a `serve` that runs."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.doctor.healthz import ask_public
from tests.processes import until
from tests.server.doctor.installation import Installation
from tests.server.test_backup import run
from tests.server.test_forget import bytes_of
from tests.servers.dovecot import Dovecot

CANARY = "zanzibarquokka"


@pytest.fixture
def serving(tmp_path: Path, dovecot: Dovecot, user: str) -> Iterator[Installation]:
    """alice/work with a mail, and bob/work, mirrored by a running serve."""
    with dovecot.client(user) as client:
        client.append("INBOX", f"Subject: {CANARY}\r\nFrom: a@example.org\r\n\r\n{CANARY}\r\n".encode())
    imap = f'{{ host = "127.0.0.1", port = {dovecot.port}, security = "plain" }}'
    made = Installation(tmp_path, imap=imap)
    made.account["username"] = f'"{user}"'
    made.write(with_bob(made, imap, user))
    command = [sys.executable, "-m", "server.cli", "serve", "--config", str(made.config)]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        until(lambda: ask_public(f"http://127.0.0.1:{made.port}") == "ok")
        yield made
        process.send_signal(signal.SIGINT)
        process.wait(30)


def with_bob(made: Installation, imap: str, user: str) -> str:
    """The table of a second mailbox."""
    account = {**made.account, "username": f'"{user}-bob"', "imap": imap}
    return "[users.bob.providers.work]\n" + "\n".join(f"{key} = {value}" for key, value in account.items())


def test_it_is_healthy_backed_up_and_lets_go_of_a_mailbox(serving: Installation, tmp_path: Path) -> None:
    until(lambda: CANARY.encode() in bytes_of(serving.mirror))
    assert serving.examine(offline=False) == {}
    done = run("backup", tmp_path / "all.backup", "--with-mirrors", "--config", serving.config)
    assert done.exit_code == 0, done.output
    before, _, rest = serving.config.read_text().partition("[users.alice")
    serving.config.write_text(before + rest[rest.index("[profiles.") :])
    done = run("forget", "alice", "--yes", "--config", serving.config)
    assert done.exit_code == 0, done.output
    assert CANARY.encode() not in bytes_of(serving.data_dir)
    assert ask_public(serving.settings.server.url) == "ok"
    done = run("restore", tmp_path / "all.backup", "--data-dir", tmp_path / "elsewhere", "--config", serving.config)
    assert done.exit_code == 0, done.output
    assert CANARY.encode() in bytes_of(tmp_path / "elsewhere")
