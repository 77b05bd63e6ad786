"""Writes: to a real SMTP sink and a real Dovecot, through the tools."""

import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from email import message_from_bytes
from email.policy import default
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from config.provider import Endpoint
from mirror.errors import AuthenticationRefused
from server.sending import submission
from server.sending.smtp import Patience
from server.sending.submission import Login, Parcel, SubmissionUnavailable, submit
from tests.server.door import ASSISTANT, Answered, Caller, Door, settings_for
from tests.servers.certificates import Certificates
from tests.servers.ports import PASSWORD, free_port
from tests.servers.smtp import SmtpSink

ANYBODY = {
    **ASSISTANT,
    "outbound": {"to_allow": ["*"], "to_deny": ["mallory@*"], "max_recipients": 3, "max_chars": 2_000},
}


@pytest.fixture
def open_door(data_dir: Path, smtp_sink: SmtpSink) -> Iterator[Callable[..., Door]]:
    """Opens the application with these profiles, sending through the sink."""
    doors: list[Door] = []

    def start(**profiles: dict[str, object]) -> Door:
        profiles = profiles or {"assistant": ANYBODY}
        settings = settings_for(data_dir, free_port(), smtp_port=smtp_sink.port, profiles=profiles)
        doors.append(Door(settings).__enter__())
        return doors[-1]

    yield start
    for door in doors:
        door.__exit__(None, None, None)


def send(caller: Caller, **changed: object) -> Answered:
    """Send an ordinary mail, some of it changed."""
    mail: dict[str, object] = {
        "from_": "alice@example.org",
        "to": ["bob@example.org"],
        "subject": "Lunch?",
        "body": "At noon.",
    }
    return caller.call("send_message", **{**mail, **changed})


def test_a_mail_arrives_with_all_it_needs(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    answer = send(open_door().caller(), subject="Zwölf Uhr? 🍲 €", body="Grüße\n.\n..\nöäü €\n" + "lang " * 300)
    [received] = smtp_sink.messages
    assert received.sender == "alice@example.org"
    assert received.recipients == ("bob@example.org",)
    mail = message_from_bytes(received.raw, policy=default)
    assert mail["Subject"] == "Zwölf Uhr? 🍲 €"
    assert mail["From"] == "Alice <alice@example.org>"
    assert mail["To"] == "bob@example.org"
    assert abs(parsedate_to_datetime(mail["Date"]).timestamp() - time.time()) < 60
    assert mail["Message-ID"] == f"<{answer.value['message_id']}>"
    assert mail["Message-ID"].endswith("@example.org>")
    assert mail.get_content().splitlines() == ["Grüße", ".", "..", "öäü €", "lang " * 300]
    assert received.raw.isascii()
    assert all(len(line) <= 998 for line in received.raw.split(b"\r\n"))
    assert b"\n" not in received.raw.replace(b"\r\n", b"")
    assert answer.value["status"] == "sent"


def test_from_may_be_an_alias_and_nothing_else(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    caller = open_door().caller()
    assert not send(caller, from_="SUPPORT@example.org").is_error
    for sender in (
        "bob@example.org",
        "alice@home.example",
        "Alice <alice@example.org>",
        "alice@example.org\n",
        "",
        "x",
    ):
        refused = send(caller, from_=sender)
        assert refused.is_error == (sender != "alice@example.org\n")
    assert {message.sender for message in smtp_sink.messages} == {"support@example.org", "alice@example.org"}


def test_a_denied_recipient_stops_the_mail_before_any_connection(
    open_door: Callable[..., Door], smtp_sink: SmtpSink
) -> None:
    caller = open_door().caller()
    refused = send(caller, to=["bob@example.org", "Mallory@EXAMPLE.org"])
    assert refused.is_error
    assert "Mallory@example.org" in refused.text
    assert "bob@" not in refused.text
    assert smtp_sink.commands == []
    assert not send(caller, to=["bob@example.org"]).is_error


def test_a_profile_without_outbound_policy_sends_nothing(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    reader = {key: value for key, value in ANYBODY.items() if key != "outbound"}
    assert "may not send" in send(open_door(assistant=reader).caller()).text
    assert smtp_sink.commands == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"to": []}, '"to"'),
        ({"to": ["bob"]}, "not one plain address"),
        ({"to": ["Bob <bob@example.org>"]}, "not one plain address"),
        ({"to": ["bob@example.org, carol@example.org"]}, "not one plain address"),
        ({"to": ["bob@example.org\r\nBcc: x@example.org"]}, "not one plain address"),
        ({"to": ['"bob"@example.org']}, "not one plain address"),
        ({"to": ["bob@[127.0.0.1]"]}, "not one plain address"),
        ({"to": ["bob@example.org."]}, "not one plain address"),
        ({"to": [f"{each}@example.org" for each in "abcd"]}, "too many recipients"),
        ({"subject": "x\r\nBcc: eve@example.org"}, "line break"),
        ({"subject": "x\nX"}, "line break"),
        ({"subject": "x\x85y"}, "control character"),
        ({"subject": "x\x7fy"}, "control character"),
        ({"subject": "x\u2028Bcc: eve@example.org"}, "line break"),
        ({"subject": "x\x00y"}, "NUL"),
        ({"to": ["=?utf-8?q?=0D=0ABcc=3Ae=40evil.io?=@example.org"]}, "not one plain address"),
        ({"to": ["=?utf-8?q?eve=40evil.io=2C?=@example.org"]}, "not one plain address"),
        ({"to": ["eve%evil.io@example.org"]}, "not one plain address"),
        ({"to": ["evil.io!eve@example.org"]}, "not one plain address"),
        ({"to": ["b\u202eob@example.org"]}, "not one plain address"),
        ({"to": ["b\u200bob@example.org"]}, "not one plain address"),
        ({"to": ["b\u2029ob@example.org"]}, "not one plain address"),
        ({"to": ["eve\uff20evil.io@example.org"]}, "not one plain address"),
        ({"body": "x\x00y"}, "NUL"),
        ({"body": "x" * 2_001}, "too long"),
        ({"cc": ["carol@example.org"]}, 'unknown argument "cc"'),
        ({"attachments": ["/etc/passwd"]}, 'unknown argument "attachments"'),
    ],
)
def test_what_is_malformed_never_reaches_a_server(
    open_door: Callable[..., Door], smtp_sink: SmtpSink, changed: dict[str, object], reason: str
) -> None:
    refused = send(open_door().caller(), **changed)
    assert refused.is_error
    assert reason in refused.text
    assert smtp_sink.commands == []


