"""Tokens and revocations outlive the process."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.identity import Token
from server.state.journal import Entry
from server.state.store import State, StateUnavailable, TokenExists, TokenUnknown, digest


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
    state.revoke("laptop", configured=[token])
    assert state.find_token(digest("secret"), [token]) is None


def test_a_name_is_used_once_even_after_it_was_revoked(state: State) -> None:
    state.issue_token("alice", "assistant", name="laptop")
    state.revoke("laptop")
    with pytest.raises(TokenExists):
        state.issue_token("alice", "assistant", name="laptop")
    with pytest.raises(TokenExists):
        state.issue_token(
            "alice",
            "assistant",
            name="desk",
            configured=[Token(name="desk", sha256="0" * 64, user="alice", profile="assistant")],
        )


def test_revoking_a_name_that_nobody_knows_is_an_error(state: State) -> None:
    with pytest.raises(TokenUnknown):
        state.revoke("nobody")


def test_a_file_that_has_gone_is_not_made_anew(state: State, data_dir: Path) -> None:
    _, secret = state.issue_token("alice", "assistant", name="laptop")
    (data_dir / "state.db").rename(data_dir / "away")
    with pytest.raises(StateUnavailable, match="put it back"):
        state.find_token(digest(secret), ())
    with pytest.raises(StateUnavailable):
        state.begin_submission(Entry("alice", "work", "assistant", "laptop"), 3)
    (data_dir / "away").rename(data_dir / "state.db")
    assert state.find_token(digest(secret), ()) is not None


def test_a_file_that_was_replaced_counts_from_the_next_call_on(state: State, data_dir: Path, tmp_path: Path) -> None:
    _, kept = state.issue_token("alice", "assistant", name="kept")
    _, later = state.issue_token("alice", "assistant", name="later")
    backup = State(tmp_path / "backup")
    _, other = backup.issue_token("alice", "assistant", name="other")
    backup.revoke("kept", configured=[Token(name="kept", sha256=digest(kept), user="alice", profile="assistant")])
    backup.close()
    (tmp_path / "backup" / "state.db").rename(data_dir / "state.db")
    assert [state.find_token(digest(secret), ()) is not None for secret in (kept, later, other)] == [False, False, True]
    state.revoke("other")
    again = State(data_dir)
    assert again.find_token(digest(other), ()) is None
    assert set(again.revoked()) == {"kept", "other"}
    again.close()


def test_a_file_that_is_replaced_again_and_again_costs_no_file_handles(
    state: State, data_dir: Path, tmp_path: Path
) -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = handles()
    for number in range(20):
        State(tmp_path / str(number)).close()
        (tmp_path / str(number) / "state.db").rename(data_dir / "state.db")
        state.tokens()
    assert handles() <= before + 2
