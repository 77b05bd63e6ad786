"""The copy in Sent, and mails that nobody knows of: a real Dovecot beside a submission server that files or fails."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from config.provider import Endpoint
from config.settings import load_settings
from server.app import Parts
from server.auth import Authenticator, Caller
from server.cli import main
from server.live import LiveSettings
from server.outbound import Draft, Sent
from server.passes import sync_now
from server.sending import outbox, submission
from server.sending.outbox import files_itself
from server.sending.smtp import Patience
from server.sending.submission import SubmissionUncertain
from server.state.store import State
from tests.server.killed_sender import STEPS, written_settings
from tests.servers.dovecot import Dovecot
from tests.servers.faulty_smtp import FaultySmtp
from tests.servers.second_client import SecondClient

DRAFT = Draft("alice@example.org", ("bob@example.org",), "Hi", "Hello.", bcc=("carol@example.org",))


@pytest.fixture
def server() -> Iterator[FaultySmtp]:
    """A submission server that files nothing."""
    with FaultySmtp() as running:
        yield running


@pytest.fixture
def client(dovecot: Dovecot, user: str) -> Iterator[SecondClient]:
    """Another mail program on Alice's mailbox."""
    with dovecot.client(user) as opened:
        yield opened


TELLING = {
    ("journalled", False), ("handed over", False), ("answered", True), ("settled, leaving", False),
    ("copy appended", False),
}  # fmt: skip
"""Where being killed ends in another way each: not sent, uncertain, found in Sent, sent, stored once."""


class Box:
    """The program without its web server, over Alice's mailbox."""

    def __init__(self, config: Path) -> None:
        self.live = LiveSettings(config, load_settings)
        self.settings = self.live.in_force().settings
        self.state = State(self.settings.server.data_dir)
        self.parts = Parts.open(self.live, self.state)

    @property
    def caller(self) -> Caller:
        """Alice."""
        return Authenticator(self.live, self.state).by_name("alice", "assistant", "work")

    def send(self, key: str | None = None) -> Sent:
        """Send the draft."""
        return self.parts.outbound.send(self.caller, DRAFT, key)

    def catch_up(self, *, ask_upstream: bool = False) -> None:
        """What the program does now and then."""
        self.parts.outbound.outbox.catch_up(self.settings.accounts(), ask_upstream=ask_upstream, aged=0.0)

    @property
    def journal(self) -> list[tuple[str, str]]:
        """(state, copy) of each line, oldest first."""
        return [(line.state, line.copy) for line in reversed(self.state.submissions())]

    def close(self) -> None:
        """End it."""
        self.parts.close()
        self.state.close()


@pytest.fixture
def config(tmp_path: Path, dovecot: Dovecot, user: str, server: FaultySmtp) -> Path:
    """Alice's configuration."""
    return written_settings(tmp_path, dovecot.port, server.port, user)


@pytest.fixture
def open_box(config: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Box]]:
    """Opens the program, with this sent_copy."""
    monkeypatch.setattr(outbox, "FILED_WITHIN", 0.6)
    monkeypatch.setattr(submission, "PATIENCE", Patience(verdict=0.4))
    boxes: list[Box] = []

    def start(sent_copy: str = "auto") -> Box:
        config.write_text(config.read_text("utf-8").replace('"auto"', f'"{sent_copy}"'), "utf-8")
        boxes.append(Box(config))
        return boxes[-1]

    yield start
    for box in boxes:
        box.close()


def test_a_copy_lands_once_in_the_folder_that_is_sent_whatever_its_name(
    tmp_path: Path, user: str, server: FaultySmtp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "FILED_WITHIN", 0.6)
    sent = (
        "mailbox Sent {\n special_use =\n auto = no\n }\nmailbox Gesendet {\n special_use = \\Sent\n auto = create\n }"
    )
    with Dovecot(tls=False, settings=f"namespace inbox {{\n {sent}\n}}\n") as dovecot, dovecot.client(user) as client:
        box = Box(written_settings(tmp_path, dovecot.port, server.port, user))
        sync_now(box.settings, ["alice/work"])
        assert box.send("key").sent_copy == "stored"
        assert box.send("key").is_repeat
        box.catch_up(ask_upstream=True)
        box.close()
        assert len(client.uids("Gesendet")) == 1
        assert set(client.folders()) == {"INBOX", "Gesendet"}


