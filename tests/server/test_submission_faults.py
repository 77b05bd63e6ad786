"""Every fault of a submission server at every stage: the right outcome, and the right number of delivered mails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.errors import AuthenticationRefused
from server.app import Parts
from server.auth import Authenticator, Caller
from server.live import LiveSettings
from server.outbound import Draft, Enclosure
from server.sending import submission
from server.sending.smtp import Patience
from server.sending.submission import (
    AddressesNotTaken,
    Login,
    MailTooLarge,
    Parcel,
    RecipientsRefused,
    SubmissionRefused,
    SubmissionUnavailable,
    SubmissionUncertain,
    submit,
)
from server.state.store import State
from tests.server.door import ASSISTANT, settings_for
from tests.servers.faulty_smtp import STAGES, FaultySmtp, Stage
from tests.servers.ports import free_port

FAULTS = ("451", "554", "421", "close", "reset", "stall", "drip", "garbage")
OFTEN = {"rcpt": ("554", "close"), "content": ("close", "stall"), "dot": FAULTS, "quit": ("close",)}
"""Faults that are tried at a stage in each run, one at those that are not named; the long runs try all."""
NOT_SENT = (SubmissionUnavailable, SubmissionRefused, RecipientsRefused, AuthenticationRefused)
DRAFT = Draft("alice@example.org", ("bob@example.org", "carol@example.org", "dave@example.org"), "Hi", "Hello.\n.\n..x")
PARCEL = Parcel("1@example.org", "alice@example.org", ("bob@example.org",), b"Subject: x\r\n\r\nx\r\n")
HASTE = Patience(reached=0.4, login=0.4, command=0.4, envelope=1.0, content=0.4, verdict=0.4, octets=1e9)


@pytest.fixture
def server() -> Iterator[FaultySmtp]:
    """A server without faults so far."""
    with FaultySmtp() as running:
        yield running


@pytest.fixture
def parts(data_dir: Path, server: FaultySmtp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parts]:
    """The program without its web server, which has little patience."""
    monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", "secret")
    monkeypatch.setattr(submission, "PATIENCE", HASTE)
    profile = {**ASSISTANT, "outbound": {"to_allow": ["*"], "per_hour": 1_000}}
    settings = settings_for(
        data_dir,
        free_port(),
        smtp_port=server.port,
        password={"env": "POSTMIRROR_TEST_PASSWORD"},
        profiles={"assistant": profile},
    )
    state = State(data_dir)
    opened = Parts.open(LiveSettings.fixed(settings), state)
    yield opened
    opened.close()
    state.close()


@pytest.fixture
def caller(parts: Parts) -> Caller:
    """Alice."""
    return Authenticator(parts.live, parts.state).by_name("alice", "assistant", "work")


def outcomes(parts: Parts) -> list[str]:
    """The journal, oldest first."""
    return [line.state for line in reversed(parts.state.submissions())]


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        pytest.param(stage, fault, marks=[] if fault in OFTEN.get(stage, ("451",)) else [pytest.mark.soak])
        for stage in STAGES
        for fault in FAULTS
    ],
)
def test_every_fault_has_its_outcome_and_nobody_gets_a_mail_twice(
    parts: Parts, caller: Caller, server: FaultySmtp, stage: Stage, fault: str
) -> None:
    was_taken = stage == "quit" or (stage == "dot" and not fault.isdigit())
    expected: tuple[type[Exception], ...] = (SubmissionUncertain,) if was_taken else NOT_SENT
    if stage == "content":
        # A fault in the middle of a small mail may show only after the dot: then nobody knows.
        expected = (*NOT_SENT, SubmissionUncertain)
    server.misbehave(stage, fault)
    if stage == "quit":
        parts.outbound.send(caller, DRAFT, "key")
    else:
        with pytest.raises(expected):
            parts.outbound.send(caller, DRAFT, "key")
    [first] = outcomes(parts)
    assert first in {"quit": ("sent",), "content": ("refused", "uncertain")}.get(
        stage, ("uncertain" if was_taken else "refused",)
    )
    assert len(server.delivered) == was_taken
    server.behave()
    for _ in range(2):
        if first == "uncertain":
            with pytest.raises(SubmissionUncertain):
                parts.outbound.send(caller, DRAFT, "key")
        else:
            parts.outbound.send(caller, DRAFT, "key")
    assert len(server.delivered) == (was_taken or first == "refused")
    assert outcomes(parts) == {"refused": ["refused", "sent"]}.get(first, [first])
    assert all(b"\r\n\r\nHello.\r\n.\r\n..x\r\n" in mail for mail in server.delivered)


@pytest.mark.parametrize(
    ("fault", "reply"),
    [
        ("552", "552 4.3.0"),
        pytest.param("reset", "", marks=pytest.mark.soak),
        pytest.param("stall", "", marks=pytest.mark.soak),
    ],
)
def test_a_large_mail_that_the_server_does_not_read_to_its_end_was_not_sent(
    parts: Parts, caller: Caller, server: FaultySmtp, fault: str, reply: str
) -> None:
    large = Draft(
        "alice@example.org", ("bob@example.org",), "x", "x", attachments=(Enclosure("a", "", bytes(12 << 20)),)
    )
    server.misbehave("content", fault)
    with pytest.raises(NOT_SENT) as caught:
        parts.outbound.send(caller, large)
    if isinstance(caught.value, SubmissionRefused):
        assert caught.value.reply == reply
    assert outcomes(parts) == ["refused"]
    server.behave()
    parts.outbound.send(caller, large)
    assert len(server.delivered) == 1


def test_one_refused_recipient_of_three_means_that_nobody_gets_it(
    parts: Parts, caller: Caller, server: FaultySmtp
) -> None:
    server.refused = frozenset({"carol@example.org"})
    with pytest.raises(RecipientsRefused) as caught:
        parts.outbound.send(caller, DRAFT)
    assert caught.value.refused == (("carol@example.org", "550 5.1.1"),)
    assert server.commands[-6:] == ["MAIL", "RCPT", "RCPT", "RCPT", "RSET", "QUIT"]
    assert server.delivered == []
    assert outcomes(parts) == ["refused"]


def test_a_mail_above_the_servers_size_ends_before_mail_from(parts: Parts, caller: Caller, server: FaultySmtp) -> None:
    server.features = ("SIZE 2000", "AUTH PLAIN")
    big = Draft("alice@example.org", ("bob@example.org",), "x", "x", attachments=(Enclosure("a", "a/b", b"x" * 3_000),))
    with pytest.raises(MailTooLarge) as caught:
        parts.outbound.send(caller, big)
    assert (caught.value.limit, caught.value.size > 4_000) == (2_000, True)
    assert "MAIL" not in server.commands
    for size in ("SIZE", "SIZE 0"):
        server.features = (size, "AUTH PLAIN")
        parts.outbound.send(caller, big)
    assert len(server.delivered) == 2


def test_addresses_outside_ascii_are_named_where_the_server_does_not_take_them(
    parts: Parts, caller: Caller, server: FaultySmtp
) -> None:
    draft = Draft("alice@example.org", ("jörg@example.org", "bob@bücher.example"), "x", "x")
    with pytest.raises(AddressesNotTaken) as caught:
        parts.outbound.send(caller, draft)
    assert caught.value.addresses == ("jörg@example.org",)
    assert "MAIL" not in server.commands


@pytest.mark.parametrize(
    ("offered", "login", "words"),
    [
        ("AUTH LOGIN PLAIN", Login("u", "p"), "AUTH PLAIN AHUAcA=="),
        ("AUTH=PLAIN", Login("u", "p"), "AUTH PLAIN AHUAcA=="),
        ("AUTH XOAUTH2 PLAIN", Login("u", "t", is_token=True), "AUTH XOAUTH2 dXNlcj11AWF1dGg9QmVhcmVyIHQBAQ=="),
        ("AUTH OAUTHBEARER", Login("u", "t", is_token=True), "AUTH OAUTHBEARER bixhPXUsAWF1dGg9QmVhcmVyIHQBAQ=="),
    ],
)
def test_a_login_uses_what_the_server_offers(
    server: FaultySmtp, caller: Caller, offered: str, login: Login, words: str
) -> None:
    server.features = (offered,)
    assert caller.account.smtp is not None
    submit(PARCEL, caller.account.smtp, login)
    assert words in server.heard
    assert len(server.delivered) == 1


def test_cram_md5_proves_the_password_without_showing_it(server: FaultySmtp, caller: Caller) -> None:
    """The example of RFC 2195."""
    server.features = ("AUTH CRAM-MD5",)
    server.challenge = b"<1896.697170952@postoffice.reston.mci.net>"
    assert caller.account.smtp is not None
    submit(PARCEL, caller.account.smtp, Login("tim", "tanstaaftanstaaf"))
    assert "dGltIGI5MTNhNjAyYzdlZGE3YTQ5NWI0ZTZlNzMzNGQzODkw" in server.heard


@pytest.mark.parametrize(
    ("offered", "login"),
    [
        ("AUTH XOAUTH2", Login("u", "p")),
        ("AUTH PLAIN LOGIN", Login("u", "t", is_token=True)),
        ("AUTH", Login("u", "p")),
        ("8BITMIME", Login("u", "p")),
    ],
)
def test_a_server_without_a_login_that_fits_gets_no_mail(
    server: FaultySmtp, caller: Caller, offered: str, login: Login
) -> None:
    server.features = (offered,)
    assert caller.account.smtp is not None
    with pytest.raises(AuthenticationRefused):
        submit(PARCEL, caller.account.smtp, login)
    assert server.delivered == []


def test_the_mark_before_the_final_dot_comes_before_the_final_dot(server: FaultySmtp, caller: Caller) -> None:
    assert caller.account.smtp is not None
    seen: list[int] = []

    def refuse() -> None:
        seen.append(len(server.delivered))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        submit(PARCEL, caller.account.smtp, Login("u", "p"), refuse)
    assert seen == [0]
    assert server.delivered == []
