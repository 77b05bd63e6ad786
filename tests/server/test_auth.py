"""Who may come in: one answer to every bad token, looked at anew on every request."""

import re
from pathlib import Path

import httpx2
import pytest

from config.settings import load_settings
from server.live import LiveSettings
from server.state.store import digest
from tests.server.door import HANDSHAKE, ONE_ACCOUNT, Door, Folder, Mail, fill_mirror, modern_call, settings_for
from tests.server.test_relay import uid_of
from tests.servers.ports import free_port

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def post(door: Door, headers: dict[str, str], path: str = "/mcp", content: bytes | None = None) -> httpx2.Response:
    """A POST with these headers and no others that matter."""
    common = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": HANDSHAKE}
    if content is not None:
        return door.http.post(door.url + path, content=content, headers=common | headers)
    return door.http.post(door.url + path, json=LIST, headers=common | headers)


@pytest.mark.parametrize("path", ["/mcp", "/attachments/abc"])
def test_every_bad_token_gets_the_same_401(door: Door, path: str) -> None:
    good = door.token("alice", "assistant", "work")
    name, revoked = door.state.issue_token("alice", "assistant", provider="work")
    door.state.revoke(name)
    _, homeless = door.state.issue_token("nobody", "assistant")
    attempts: list[dict[str, str | bytes]] = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer  wrong"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {good}x"},
        {"Authorization": f"Bearer {good[:-1]}"},
        {"Authorization": f"Bearer {good} {good}"},
        {"Authorization": f"Basic {good}"},
        {"Authorization": good},
        {"Authorization": f"Bearer {revoked}"},
        {"Authorization": f"Bearer {homeless}"},
        {"Authorization": f"Bearer {digest(good)}"},
        {"Authorization": "Bearer " + "x" * 5_000},
        {"Authorization": "Bearer ünïcode".encode()},
        {"X-Token": good},
        {"Cookie": f"token={good}"},
    ]
    method = "POST" if path == "/mcp" else "GET"
    answers = [door.http.request(method, f"{door.url}{path}", headers=headers) for headers in attempts]  # type: ignore[arg-type]  # odd headers are the point
    answers.append(door.http.get(f"{door.url}{path}?token={good}&access_token={good}"))
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["WWW-Authenticate"] for answer in answers}) == 1
    assert answers[0].headers["WWW-Authenticate"].startswith("Bearer ")


def test_two_authorization_headers_are_none(door: Door) -> None:
    good = door.token("alice", "assistant", "work")
    twice = [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")]
    assert door.http.post(f"{door.url}/mcp", json=LIST, headers=twice).status_code == 401


def test_the_scheme_is_taken_in_any_case(door: Door) -> None:
    assert post(door, {"Authorization": f"bEARER {door.token('alice', 'assistant', 'work')}"}).status_code == 200


def test_a_revoked_token_is_refused_on_the_next_call(door: Door) -> None:
    name, secret = door.state.issue_token("alice", "assistant", provider="work")
    headers = {"Authorization": f"Bearer {secret}"}
    assert post(door, headers).status_code == 200
    door.state.revoke(name)
    assert post(door, headers).status_code == 401


def test_each_token_sees_its_own_mailbox_and_nothing_of_another(door: Door) -> None:
    work, home, bob = door.caller(), door.caller(provider="home"), door.caller("bob")
    assert [uid_of(home, "At home"), uid_of(bob, "For Bob")]
    for owner, subject in ((work, "Lunch"), (home, "At home"), (bob, "For Bob")):
        uid = uid_of(owner, subject)
        for other in (work, home, bob):
            assert other.call("read_message", folder="INBOX", uid=uid).is_error == (other is not owner)


def test_a_session_id_gives_nothing(door: Door) -> None:
    """There are no sessions: a made-up id neither helps a bad token nor harms a good one."""
    good = {"Authorization": f"Bearer {door.token('alice', 'assistant', 'work')}"}
    assert "Mcp-Session-Id" not in post(door, good).headers
    assert post(door, {"Mcp-Session-Id": "1" * 32}).status_code == 401
    assert post(door, {**good, "Mcp-Session-Id": "1" * 32}).status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_mcp_takes_post_only(door: Door, method: str) -> None:
    headers = {"Authorization": f"Bearer {door.token('alice', 'assistant', 'work')}", "Accept": "text/event-stream"}
    answer = door.http.request(method, f"{door.url}/mcp", headers=headers)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/mcp", "/attachments/abc", "/healthz", "/nothing"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1:80@evil", ""])
