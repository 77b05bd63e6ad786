"""What stands before every route: limits for peers and tokens, headers on every answer, TLS, proxies."""

import ssl
import threading
from pathlib import Path

import httpx2
import pytest

from config.profile import Limits
from server import gate
from server.audit.report import tail
from server.certificate import Certificate, CertificateUnusable
from server.gate import Admission, FailedAttempts, TooMany, peer_of
from server.key import replace_key
from tests.processes import until
from tests.server.door import ASSISTANT, Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.ports import free_port


def test_a_peer_that_tries_tokens_is_told_to_wait_and_a_valid_token_is_served(door: Door) -> None:
    caller = door.caller()
    statuses = []
    for _ in range(gate.FAILURES + 20):
        answer = door.http.get(f"{door.url}/attachments/x", headers={"Authorization": "Bearer wrong"})
        statuses.append(answer.status_code)
    assert statuses[: gate.FAILURES] == [401] * gate.FAILURES
    assert statuses.count(429) >= 15
    assert int(answer.headers["Retry-After"]) >= 1
    assert caller.call("list_folders").status == 200


def test_the_peers_that_are_remembered_are_so_many_at_most() -> None:
    attempts = FailedAttempts()
    for number in range(20_000):
        attempts.count(f"peer {number}")
    assert len(attempts._peers) == gate._PEERS


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("not an address\n", "unknown"),
    ],
)
def test_a_peer_is_an_ipv4_address_or_an_ipv6_network(address: str, peer: str) -> None:
    assert peer_of({"client": (address, 1)}) == peer


def limited(data_dir: Path, **limits: int) -> Door:
    """The application with these limits in its profile."""
    settings = settings_for(data_dir, free_port(), profiles={"assistant": {**ASSISTANT, "limits": limits}})
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [Mail()])])
    return Door(settings)


def test_a_token_has_so_many_calls_a_minute(data_dir: Path) -> None:
    with limited(data_dir, calls_per_minute=5) as door:
        one, other = door.caller(), door.caller()
        assert [one.call("list_folders").status for _ in range(8)] == [200] * 5 + [429] * 3
        answer = one.get("/attachments/x")
        assert (answer.status_code, 1 <= int(answer.headers["Retry-After"]) <= 12) == (429, True)
        assert other.call("list_folders").status == 200
        until(lambda: [each["event"] for each in tail(data_dir / "audit", 100)].count("limit") == 1)


def test_a_token_has_so_many_calls_at_once() -> None:
    admission, limits = Admission(), Limits(concurrent=2)
    with admission.admitted("a", limits), admission.admitted("a", limits):
        with pytest.raises(TooMany), admission.admitted("a", limits):
            pass
        with admission.admitted("b", limits):
            pass
    with admission.admitted("a", limits):
        pass


