"""What `postmirror sync` and `status` tell an operator: in numbers, in plain words, and by exit code."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mirror.database import connect
from mirror.query import lines
from server.cli import main
from tests.servers.lying import LyingImap, replaced
from tests.servers.ports import PASSWORD, free_port

CONFIGURATION = """
[server]
data_dir = "data"

[users.alice.providers.work]
address = "alice@example.org"
password = {{ file = "password" }}
imap = {{ host = "127.0.0.1", port = {port}, security = "plain" }}
sync = {{ daily_bytes = {daily} }}
"""


class Operator:
    """Somebody at the command line of an installation."""

    def __init__(self, folder: Path, port: int, daily: int = 0) -> None:
        self.config = folder / "postmirror.toml"
        for path, text in (
            (self.config, CONFIGURATION.format(port=port, daily=daily)),
            (folder / "password", PASSWORD),
        ):
            path.write_text(text, "utf-8")
            path.chmod(0o600)

    def run(self, *words: str) -> Result:
        """A command, to its end."""
        return CliRunner().invoke(main, [*words, "--config", str(self.config)])

    def status(self) -> dict[str, Any]:
        """The mirror as `status --json` shows it."""
        shown: dict[str, Any] = json.loads(self.run("status", "--json").stdout)["alice/work"]
        return shown

    def folder(self, name: str) -> dict[str, Any]:
        """One folder of it."""
        return next(dict(folder) for folder in self.status()["folders"] if folder["folder"] == name)


@pytest.fixture
def server() -> Iterator[LyingImap]:
    """A mailbox of one folder with nine messages."""
    with LyingImap() as made:
        made.fill("INBOX", *range(1, 10))
        yield made


@pytest.fixture
def operator(tmp_path: Path, server: LyingImap) -> Operator:
    """An operator whose one account is on that server."""
    return Operator(tmp_path, server.port)


def test_whole_account_is_told_with_its_rung_and_its_bytes(operator: Operator) -> None:
    assert operator.run("sync").exit_code == 0
    status = operator.status()
    assert (status["error"], status["rung"], status["distrusted"]) == ("", "IMAP4rev1", {})
    assert status["bytes_today"] == status["bytes_total"] > 1_000
    assert (status["daily_bytes"], status["bytes_pending"], status["done_by"]) == (None, 0, None)
    inbox = operator.folder("INBOX")
    assert (inbox["messages"], inbox["complete"], inbox["complete_back_to"], inbox["error"]) == (9, True, None, "")
    shown = operator.run("status").stdout
    assert "received" in shown
    assert "to fetch" not in shown


def test_an_account_before_its_first_pass_has_not_failed(operator: Operator) -> None:
    shown = operator.run("status").stdout
    assert "not mirrored yet: run postmirror sync or serve" in shown
    assert "failed" not in shown


@pytest.mark.parametrize("command", ["status", "sync"])
def test_a_configuration_without_a_mailbox_is_told_how_to_get_one(operator: Operator, command: str) -> None:
    operator.config.write_text('[server]\ndata_dir = "data"\n')
    shown = operator.run(command)
    assert shown.exit_code == 0
    assert "postmirror init --add" in shown.stdout


def test_capability_that_was_broken_is_told_with_the_reason(operator: Operator, server: LyingImap) -> None:
    server._capability = b"IMAP4rev1 AUTH=PLAIN ESEARCH"
    server.twist = replaced("UID SEARCH RETURN", b"TAG BAD never heard of it\r\n")
    assert operator.run("sync").exit_code == 0
    status = operator.status()
    assert status["rung"] == "IMAP4rev1"
    assert "never heard of it" in status["distrusted"]["ESEARCH"]
    assert "never heard of it" in operator.run("status").stdout


def test_message_that_cannot_be_fetched_is_told_by_uid_size_and_reason_never_by_subject(
    operator: Operator, server: LyingImap
) -> None:
    server.twist = lambda command, answer: answer.replace(b"* 7 FETCH (UID 7 BODY[]", b"* 7 FETCH (UID 70 BODY[]")
    for _ in range(3):
        operator.run("sync")
    inbox = operator.folder("INBOX")
    [message] = inbox["quarantine"]
    assert (inbox["quarantined"], message["uid"]) == (1, 7)
    assert message["size"] == len(server.folders["INBOX"].messages[7].raw)
    assert "did not send" in message["reason"]
    for words in (("status",), ("status", "--json")):
        shown = operator.run(*words).stdout
        assert "did not send" in shown
        assert "mail 7" not in shown


def test_folder_that_cannot_be_opened_is_told_and_is_no_failure(operator: Operator, server: LyingImap) -> None:
    server.fill("Parent [old]", 1)
    server.twist = replaced('(EXAMINE|STATUS) "Parent', b"TAG NO [NOPERM] not for you\r\n")
    done = operator.run("sync")
    assert done.exit_code == 0
    assert "not for you" in done.output
    parent = operator.folder("Parent [old]")
    assert (parent["closed"], parent["complete"]) == (True, False)
    assert "sync.exclude" in parent["error"]
    assert "Parent [old]" in operator.run("status").stdout


def test_folder_that_fails_is_a_failure(operator: Operator, server: LyingImap) -> None:
    server.fill("Other", 1)
    server.twist = replaced('EXAMINE "Other"', b"TAG NO [SERVERBUG] oops\r\n")
    assert operator.run("sync").exit_code == 1
    assert "oops" in operator.folder("Other")["error"]


def test_limit_that_is_reached_is_a_failure_that_says_when_it_ends(tmp_path: Path, server: LyingImap) -> None:
    operator = Operator(tmp_path, server.port, daily=100)
    done = operator.run("sync")
    assert done.exit_code == 1
    assert "9 messages to come" in done.output
    assert json.loads(operator.run("sync", "--json").stdout)["waiting"] == 9
    status = operator.status()
    assert status["daily_bytes"] == 100
    assert status["bytes_pending"] > 0


@pytest.mark.parametrize(
    ("said", "advice"),
    [(b"TAG NO [AUTHENTICATIONFAILED] no\r\n", "app password"), (b"TAG NO [UNAVAILABLE] later\r\n", "by itself")],
)
def test_failure_is_told_in_plain_words_with_what_to_do(
    operator: Operator, server: LyingImap, said: bytes, advice: str
) -> None:
    server.twist = replaced("AUTHENTICATE", said)
    done = operator.run("sync")
    assert done.exit_code == 1
    assert advice in done.output


def test_server_that_is_not_there_is_told_with_what_to_check(tmp_path: Path) -> None:
    done = Operator(tmp_path, free_port()).run("sync")
    assert done.exit_code == 1
    assert "check host, port" in done.output


def test_parser_that_cannot_be_started_is_one_clear_failure(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("mirror.parsing.sys.executable", "/nowhere/python")
        done = operator.run("sync")
    assert done.exit_code == 1
    assert "no parsing process can be started" in done.output
    assert operator.folder("INBOX")["quarantined"] == 0
    assert operator.run("sync").exit_code == 0


def test_header_lines_of_an_older_mirror_are_told_of_until_they_are_indexed(operator: Operator) -> None:
    assert operator.run("sync").exit_code == 0
    assert operator.status()["header_lines_indexed"]
    (path,) = (operator.config.parent / "data").rglob("mirror.db")
    with closing(connect(path)) as connection:
        lines.empty(connection)
        assert not operator.status()["header_lines_indexed"]
        assert "header lines are still being indexed" in operator.run("status").stdout
    assert operator.run("sync").exit_code == 0
    assert operator.status()["header_lines_indexed"]
    assert "header lines" not in operator.run("status").stdout
