"""Access tokens: renewed in time, once for everybody, and nothing lost whenever a process is killed."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from config.settings import ConfigError, parse_settings
from mirror.errors import SignInNeeded, UpstreamUnavailable
from server.key import DataKey, replace_key
from server.oauth.grants import Grants
from server.oauth.source import AccessToken, credentials_of
from server.oauth.tokens import Tokens
from server.passes import sync_now
from server.state.store import State
from tests.servers.authorization import AuthorizationServer, Step
from tests.servers.certificates import Certificates

ROOT = Path(__file__).parents[3]


@pytest.fixture
def authority(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthorizationServer]:
    """An authorization server whose certificate is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca_file))
    with AuthorizationServer(certificates, "alice") as server:
        yield server


@pytest.fixture
def grants(data_dir: Path) -> Iterator[Grants]:
    """No sign-in yet."""
    with closing(State(data_dir)) as state:
        yield Grants(state, DataKey(data_dir))


def sign_in(authority: AuthorizationServer, grants: Grants, *, left: float = 0.0) -> None:
    """alice/work is signed in to; the access token has so many seconds left."""
    first = authority._issue("first-refresh")
    now = time.time()
    grants.put("alice", "work", Tokens(first["access_token"], now - 3_600 + left, now + left, "first-refresh"))


def token(authority: AuthorizationServer, grants: Grants) -> AccessToken:
    return AccessToken(grants, "alice", "work", authority.oauth)


def asking(data_dir: Path, authority: AuthorizationServer) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.server.oauth.renewing", str(data_dir), authority.oauth.model_dump_json()],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_token_is_used_until_shortly_before_its_end(authority: AuthorizationServer, grants: Grants) -> None:
    sign_in(authority, grants, left=1_000)
    first = token(authority, grants).secret()
    assert authority.renewals == 0
    sign_in(authority, grants, left=200)
    assert token(authority, grants).secret() != first
    assert authority.renewals == 1
    assert authority.is_good(token(authority, grants).secret())
    assert authority.renewals == 1


def test_a_token_that_the_mail_server_refuses_is_renewed_once(authority: AuthorizationServer, grants: Grants) -> None:
    sign_in(authority, grants, left=3_600)
    mine = token(authority, grants)
    first = mine.secret()
    second = mine.secret(first)
    assert second != first
    assert mine.secret(first) == second
    assert authority.renewals == 1


@pytest.mark.parametrize("rotates", [True, False])
def test_renewals_go_on_for_ever(authority: AuthorizationServer, grants: Grants, rotates: bool) -> None:
    authority.rotates, authority.forgives = rotates, False
    sign_in(authority, grants)
    mine, seen = token(authority, grants), set()
    refused = ""
    for _ in range(4):
        refused = mine.secret(refused)
        assert authority.is_good(refused)
        seen.add(refused)
    assert len(seen) == 4


