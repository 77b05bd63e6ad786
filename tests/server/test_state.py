"""Tokens, revocations and the send journal outlive the process."""

import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.identity import Token
from server.state import State, StateUnavailable, TokenExists, TokenUnknown, TooManySends, digest

SEND: dict[str, Any] = {
    "user": "alice",
    "provider": "work",
    "profile": "assistant",
    "token": "laptop",
    "message_id": "1@example.org",
    "sender": "alice@example.org",
    "recipients": ["bob@example.org"],
    "mail": b"Subject: x\r\n\r\n",
    "per_hour": 3,
}


@pytest.fixture
def state(data_dir: Path) -> Iterator[State]:
    opened = State(data_dir)
    yield opened
    opened.close()


def test_only_the_digest_of_a_secret_is_stored(state: State, data_dir: Path) -> None:
    name, secret = state.issue_token("alice", "assistant", provider="work", name="laptop")
    assert name == "laptop"
    assert len(secret) >= 43
    stored = b"".join(file.read_bytes() for file in data_dir.iterdir())
    assert secret.encode() not in stored
    assert digest(secret).encode() in stored


def test_the_files_are_for_their_owner_only(state: State, data_dir: Path) -> None:
    state.issue_token("alice", "assistant")
    assert {stat.S_IMODE(file.stat().st_mode) for file in data_dir.iterdir()} == {0o600}


def test_a_token_is_found_after_a_restart_and_gone_once_revoked(state: State, data_dir: Path) -> None:
    name, secret = state.issue_token("alice", "assistant")
    again = State(data_dir)
    found = again.find_token(digest(secret), ())
    assert found is not None
    assert (found.name, found.user, found.provider, found.profile) == (name, "alice", None, "assistant")
    state.revoke(name)
    assert again.find_token(digest(secret), ()) is None
    assert [(token.name, token.revoked is not None) for token in again.tokens()] == [(name, True)]
    again.close()


def test_a_revocation_overrides_a_token_of_the_configuration_file(state: State) -> None:
    token = Token(name="laptop", sha256=digest("secret"), user="alice", profile="assistant")
    assert state.find_token(digest("secret"), [token]) == token
    state.revoke("laptop", configured={"laptop"})
    assert state.find_token(digest("secret"), [token]) is None


def test_a_name_is_used_once_even_after_it_was_revoked(state: State) -> None:
    state.issue_token("alice", "assistant", name="laptop")
    state.revoke("laptop")
    with pytest.raises(TokenExists):
        state.issue_token("alice", "assistant", name="laptop")
    with pytest.raises(TokenExists):
        state.issue_token("alice", "assistant", name="desk", taken={"desk"})


def test_revoking_a_name_that_nobody_knows_is_an_error(state: State) -> None:
    with pytest.raises(TokenUnknown):
        state.revoke("nobody")


def test_the_hourly_limit_outlives_a_restart_and_refused_mails_do_not_count(state: State, data_dir: Path) -> None:
    first = state.begin_submission(**SEND)
    state.settle_submission(first, "refused", "RecipientsRefused")
    for outcome in ("sent", "uncertain", "sent"):
        state.settle_submission(state.begin_submission(**SEND), outcome)
    again = State(data_dir)
    with pytest.raises(TooManySends) as caught:
        again.begin_submission(**SEND)
    assert 3_500 < caught.value.seconds <= 3_600
    again.begin_submission(**{**SEND, "profile": "other"})
    again.close()


def test_two_sends_at_once_cannot_both_be_the_last_one_allowed(state: State) -> None:
    outcomes: list[bool] = []

    def send() -> None:
        try:
            state.begin_submission(**SEND)
        except TooManySends:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True] * 3


def test_the_bytes_of_a_mail_are_kept_only_while_its_outcome_is_open(state: State, data_dir: Path) -> None:
    lines = [state.begin_submission(**SEND) for _ in range(3)]
    for line, outcome in zip(lines, ("sent", "refused", "uncertain"), strict=True):
        state.settle_submission(line, outcome)  # type: ignore[arg-type]
    kept = dict(state._select("SELECT state, mail IS NOT NULL FROM submission"))
    assert kept == {"sent": 0, "refused": 0, "uncertain": 1}


def test_a_send_that_a_dead_process_left_open_becomes_uncertain(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    state.begin_submission(**SEND)
    assert state.recover() == 0
    monkeypatch.setattr("server.state._ABANDONED", -1.0)
    assert state.recover() == 1
    assert [line.state for line in state.submissions()] == ["uncertain"]


def test_a_file_that_was_replaced_is_not_used_any_more(state: State, data_dir: Path) -> None:
    _, secret = state.issue_token("alice", "assistant", name="laptop")
    for file in data_dir.glob("state.db*"):
        file.unlink()
    with pytest.raises(StateUnavailable):
        state.find_token(digest(secret), ())
    other = State(data_dir)
    other.revoke("laptop", configured=["laptop"])
    other.close()
    with pytest.raises(StateUnavailable):
        state.find_token(digest(secret), ())
    with pytest.raises(StateUnavailable):
        state.begin_submission(**SEND)