def test_a_foreign_host_is_refused_everywhere(door: Door, path: str, host: str) -> None:
    assert door.http.get(door.url + path, headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8765"])
def test_loopback_names_are_served_with_and_without_a_port(door: Door, host: str) -> None:
    secret = door.token("alice", "assistant", "work")
    assert door.http.get(f"{door.url}/healthz", headers={"Host": host}).status_code == 200
    assert post(door, {"Host": host.lower(), "Authorization": f"Bearer {secret}"}).status_code == 200


def test_the_public_name_is_served(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port())
    public = settings.server.model_copy(update={"public_url": "https://mail.example.org:8443/"})
    with Door(settings.model_copy(update={"server": public})) as door:
        headers = {"Authorization": f"Bearer {door.token('alice', 'assistant', 'work')}"}
        for host in ("mail.example.org", "mail.example.org:8443"):
            assert post(door, {**headers, "Host": host, "Origin": "https://mail.example.org:8443"}).status_code == 200
        assert post(door, {**headers, "Host": "example.org"}).status_code == 400


def test_a_foreign_origin_is_refused(door: Door) -> None:
    headers = {"Authorization": f"Bearer {door.token('alice', 'assistant', 'work')}"}
    assert post(door, {**headers, "Origin": "https://evil.example"}).status_code == 403
    assert post(door, {**headers, "Origin": "http://localhost:3000"}).status_code == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"[" * 100_000, 400), (b"[]", 400), (b"\xff\xfe", 400), (b'{"a":"' + b"x" * 5_000_000 + b'"}', 413)],
)
def test_broken_and_huge_bodies_are_refused(
    door: Door, content: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {
        "Authorization": f"Bearer {door.token('alice', 'assistant', 'work')}",
        "Content-Type": "application/json",
    }
    assert post(door, headers, content=content).status_code == status


def test_health_says_ok_or_degraded_and_nothing_more(door: Door) -> None:
    assert door.http.get(f"{door.url}/healthz").json() == {"status": "ok"}
    door.well = False
    assert door.http.get(f"{door.url}/healthz").json() == {"status": "degraded"}


def test_a_message_of_the_size_that_append_email_promises_fits_into_a_request(data_dir: Path) -> None:
    profile = {"tools": "gateway", "allow": ["append_email"], "folders": [{"match": "*", "access": "write"}]}
    with Door(settings_for(data_dir, free_port(), profiles={"assistant": profile})) as door:
        caller = door.caller(provider=None)
        [tool] = caller.request("tools/list").result["tools"][-1:]
        said = tool["inputSchema"]["properties"]["raw_message"]["description"]
        [largest] = [int(word) for word in re.findall(r"over HTTP (\d+) MB", said)]
        for megabytes, status in ((largest, 200), (largest + 1, 413)):
            arguments = {"account": "work", "raw_message": "AAAA" * (megabytes * 1_000_000 // 3)}
            body, headers = modern_call(caller.secret, "append_email", arguments)
            assert door.http.post(f"{door.url}/mcp", json=body, headers=headers).status_code == status


CONFIG = (
    ONE_ACCOUNT
    + """reload_grace = "{grace}"

[profiles.assistant]
folders = [{{ match = "{match}", access = "read" }}]
{more}
"""
)


class ConfigFile:
    """A configuration file that a test edits."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.parent / "postmirror.toml"
        self._fixed = {"data_dir": data_dir, "port": free_port()}
        self.write()

    def write(self, match: str = "*", grace: str = "10m", more: str = "") -> None:
        """Write it, long enough ago to be adopted at once."""
        self.path.write_text(CONFIG.format(**self._fixed, match=match, grace=grace, more=more))
        self.path.chmod(0o600)

    def door(self) -> Door:
        """The application that follows this file."""
        live = LiveSettings(self.path, load_settings)
        fill_mirror(live.in_force().settings, "alice", "work", [Folder("INBOX", [Mail("x")] * 1), Folder("Work")])
        return Door(live)


@pytest.fixture
def config_file(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigFile:
    monkeypatch.setattr("server.live.STABLE_SECONDS", 0.0)
    return ConfigFile(data_dir)


def test_a_narrowed_policy_takes_effect_on_the_next_call(config_file: ConfigFile) -> None:
    with config_file.door() as door:
        caller = door.caller()
        assert caller.call("list_folders").value["folders"] == ["INBOX", "Work"]
        config_file.write(match="Work")
        assert caller.call("list_folders").value["folders"] == ["Work"]
        assert caller.call("list_messages", folder="INBOX").is_error


def test_a_cursor_ends_with_any_change_of_the_configuration(config_file: ConfigFile) -> None:
    with config_file.door() as door:
        fill_mirror(
            door.settings, "alice", "work", [Folder("Work", [Mail(str(each), minutes=each) for each in range(21)])]
        )
        caller = door.caller()
        cursor = caller.call("list_messages", folder="Work").value["next_cursor"]
        assert not caller.call("list_messages", folder="Work", cursor=cursor).is_error
        config_file.write(match="*", more='content = { max_age = "500w" }')
        assert "start again without a cursor" in caller.call("list_messages", folder="Work", cursor=cursor).text


def test_a_token_of_the_file_works_and_can_be_revoked(config_file: ConfigFile) -> None:
    secret = "a-secret-chosen-elsewhere"
    token = f'[[tokens]]\nname = "laptop"\nsha256 = "{digest(secret)}"\nuser = "alice"\nprofile = "assistant"'
    with config_file.door() as door:
        headers = {"Authorization": f"Bearer {secret}"}
        assert post(door, headers).status_code == 401
        config_file.write(more=token)
        assert post(door, headers).status_code == 200
        door.state.revoke("laptop", configured=door.live.in_force().settings.tokens)
        assert post(door, headers).status_code == 401


def test_a_broken_edit_keeps_the_old_policy_and_shows_as_degraded(
    config_file: ConfigFile, caplog: pytest.LogCaptureFixture
) -> None:
    with config_file.door() as door:
        caller = door.caller()
        config_file.write(more="nonsense = = 1")
        for _ in range(3):
            assert caller.call("list_folders").value["folders"] == ["INBOX", "Work"]
        assert door.http.get(f"{door.url}/healthz").json() == {"status": "degraded"}
        assert caplog.text.count("the version before it stays in force") == 1
        config_file.write(match="Work")
        assert caller.call("list_folders").value["folders"] == ["Work"]
        assert door.http.get(f"{door.url}/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("how", ["broken", "gone", "writable by others"])
def test_after_the_grace_period_nothing_is_served(config_file: ConfigFile, how: str) -> None:
    config_file.write(grace="0s")
    with config_file.door() as door:
        caller = door.caller()
        assert caller.call("list_folders").status == 200
        match how:
            case "broken":
                config_file.write(more="nonsense")
            case "gone":
                config_file.path.unlink()
            case _:
                config_file.path.chmod(0o666)
        assert [caller.call("list_folders").status, caller.get("/attachments/x").status_code] == [503, 503]
        assert door.http.get(f"{door.url}/healthz").json() == {"status": "degraded"}
        config_file.write()
        assert caller.call("list_folders").status == 200


@pytest.mark.parametrize("path", ["/healthz", "/attachments/abc"])
def test_a_foreign_origin_is_refused_on_every_path(door: Door, path: str) -> None:
    def status(**headers: str) -> int:
        return door.http.get(f"{door.url}{path}", headers=headers).status_code

    for foreign in ("https://evil.example", "http://localhost:evil.example", "http://localhost:80@evil.example"):
        assert status(Origin=foreign) == 403
    assert status(Origin="http://localhost:3000") == status() != 403