def test_one_renewal_serves_all_processes(authority: AuthorizationServer, grants: Grants, data_dir: Path) -> None:
    authority.forgives = False
    authority.at = lambda step: time.sleep(0.3) if step == "asked" else None
    sign_in(authority, grants)
    processes = [asking(data_dir, authority) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    said = {process.communicate("\n", timeout=30)[0] for process in processes}
    assert len(said) == 1
    assert authority.is_good(said.pop())
    assert authority.renewals == 1


@pytest.mark.parametrize("step", ["asked", "rotated", "answered"])
def test_a_renewal_that_is_killed_at_any_step_loses_nothing(
    authority: AuthorizationServer, grants: Grants, data_dir: Path, step: Step
) -> None:
    sign_in(authority, grants)
    process = asking(data_dir, authority)

    def kill(now: Step) -> None:
        if now == step:
            process.kill()
            process.wait()

    authority.at = kill
    process.communicate("\n", timeout=30)
    authority.at = lambda _: None
    assert authority.is_good(token(authority, grants).secret())


@pytest.mark.parametrize("times", [3, pytest.param(80, marks=pytest.mark.soak)])
def test_a_renewal_that_is_killed_while_it_writes_loses_nothing(
    authority: AuthorizationServer, grants: Grants, data_dir: Path, times: int
) -> None:
    """Killed at moments within 30 ms of the answer, which is where the new tokens come to the disk."""
    moments = random.Random(10)
    sign_in(authority, grants)
    mine = token(authority, grants)
    for _ in range(times):
        process = asking(data_dir, authority)

        def kill(now: Step, process: subprocess.Popen[str] = process) -> None:
            if now == "answered":
                time.sleep(moments.uniform(0, 0.03))
                process.kill()

        authority.at = kill
        process.communicate("\n", timeout=30)
        authority.at = lambda _: None
        access = mine.secret()
        assert authority.is_good(access)
        kept = grants.find("alice", "work")
        assert kept is not None
        # Due again, so that the next process renews with the refresh token that was kept.
        grants.renew(kept, replace(grants.opened(kept), expires=time.time()))


def test_a_provider_that_takes_a_second_use_for_a_theft_is_named(
    authority: AuthorizationServer, grants: Grants, data_dir: Path
) -> None:
    authority.forgives = False
    sign_in(authority, grants)
    process = asking(data_dir, authority)

    def kill(now: Step) -> None:
        if now == "rotated":
            process.kill()
            process.wait()

    authority.at = kill
    process.communicate("\n", timeout=30)
    authority.at = lambda _: None
    with pytest.raises(SignInNeeded, match=r"cut off.*postmirror auth login alice/work"):
        token(authority, grants).secret()


@pytest.mark.parametrize(
    ("answer", "fault", "said"),
    [
        ({"error": "invalid_grant"}, "signed_out", "has ended"),
        ({"error": "invalid_grant", "error_description": "AADSTS65001: not consented"}, "consent", "consent"),
        (
            {"error": "interaction_required", "error_description": "AADSTS90094: admin"},
            "administrator",
            "administrator",
        ),
        ({"error": "invalid_client"}, "client", "client_id"),
    ],
)
def test_what_the_provider_says_is_told_and_not_asked_again(
    authority: AuthorizationServer, grants: Grants, answer: dict[str, str], fault: str, said: str
) -> None:
    sign_in(authority, grants)
    authority.answer = (400, answer)
    mine = token(authority, grants)
    mark = mine.mark()
    for _ in range(2):
        with pytest.raises(SignInNeeded, match=said):
            mine.secret()
    assert len(authority.asked) == (2 if fault == "client" else 1)
    kept = grants.find("alice", "work")
    assert kept is not None
    assert kept.fault == fault
    authority.answer = None
    sign_in(authority, grants, left=1_000)
    assert authority.is_good(mine.secret())
    assert mine.mark() != mark


def test_a_server_that_is_away_costs_no_sign_in(authority: AuthorizationServer, grants: Grants) -> None:
    authority.answer = (503, {})
    sign_in(authority, grants, left=100)
    mine = token(authority, grants)
    assert mine.secret() == mine.secret()
    assert len(authority.asked) == 1
    sign_in(authority, grants)
    with pytest.raises(UpstreamUnavailable):
        mine.secret()
    authority.answer = None
    assert authority.is_good(mine.secret())


def test_a_sign_in_that_is_forgotten_while_it_is_renewed_stays_forgotten(
    authority: AuthorizationServer, grants: Grants, data_dir: Path
) -> None:
    sign_in(authority, grants)

    def forget(now: Step) -> None:
        if now == "asked":
            with closing(State(data_dir)) as state:
                assert state.forget_sign_in("alice", "work")

    authority.at = forget
    token(authority, grants).secret()
    assert grants.find("alice", "work") is None


def test_nobody_signed_in_yet_names_the_command(authority: AuthorizationServer, grants: Grants) -> None:
    with pytest.raises(SignInNeeded, match="postmirror auth login alice/work"):
        token(authority, grants).secret()


def test_tokens_are_sealed_and_survive_another_data_key(
    authority: AuthorizationServer, grants: Grants, data_dir: Path
) -> None:
    sign_in(authority, grants, left=1_000)
    before = token(authority, grants).secret()
    stored = b"".join(path.read_bytes() for path in data_dir.glob("state.db*"))
    assert before.encode() not in stored
    assert b"first-refresh" not in stored
    with grants.changing_key() as sign_ins:
        sign_ins.prepare(DataKey(data_dir).current(), b"x" * 32)
        assert token(authority, grants).secret() == before
        replace_key(data_dir, sign_ins.prepare)
    assert token(authority, grants).secret() == before
    assert token(authority, grants).secret(before) != before


def test_oauth_and_a_password_exclude_each_other(authority: AuthorizationServer) -> None:
    text = (
        '[users.a.providers.b]\naddress = "a@example.org"\npassword = { env = "X" }\n'
        f'oauth = {authority.toml}\nimap = {{ host = "mail.example.org", port = 993 }}\n'
    )
    with pytest.raises(ConfigError, match="leave one out"):
        parse_settings(text, Path("postmirror.toml"))


def test_state_db_is_closed_when_a_command_is_done_with_its_mailboxes(
    data_dir: Path, authority: AuthorizationServer
) -> None:
    known = authority.oauth.model_dump(mode="json", exclude_defaults=True)
    oauth = "\n".join(f"{key} = {json.dumps(value)}" for key, value in known.items())
    settings = parse_settings(
        f'[server]\ndata_dir = "{data_dir}"\n[users.alice.providers.work]\naddress = "alice@example.org"\n'
        'imap = { host = "127.0.0.1", port = 9, security = "plain" }\n'
        f"[users.alice.providers.work.oauth]\n{oauth}\n",
        data_dir.parent / "postmirror.toml",
    )

    def is_open() -> bool:
        descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return str(data_dir / "state.db") in [os.path.realpath(each) for each in descriptors]

    with credentials_of(settings):
        assert is_open()
    assert not is_open()
    [outcome] = sync_now(settings, ["alice/work"])
    assert outcome.error
    assert not is_open()