def test_one_address_in_place_of_a_list_is_taken_whole(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    assert not send(open_door().caller(), to="bob@example.org").is_error
    assert smtp_sink.messages[0].recipients == ("bob@example.org",)


def test_what_looks_like_an_encoded_word_is_sent_as_it_was_written(
    open_door: Callable[..., Door], smtp_sink: SmtpSink
) -> None:
    subject = "=?utf-8?q?=0D=0ABcc:_e=40evil.test?="
    assert not send(open_door().caller(), subject=subject, body=subject).is_error
    raw = smtp_sink.messages[0].raw
    assert b"Bcc" not in raw.partition(b"\r\n\r\n")[0]
    assert message_from_bytes(raw, policy=default)["Subject"] == subject


def test_a_recipient_given_twice_gets_one_mail(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    send(open_door().caller(), to=["bob@example.org", "bob@EXAMPLE.org", "carol@example.org"])
    assert smtp_sink.messages[0].recipients == ("bob@example.org", "carol@example.org")


def test_an_international_domain_travels_as_a_labels(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    assert not send(open_door().caller(), to=["bob@bücher.example"]).is_error
    assert smtp_sink.messages[0].recipients == ("bob@xn--bcher-kva.example",)
    assert b"To: bob@xn--bcher-kva.example\r\n" in smtp_sink.messages[0].raw


def test_an_international_local_part_travels_with_smtputf8(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    assert not send(open_door().caller(), to=["jörg@example.org"]).is_error
    assert smtp_sink.messages[0].recipients == ("jörg@example.org",)
    assert "jörg@example.org".encode() in smtp_sink.messages[0].raw


def test_a_deny_rule_holds_for_both_spellings_of_a_domain(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    for pattern in ("*@bücher.example", "*@xn--bcher-kva.example", "*@BÜCHER.example"):
        profile = {**ANYBODY, "outbound": {"to_allow": ["*"], "to_deny": [pattern]}}
        caller = open_door(assistant=profile).caller()
        for address in (
            "bob@bücher.example",
            "bob@xn--bcher-kva.example",
            "bob@BÜCHER.example",
            "bob@bu\u0308cher.example",
        ):
            assert send(caller, to=[address]).is_error
    assert smtp_sink.commands == []


@pytest.mark.parametrize("code", [450, 550])
def test_a_refused_recipient_means_nobody_gets_it(
    open_door: Callable[..., Door], smtp_sink: SmtpSink, code: int
) -> None:
    door = open_door()
    refused = send(door.caller(), to=["bob@example.org", f"rcpt-{code}@example.org", "carol@example.org"])
    assert refused.is_error
    assert f"rcpt-{code}@example.org ({code}" in refused.text
    assert "bob@" not in refused.text
    assert smtp_sink.messages == []
    assert smtp_sink.commands == ["MAIL", "RCPT", "RCPT", "RCPT", "RSET", "QUIT"]
    assert [line.state for line in door.state.submissions()] == ["refused"]


def test_a_refusal_after_the_final_dot_is_a_refusal(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    door = open_door()
    refused = send(door.caller(), to=["data-552@example.org"])
    assert "refused the mail (552" in refused.text
    assert [line.state for line in door.state.submissions()] == ["refused"]


@pytest.mark.parametrize("fault", ["hangup", "stall"])
def test_no_answer_after_the_final_dot_is_uncertain_and_delivered_once(
    open_door: Callable[..., Door], smtp_sink: SmtpSink, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "PATIENCE", Patience(verdict=0.5))
    door = open_door()
    answer = send(door.caller(), to=[f"{fault}@example.org"])
    assert answer.is_error
    assert answer.text.startswith("Uncertain")
    assert "check Sent before sending again" in answer.text
    [line] = door.state.submissions()
    assert line.state == "uncertain"
    assert f"<{line.message_id}>" in answer.text
    assert f"<{line.message_id}>".encode() in smtp_sink.messages[0].raw
    assert len(smtp_sink.messages) == 1


def test_a_server_that_is_down_is_said_within_5_seconds(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    door = open_door()
    smtp_sink.stop()
    began = time.monotonic()
    answer = send(door.caller())
    assert time.monotonic() - began < 5
    assert "cannot be reached" in answer.text
    assert [line.state for line in door.state.submissions()] == ["refused"]


def test_a_server_that_takes_the_call_and_says_nothing_is_given_up_within_5_seconds() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        endpoint = Endpoint(host="127.0.0.1", port=silent.getsockname()[1], security="plain")
        began = time.monotonic()
        with pytest.raises(SubmissionUnavailable):
            submit(Parcel("1@example.org", "a@example.org", ("b@example.org",), b"x\r\n"), endpoint, None)
        assert time.monotonic() - began < 5


def test_the_hourly_limit_is_said_with_the_time_to_wait(open_door: Callable[..., Door], smtp_sink: SmtpSink) -> None:
    profile = {**ANYBODY, "outbound": {"to_allow": ["*"], "per_hour": 2}}
    caller = open_door(assistant=profile).caller()
    assert [send(caller).is_error for _ in range(3)] == [False, False, True]
    assert "60 minutes" in send(caller).text
    assert len(smtp_sink.messages) == 2


def test_the_journal_is_written_before_the_server_is_called(
    open_door: Callable[..., Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door()
    seen: list[Any] = []
    monkeypatch.setattr("server.sending.mail.submit", lambda *_: seen.append(door.state.submissions()[0]))
    send(door.caller())
    assert [(line.state, line.recipients) for line in seen] == [("sending", ("bob@example.org",))]


@contextmanager
def locked(state_db: Path) -> Iterator[None]:
    """Another program holds the write lock for longer than anybody waits."""
    with closing(sqlite3.connect(state_db, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def impatient(door: Door) -> None:
    door.state._writes.execute("PRAGMA busy_timeout = 50")


def test_a_mail_that_the_server_took_is_sent_although_the_journal_cannot_say_so(
    open_door: Callable[..., Door], smtp_sink: SmtpSink, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door()
    impatient(door)
    with ExitStack() as held:

        def then_locked(*arguments: Any) -> None:
            parcel, endpoint, login, hand_over, taken = arguments

            def locking() -> None:
                held.enter_context(locked(data_dir / "state.db"))
                taken()

            submit(parcel, endpoint, login, hand_over, locking)

        monkeypatch.setattr("server.sending.mail.submit", then_locked)
        assert send(door.caller()).value["status"] == "sent"
    assert len(smtp_sink.messages) == 1
    monkeypatch.undo()
    assert send(door.caller()).value["status"] == "sent"
    assert [line.state for line in door.state.submissions()] == ["sent", "uncertain"]


def test_a_verdict_of_the_server_is_told_although_the_journal_cannot_be_written(
    open_door: Callable[..., Door], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door()
    impatient(door)
    with ExitStack() as held:

        def locked_then_refused(
            parcel: Parcel, endpoint: Endpoint, login: Any, hand_over: Callable[[], None], _: Callable[[], None]
        ) -> None:
            def locking() -> None:
                hand_over()
                held.enter_context(locked(data_dir / "state.db"))

            submit(parcel, endpoint, login, locking)

        monkeypatch.setattr("server.sending.mail.submit", locked_then_refused)
        assert "refused the mail (552" in send(door.caller(), to=["data-552@example.org"]).text


def test_without_a_journal_nothing_is_sent(open_door: Callable[..., Door], smtp_sink: SmtpSink, data_dir: Path) -> None:
    door = open_door()
    impatient(door)
    caller = door.caller()
    with locked(data_dir / "state.db"):
        answer = send(caller)
    assert answer.is_error
    assert answer.text.startswith("Not sent: the journal")
    assert smtp_sink.commands == []
    assert not send(caller).is_error


def test_a_journal_that_fails_at_the_final_dot_stops_the_mail(
    open_door: Callable[..., Door], smtp_sink: SmtpSink, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = open_door()
    impatient(door)
    with ExitStack() as held:

        def locked_before_the_dot(
            parcel: Parcel, endpoint: Endpoint, login: Any, hand_over: Callable[[], None], _: Callable[[], None]
        ) -> None:
            held.enter_context(locked(data_dir / "state.db"))
            submit(parcel, endpoint, login, hand_over)

        monkeypatch.setattr("server.sending.mail.submit", locked_before_the_dot)
        assert send(door.caller()).text.startswith("Not sent: the journal")
    assert smtp_sink.messages == []
    door.state.recover()
    assert [line.state for line in door.state.submissions()] == ["refused"]


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_password_outside_ascii_crosses_tls_only(certificates: Certificates, security: Any) -> None:
    with SmtpSink(security, certificates, require_auth=True) as sink:
        endpoint = Endpoint(
            host="127.0.0.1", port=sink.port, security=security, server_name="localhost", ca_file=certificates.ca_file
        )
        parcel = Parcel("1@example.org", "a@example.org", ("b@example.org",), b"Subject: x\r\n\r\nx\r\n")
        with pytest.raises(AuthenticationRefused):
            submit(parcel, endpoint, Login("p\u00e4ul", "p\u00e4\u20ac"))
        submit(parcel, endpoint, Login("p\u00e4ul", PASSWORD))
        assert [message.tls for message in sink.messages] == [True]
        untrusting = endpoint.model_copy(update={"ca_file": None})
        with pytest.raises(SubmissionUnavailable):
            submit(parcel, untrusting, Login("p\u00e4ul", PASSWORD))
        assert len(sink.messages) == 1


def test_a_secret_that_was_replaced_since_it_was_read_is_read_again(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", PASSWORD)
    with SmtpSink(require_auth=True) as sink:
        settings = settings_for(
            data_dir,
            free_port(),
            smtp_port=sink.port,
            password={"env": "POSTMIRROR_TEST_PASSWORD"},
            profiles={"assistant": ANYBODY},
        )
        with Door(settings) as door:
            caller = door.caller()
            assert not send(caller).is_error
            monkeypatch.setattr("tests.servers.smtp.PASSWORD", "new")
            assert "refuses the login" in send(caller).text
            monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", "new")
            assert not send(caller).is_error
            monkeypatch.setattr("tests.servers.smtp.PASSWORD", "newer")
            monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", "newer")
            assert not send(caller).is_error
        assert len(sink.messages) == 3


def test_a_secret_that_cannot_be_read_is_a_login_problem_without_details(data_dir: Path, smtp_sink: SmtpSink) -> None:
    password = {"env": "POSTMIRROR_MISSING"}
    with Door(
        settings_for(
            data_dir, free_port(), smtp_port=smtp_sink.port, password=password, profiles={"assistant": ANYBODY}
        )
    ) as door:
        answer = send(door.caller())
        assert "refuses the login" in answer.text
        assert "POSTMIRROR" not in answer.text