def filing(client: SecondClient, *, after: float = 0.0) -> Callable[[bytes], None]:
    """What a provider does with the mail it takes: it files a copy of its own making."""

    def file(mail: bytes) -> None:
        time.sleep(after)
        client.append("Sent", b"X-Filed: by the provider\r\n" + mail)

    return file


def test_a_mail_that_the_server_does_not_file_is_put_into_sent_once(
    open_box: Callable[..., Box], server: FaultySmtp, client: SecondClient
) -> None:
    box = open_box()
    sync_now(box.settings, ["alice/work"])
    assert box.send().sent_copy == "stored"
    [listed] = client.listing("Sent")
    raw = client.raw("Sent", listed.uid)
    assert raw == b"Bcc: carol@example.org\r\n" + server.delivered[0]
    assert listed.flags == {"\\Seen"}
    assert box.journal == [("sent", "stored")]
    with box.parts.mirrors.reading("alice", "work") as reader:
        sent = next(folder for folder in reader.folders() if folder.role == "\\Sent")
        [listed_here] = reader.page(sent.id, None, None, 10).messages
        [shown] = reader.find(sent.id, [listed_here.id])
    assert (shown.subject, [each.address for each in shown.bcc]) == ("Hi", ["carol@example.org"])
    box.catch_up()
    assert len(client.uids("Sent")) == 1


@pytest.mark.parametrize("sent_copy", ["auto", "append"])
def test_a_mail_that_the_server_files_is_not_put_into_sent_again(
    open_box: Callable[..., Box], server: FaultySmtp, client: SecondClient, sent_copy: str
) -> None:
    server.on_delivery = filing(client)
    box = open_box(sent_copy)
    assert box.send().sent_copy == "by_provider"
    assert len(client.uids("Sent")) == 1
    assert box.journal == [("sent", "by_provider")]


def test_no_copy_is_made_where_none_is_wanted(open_box: Callable[..., Box], client: SecondClient) -> None:
    box = open_box("none")
    assert box.send().sent_copy == "none"
    assert client.uids("Sent") == []
    assert box.journal == [("sent", "none")]


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("smtp.gmail.com", True),
        ("SMTP.OFFICE365.COM", True),
        ("smtp-mail.outlook.com", True),
        ("smtp.fastmail.com", False),
        ("notgmail.com", False),
        ("gmail.com.example.org", False),
    ],
)
def test_servers_that_are_known_to_file_are_left_to_it(host: str, is_known: bool) -> None:
    assert files_itself(Endpoint(host=host, port=465)) == is_known


def test_a_copy_that_fails_is_told_owed_and_made_later(
    open_box: Callable[..., Box], server: FaultySmtp, client: SecondClient, dovecot: Dovecot, user: str
) -> None:
    box = open_box()
    dovecot.stop()
    sent = box.send("key")
    assert sent.sent_copy == "failed"
    assert box.journal == [("sent", "owed")]
    again = box.send("key")
    assert (again.is_repeat, again.sent_copy) == (True, "failed")
    dovecot.start()
    for _ in range(2):
        box.catch_up()
        assert box.journal == [("sent", "stored")]
        with dovecot.client(user) as later:
            assert len(later.uids("Sent")) == 1
    assert len(server.delivered) == 1
    assert box.send("key").sent_copy == "stored"