def test_calls_come_back_as_time_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    admission, limits, now = Admission(), Limits(calls_per_minute=60), [1_000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for _ in range(60):
        with admission.admitted("a", limits):
            pass
    with pytest.raises(TooMany) as caught, admission.admitted("a", limits):
        pass
    assert caught.value.seconds == pytest.approx(1)
    now[0] += 1
    with admission.admitted("a", limits):
        pass


@pytest.mark.parametrize("path", ["/mcp", "/attachments/x", "/healthz", "/nothing"])
def test_every_answer_carries_the_headers_that_keep_browsers_safe(door: Door, path: str) -> None:
    secret = door.token("alice", "assistant", "work")
    for headers in ({}, {"Authorization": f"Bearer {secret}"}, {"Host": "evil.example"}, {"Origin": "https://evil"}):
        answer = door.http.get(f"{door.url}{path}", headers=headers)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "Server" not in answer.headers


def test_a_new_data_key_counts_at_once_and_old_words_end(door: Door, data_dir: Path) -> None:
    caller = door.caller()
    uid = caller.call("list_messages", folder="INBOX").value["messages"][0]["uid"]
    with door.parts.audit.chain.locked():
        replace_key(data_dir, door.parts.audit.chain.remember)
        door.parts.audit.chain.forget()
    assert "No such message" in caller.call("read_message", folder="INBOX", uid=uid).text
    fresh = caller.call("list_messages", folder="INBOX").value["messages"][0]["uid"]
    assert caller.call("read_message", folder="INBOX", uid=fresh).value["uid"] == fresh
    assert (data_dir / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", ["gone", "readable by others", "cut short"])
def test_a_data_key_that_cannot_be_trusted_any_more_is_not_used(door: Door, data_dir: Path, how: str) -> None:
    caller = door.caller()
    assert caller.call("list_messages", folder="INBOX").status == 200
    match how:
        case "gone":
            (data_dir / "key").rename(data_dir / "away")
        case "readable by others":
            (data_dir / "key").chmod(0o644)
        case _:
            (data_dir / "key").write_bytes(b"short")
    assert caller.call("list_messages", folder="INBOX").status == 503
    assert door.http.get(f"{door.url}/healthz").json() == {"status": "degraded"}
    assert not (data_dir / "key").exists() or how != "gone"


def peers(data_dir: Path) -> list[str]:
    """Whose authentication failed, as the audit log tells."""
    return [each["peer"] for each in tail(data_dir / "audit", 100) if "peer" in each]


def behind_proxy(data_dir: Path, *trusted: str) -> Door:
    settings = settings_for(data_dir, free_port())
    place = settings.server.model_copy(update={"behind_proxy": True, "trusted_proxies": trusted})
    return Door(settings.model_copy(update={"server": place}))


@pytest.mark.parametrize(
    ("trusted", "peer"),
    [(("127.0.0.1",), "198.51.100.7"), (("127.0.0.0/8",), "198.51.100.7"), (("192.0.2.1",), "127.0.0.1")],
)
def test_forwarded_headers_are_believed_from_configured_proxies_only(
    data_dir: Path, trusted: tuple[str, ...], peer: str
) -> None:
    with behind_proxy(data_dir, *trusted) as door:
        door.http.get(
            f"{door.url}/attachments/x",
            headers={"X-Forwarded-For": "203.0.113.9, 198.51.100.7", "X-Forwarded-Proto": "https"},
        )
        until(lambda: bool(peers(data_dir)))
        assert peers(data_dir) == [peer]


def test_without_behind_proxy_no_forwarded_header_is_believed(door: Door, data_dir: Path) -> None:
    door.http.get(f"{door.url}/attachments/x", headers={"X-Forwarded-For": "203.0.113.9"})
    until(lambda: bool(peers(data_dir)))
    assert peers(data_dir) == ["127.0.0.1"]


def test_a_renewed_certificate_is_served_without_a_restart(
    data_dir: Path, tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.certificate.LOOK_EVERY", 0.05)
    folder = tmp_path / "tls"
    folder.mkdir()
    cert, key = folder / "server.pem", folder / "server.key"
    cert.write_bytes(certificates.cert_file.read_bytes())
    key.touch(mode=0o600)
    key.write_bytes(certificates.key_file.read_bytes())
    renewed_in = tmp_path / "renewed"
    renewed_in.mkdir()
    renewed = make_certificates(renewed_in)

    def health(ca_file: Path) -> int:
        with httpx2.Client(verify=ssl.create_default_context(cafile=str(ca_file))) as client:
            answer = client.get(f"{door.url}/healthz")
            assert answer.headers["Strict-Transport-Security"]
            return answer.status_code

    def serves(ca_file: Path) -> bool:
        try:
            return health(ca_file) == 200
        except httpx2.ConnectError:
            return False

    with Certificate(cert, key) as certificate, Door(settings_for(data_dir, free_port()), certificate) as door:
        assert serves(certificates.ca_file)
        assert not serves(renewed.ca_file)
        cert.write_bytes(renewed.cert_file.read_bytes())
        with pytest.raises(CertificateUnusable):
            certificate.refresh()
        assert serves(certificates.ca_file), "half a renewal changes nothing"
        key.write_bytes(renewed.key_file.read_bytes())
        until(lambda: serves(renewed.ca_file))
    assert threading.active_count() < 50


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    made.key_file.chmod(0o644)
    with pytest.raises(CertificateUnusable, match="chmod 600"):
        Certificate(made.cert_file, made.key_file)
    made.key_file.chmod(0o600)
    made.key_file.write_text("nonsense")
    with pytest.raises(CertificateUnusable, match="no certificate and its key"):
        Certificate(made.cert_file, made.key_file)


def test_a_token_file_that_has_gone_shows_as_degraded(door: Door, data_dir: Path) -> None:
    caller = door.caller()
    (data_dir / "state.db").rename(data_dir / "away")
    assert caller.call("list_folders").status == 503
    assert door.http.get(f"{door.url}/healthz").json() == {"status": "degraded"}
    (data_dir / "away").rename(data_dir / "state.db")
    assert caller.call("list_folders").status == 200
    assert door.http.get(f"{door.url}/healthz").json() == {"status": "ok"}
