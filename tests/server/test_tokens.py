"""Tokens that expire, pause and get another secret; what `token list` tells of them."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from config.identity import Token
from server.cli import main
from server.last_use import LastUses
from server.state.store import State, TokenRevoked, TokenUnknown, digest
from tests.processes import until
from tests.server.door import Door

CONFIGURED = Token(name="desk", sha256=digest("desk-secret"), user="alice", profile="assistant")


@pytest.fixture
def state(data_dir: Path) -> Iterator[State]:
    opened = State(data_dir)
    yield opened
    opened.close()


def finds(state: State, secret: str) -> str | None:
    """Whose secret it is now."""
    token = state.find_token(digest(secret), [CONFIGURED])
    return None if token is None else token.name


def test_a_token_ends_when_it_expires(state: State) -> None:
    _, lasting = state.issue_token("alice", "assistant", name="lasting", expires=time.time() + 60)
    _, ended = state.issue_token("alice", "assistant", name="ended", expires=time.time() - 1)
    assert (finds(state, lasting), finds(state, ended)) == ("lasting", None)
    assert {each.name: each.condition for each in state.tokens()} == {"lasting": "valid", "ended": "expired"}


def test_a_token_of_the_configuration_ends_when_it_expires(state: State) -> None:
    ended = Token.model_validate({**CONFIGURED.model_dump(), "expires": "2020-01-01T00:00:00Z"})
    assert state.find_token(CONFIGURED.sha256, [CONFIGURED]) is not None
    assert state.find_token(CONFIGURED.sha256, [ended]) is None


@pytest.mark.parametrize("name", ["laptop", "desk"])
def test_a_paused_token_does_not_count_until_it_is_resumed(state: State, name: str) -> None:
    secret = "desk-secret" if name == "desk" else state.issue_token("alice", "assistant", name=name)[1]
    state.pause(name, configured=[CONFIGURED])
    assert finds(state, secret) is None
    state.resume(name, configured=[CONFIGURED])
    assert finds(state, secret) == name


@pytest.mark.parametrize("name", ["laptop", "desk"])
def test_the_old_secret_works_for_the_overlap(state: State, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "desk-secret" if name == "desk" else state.issue_token("alice", "assistant", name=name)[1]
    second = state.rotate(name, 60, configured=[CONFIGURED])
    third = state.rotate(name, 30, configured=[CONFIGURED])
    assert [finds(state, each) for each in (first, second, third)] == [name] * 3
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + 45)
    assert [finds(state, each) for each in (first, second, third)] == [name, None, name]
    monkeypatch.setattr("time.time", lambda: real() + 61)
    assert [finds(state, each) for each in (first, second, third)] == [None, None, name]
    state.revoke(name, configured=[CONFIGURED])
    assert finds(state, third) is None


def test_without_overlap_the_old_secret_ends_at_once(state: State) -> None:
    _, first = state.issue_token("alice", "assistant", name="laptop")
    second = state.rotate("laptop", 0)
    assert (finds(state, first), finds(state, second)) == (None, "laptop")


def test_a_revoked_token_is_neither_resumed_nor_rotated(state: State) -> None:
    _, secret = state.issue_token("alice", "assistant", name="laptop")
    state.revoke("laptop")
    with pytest.raises(TokenRevoked):
        state.resume("laptop")
    with pytest.raises(TokenRevoked):
        state.rotate("laptop", 60)
    assert finds(state, secret) is None


def test_a_name_that_nobody_knows_is_an_error(state: State) -> None:
    for change in (state.pause, state.resume, lambda name: state.rotate(name, 60)):
        with pytest.raises(TokenUnknown):
            change("nobody")


def test_the_last_use_is_written_once_a_minute(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(state, "used", written.append)
    uses = LastUses(state)
    for _ in range(1_000):
        uses.saw("laptop")
        uses.saw("desk")
    uses.close()
    assert sorted(written) == ["desk", "laptop"]


def test_every_way_not_to_count_gets_the_same_401(door: Door) -> None:
    secrets = [door.state.issue_token("alice", "assistant", provider="work", name=f"t{each}")[1] for each in range(4)]
    _, ended = door.state.issue_token("alice", "assistant", provider="work", expires=time.time() - 1)
    door.state.pause("t0")
    door.state.revoke("t1")
    door.state.rotate("t2", 0)
    answers = [
        door.http.post(f"{door.url}/mcp", headers={"Authorization": f"Bearer {secret}"})
        for secret in (*secrets[:3], ended, "unknown")
    ]
    assert {(each.status_code, each.content, each.headers["WWW-Authenticate"]) for each in answers} == {
        (401, answers[0].content, answers[0].headers["WWW-Authenticate"])
    }
    assert door.http.post(f"{door.url}/mcp", headers={"Authorization": f"Bearer {secrets[3]}"}).status_code != 401


def test_a_use_over_http_is_told(door: Door) -> None:
    caller = door.caller()
    caller.call("list_folders")
    until(lambda: [each.last_used is not None for each in door.state.tokens()] == [True])


CONFIGURATION = f"""
[server]
data_dir = "data"
[users.alice.providers.work]
address = "alice@example.org"
imap = {{ host = "127.0.0.1", port = 9, security = "plain" }}
[profiles.assistant]
[[tokens]]
name = "desk"
sha256 = "{CONFIGURED.sha256}"
user = "alice"
profile = "assistant"
"""


def run(folder: Path, *arguments: str) -> Result:
    """A command on the configuration of a folder."""
    path = folder / "postmirror.toml"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(CONFIGURATION)
    return CliRunner().invoke(main, [*arguments, "--config", str(path)])


def test_the_commands_tell_what_became_of_each_token(tmp_path: Path) -> None:
    secret = run(tmp_path, "token", "new", "alice", "assistant", "--name", "laptop", "--expires", "30d").stdout.strip()
    rotated = run(tmp_path, "token", "rotate", "laptop", "--overlap", "10m").stdout.strip()
    assert secret[:3] == rotated[:3] == "pm_"
    assert secret != rotated
    assert run(tmp_path, "token", "pause", "desk").exit_code == 0
    listed = {each["name"]: each for each in json.loads(run(tmp_path, "token", "list", "--json").stdout)}
    assert (listed["laptop"]["state"], listed["desk"]["state"]) == ("valid", "paused")
    assert listed["laptop"]["expires"] > listed["laptop"]["created"]
    assert listed["laptop"]["old_secret_until"] is not None
    assert listed["desk"]["source"] == "configuration"
    assert run(tmp_path, "token", "resume", "desk").exit_code == 0
    assert run(tmp_path, "token", "revoke", "laptop").exit_code == 0
    table = run(tmp_path, "token", "list").stdout
    assert "revoked" in table
    assert "valid" in table
    assert secret not in table


def test_a_name_in_the_list_can_be_given_to_the_next_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "me-assistant-on-the-laptop-d96c30"
    run(tmp_path, "token", "new", "alice", "assistant", "--name", name, "--expires", "30d")
    assert name in run(tmp_path, "token", "list").stdout


def test_no_moment_is_cut_on_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run(tmp_path, "token", "new", "alice", "assistant", "--name", "a" * 30, "--expires", "30d")
    [line] = [line for line in run(tmp_path, "token", "list").stdout.splitlines() if line.startswith("aaa")]
    assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d UTC .* valid$", line.rstrip()), line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["token", "pause", "nobody"], "no token 'nobody'"),
        (["token", "new", "alice", "assistant", "--expires", "soon"], "a number and a unit"),
        (["token", "new", "alice", "assistant", "--name", "desk"], "has a token 'desk' already"),
        (["token", "new", "nobody", "assistant"], "there is no [users.nobody]"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(tmp_path: Path, arguments: list[str], reason: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.exit_code != 0
    assert reason in done.output


def test_a_new_data_key_is_made_by_a_command_and_the_log_goes_on(tmp_path: Path) -> None:
    run(tmp_path, "token", "new", "alice", "assistant")
    key = tmp_path / "data" / "key"
    for _ in range(2):
        before = key.read_bytes() if key.exists() else b""
        rotated = run(tmp_path, "keys", "rotate")
        assert "every uid, cursor, attachment id and signed link" in rotated.output.lower()
        assert key.read_bytes() != before
        assert key.stat().st_mode & 0o777 == 0o600
    assert run(tmp_path, "audit", "verify").exit_code == 0
    events = [json.loads(line) for line in run(tmp_path, "audit", "tail", "--json").stdout.splitlines()]
    assert [each["outcome"] for each in events if each["event"] == "keys"] == ["rotated", "rotated"]
    file = max((tmp_path / "data" / "audit").glob("*.jsonl"))
    file.write_bytes(file.read_bytes().replace(b"rotated", b"ROTATED"))
    broken = run(tmp_path, "audit", "verify", "--json")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["problems"]