def test_a_copy_is_given_up_after_a_day_and_its_bytes_are_forgotten(
    open_box: Callable[..., Box], dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = open_box()
    dovecot.stop()
    box.send()
    monkeypatch.setattr(outbox, "_GIVEN_UP", 0.0)
    box.catch_up()
    [line] = box.state.submissions()
    assert (line.state, line.copy, line.reason) == ("sent", "failed", "given up: no copy in Sent")
    assert box.state.mail_of(line.id) is None


def test_a_mail_without_an_answer_that_the_provider_filed_was_sent(
    open_box: Callable[..., Box], server: FaultySmtp, client: SecondClient
) -> None:
    server.on_delivery = filing(client)
    server.misbehave("dot", "close")
    box = open_box()
    assert box.send("key").sent_copy == "by_provider"
    assert box.journal == [("sent", "by_provider")]
    assert box.send("key").is_repeat
    assert (len(server.delivered), len(client.uids("Sent"))) == (1, 1)


@pytest.mark.parametrize("asked", ["the mirror", "upstream", "the key"])
def test_an_uncertain_mail_is_left_alone_until_it_shows_in_sent(
    open_box: Callable[..., Box], server: FaultySmtp, client: SecondClient, asked: str
) -> None:
    server.misbehave("dot", "stall")
    box = open_box()
    with pytest.raises(SubmissionUncertain):
        box.send("key")
    server.behave()
    for _ in range(2):
        box.catch_up(ask_upstream=True)
        with pytest.raises(SubmissionUncertain):
            box.send("key")
    assert box.journal == [("uncertain", "")]
    assert (len(server.delivered), client.uids("Sent")) == (1, [])
    filing(client)(server.delivered[0])
    if asked == "the mirror":
        box.catch_up()
        assert box.journal == [("uncertain", "")]
        sync_now(box.settings, ["alice/work"])
        box.catch_up()
    elif asked == "upstream":
        box.catch_up(ask_upstream=True)
    else:
        assert box.send("key").is_repeat
    assert box.journal == [("sent", "by_provider")]
    assert (len(server.delivered), len(client.uids("Sent"))) == (1, 1)


def test_the_outbox_command_says_what_is_open_and_asks_when_told_to(
    open_box: Callable[..., Box], config: Path, server: FaultySmtp, client: SecondClient
) -> None:
    server.misbehave("dot", "stall")
    box = open_box()
    with pytest.raises(SubmissionUncertain) as caught:
        box.send()
    box.close()

    def shown(*options: str) -> str:
        result = CliRunner().invoke(main, ["outbox", "--config", str(config), *options])
        assert result.exit_code == 0, result.output
        return result.output

    text = shown()
    assert f"uncertain  to bob@example.org, carol@example.org  by stdio  <{caught.value.message_id}>" in text
    assert "no answer after the final dot; check Sent before sending again" in text
    filing(client)(server.delivered[0])
    assert json.loads(shown("--json"))[0]["state"] == "uncertain"
    assert json.loads(shown("--json", "--check"))[0] == {**json.loads(shown("--json"))[0], "state": "sent"}
    assert "found in Sent; copy in Sent" in shown()


def test_an_operator_settles_an_uncertain_mail_by_its_message_id(
    open_box: Callable[..., Box], config: Path, server: FaultySmtp
) -> None:
    server.misbehave("dot", "stall")
    box = open_box()
    with pytest.raises(SubmissionUncertain) as caught:
        box.send("key")

    def settle(message_id: str) -> Result:
        return CliRunner().invoke(main, ["outbox", "--config", str(config), "--settle", message_id, "not-sent"])

    unknown = settle("x@example.org")
    assert (unknown.exit_code, "<x@example.org> is uncertain" in unknown.output) == (1, True)
    settled = settle(f"<{caught.value.message_id}>")
    assert "refused  to bob@example.org, carol@example.org" in settled.output
    assert "an operator says that it was not sent" in settled.output
    server.behave()
    assert not box.send("key").is_repeat


@pytest.mark.parametrize(
    ("step", "files"),
    [
        pytest.param(step, files, marks=[] if (step, files) in TELLING else [pytest.mark.soak])
        for step in STEPS
        for files in (False, True)
    ],
)
def test_a_sender_that_is_killed_leaves_a_journal_that_tells_the_truth(
    config: Path, server: FaultySmtp, client: SecondClient, open_box: Callable[..., Box], step: str, files: bool
) -> None:
    if files:
        server.on_delivery = filing(client)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.server.killed_sender", str(config), step],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."},
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    was_delivered = len(server.delivered)
    assert was_delivered <= 1
    box = open_box()
    box.catch_up(ask_upstream=True)
    states = [state for state, _ in box.journal]
    if was_delivered:
        assert states == ["sent" if files or step.startswith("settled") or "copy" in step else "uncertain"]
    else:
        assert states in ([], ["refused"], ["uncertain"])
        assert (states == ["uncertain"]) == (step == "handed over")
    if states == ["uncertain"]:
        with pytest.raises(SubmissionUncertain):
            box.send("key")
    else:
        box.send("key")
    assert len(server.delivered) == (was_delivered or states != ["uncertain"])
    assert len(client.uids("Sent")) == (len(server.delivered) if files or states != ["uncertain"] else 0)
