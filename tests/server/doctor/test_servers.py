"""Faults between this machine and the mail servers: each is named, with its fix, and nothing else is."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from server.doctor import door
from tests.server.doctor.installation import Installation
from tests.servers.certificates import Fault, make_certificates
from tests.servers.dovecot import Dovecot
from tests.servers.faulty_smtp import FaultySmtp
from tests.servers.ports import free_port
from tests.servers.scripted import ScriptedImap
from tests.servers.smtp import SmtpSink


def table(port: int, security: str = "plain", **more: object) -> str:
    """An endpoint as TOML."""
    extra = "".join(f', {key} = "{value}"' for key, value in more.items())
    return f'{{ host = "127.0.0.1", port = {port}, security = "{security}"{extra} }}'


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "SECONDS", 2.0)


def tls(server: Dovecot) -> str:
    assert server.certificates is not None
    return table(server.tls_port, "tls", ca_file=server.certificates.ca_file)


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_healthy_servers_raise_no_alarm(tmp_path: Path, dovecot: Dovecot, security: str) -> None:
    assert dovecot.certificates is not None
    port = dovecot.tls_port if security == "tls" else dovecot.port
    imap = table(port, security, ca_file=dovecot.certificates.ca_file)
    with SmtpSink("starttls", dovecot.certificates, require_auth=True) as sink:
        smtp = table(sink.port, "starttls", ca_file=dovecot.certificates.ca_file)
        installation = Installation(tmp_path, imap=imap, smtp=smtp)
        installation.account["aliases"] = '["support@example.org"]'
        installation.write()
        assert installation.examine(offline=False) == {}
        assert sink.messages == []


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    """A Dovecot whose certificate a test replaces."""
    with Dovecot() as made:
        yield made


CERTIFICATES: list[tuple[Fault, str, str]] = [
    ("expired", "certificate-expired", "renew"),
    ("not_yet_valid", "certificate-not-yet-valid", "clock"),
    ("other_name", "certificate-name", 'server_name = "mail.example.org"'),
    ("self_signed", "certificate-self-signed", "ca_file"),
    ("no_intermediate", "certificate-chain", "fullchain"),
]


@pytest.mark.parametrize(("fault", "name", "fix"), CERTIFICATES)
def test_a_certificate_that_is_not_in_order(tmp_path: Path, server: Dovecot, fault: Fault, name: str, fix: str) -> None:
    server.stop()
    make_certificates(server.folder, fault)
    server.start()
    found = Installation(tmp_path, imap=tls(server)).examine(offline=False)
    assert set(found) == {name}
    assert fix in found[name]["fix"]


def test_a_certificate_of_an_authority_that_is_not_known(tmp_path: Path, dovecot: Dovecot) -> None:
    installation = Installation(tmp_path, imap=table(dovecot.tls_port, "tls"))
    assert "set ca_file" in installation.examine(offline=False)["certificate-authority"]["fix"]
    other = make_certificates(tmp_path).ca_file
    installation.account["imap"] = table(dovecot.tls_port, "tls", ca_file=other)
    installation.write()
    assert str(other) in installation.examine(offline=False)["certificate-authority"]["fix"]


def test_a_server_name_makes_another_name_right(tmp_path: Path, server: Dovecot) -> None:
    server.stop()
    made = make_certificates(server.folder, "other_name")
    server.start()
    imap = table(server.tls_port, "tls", ca_file=made.ca_file, server_name="mail.example.org")
    assert Installation(tmp_path, imap=imap).examine(offline=False) == {}


def test_a_ca_file_that_is_not_there(tmp_path: Path, dovecot: Dovecot) -> None:
    found = Installation(tmp_path, imap=table(dovecot.tls_port, "tls", ca_file="/no.pem")).examine(offline=False)
    assert set(found) == {"ca-file"}


PLACES: list[tuple[str, Callable[[Dovecot], str], str]] = [
    ("host-unknown", lambda _: '{ host = "nowhere.invalid", port = 993 }', "correct host"),
    ("port-closed", lambda _: table(free_port()), "host and port"),
    ("not-tls", lambda server: table(server.port, "tls"), "starttls"),
    ("silent", lambda server: table(server.tls_port, "starttls"), 'security = "tls"'),
]


@pytest.mark.parametrize(("name", "imap", "fix"), PLACES)
def test_a_server_that_is_not_where_it_should_be(
    tmp_path: Path, dovecot: Dovecot, name: str, imap: Callable[[Dovecot], str], fix: str
) -> None:
    found = Installation(tmp_path, imap=imap(dovecot)).examine(offline=False)
    assert set(found) == {name}
    assert fix in found[name]["fix"]


def test_another_protocol(tmp_path: Path, smtp_sink: SmtpSink) -> None:
    assert set(Installation(tmp_path, imap=table(smtp_sink.port)).examine(offline=False)) == {"other-protocol"}


def test_a_server_without_starttls(tmp_path: Path) -> None:
    with Dovecot(tls=False) as plain:
        found = Installation(tmp_path, imap=table(plain.port, "starttls")).examine(offline=False)
    assert set(found) == {"starttls-missing"}


def test_a_wrong_password_is_tried_once(tmp_path: Path, dovecot: Dovecot, smtp_sink: SmtpSink) -> None:
    installation = Installation(tmp_path, imap=table(dovecot.port), smtp=table(smtp_sink.port))
    installation.password.write_text("not the password")
    before = dovecot.log().count("Password mismatch")
    found = installation.examine(offline=False)
    assert set(found) == {"login-refused", "smtp-not-tried"}
    assert "username and password" in found["login-refused"]["fix"]
    assert dovecot.log().count("Password mismatch") - before <= 1


LOGINS: list[tuple[str, str, str, str]] = [
    ("login-app-password", "IMAP4rev1 AUTH=PLAIN", "[ALERT] Application-specific password required", "app password"),
    ("login-imap-off", "IMAP4rev1 AUTH=PLAIN", "IMAP access is disabled for your domain", "switch it on"),
    ("login-oauth-only", "IMAP4rev1 LOGINDISABLED AUTH=XOAUTH2", "", "postmirror auth login"),
    ("login-needs-tls", "IMAP4rev1 LOGINDISABLED", "", "starttls"),
    ("login-throttled", "IMAP4rev1 AUTH=PLAIN", "[THROTTLED] later", "wait"),
]


@pytest.mark.parametrize(("name", "capability", "said", "fix"), LOGINS)
def test_a_login_that_is_refused_for_a_reason(tmp_path: Path, name: str, capability: str, said: str, fix: str) -> None:
    script = [("AUTHENTICATE", f"TAG NO {said}\r\n".encode())] if said else []
    with ScriptedImap(script, capability=capability) as server:
        found = Installation(tmp_path, imap=table(server.port)).examine(offline=False)
    assert set(found) == {name}
    assert fix in found[name]["fix"]


def test_a_token_where_only_passwords_are_taken(tmp_path: Path, dovecot: Dovecot) -> None:
    assert set(Installation(tmp_path, imap=table(dovecot.port), auth="oauth2").examine(offline=False)) == {
        "login-no-oauth"
    }


@pytest.mark.parametrize(("hours", "expected"), [(0, set()), (-3, {"clock"}), (3, {"clock"})])
def test_a_clock_that_differs_from_the_servers(tmp_path: Path, hours: int, expected: set[str]) -> None:
    greeting = f"mail.example.org at {format_datetime(datetime.now(UTC) + timedelta(hours=hours))}"
    script: list[tuple[str, bytes | None]] = [("LIST", b'* LIST () "/" INBOX\r\nTAG OK done\r\n')]
    with ScriptedImap(script, greeting=greeting) as server:
        assert set(Installation(tmp_path, imap=table(server.port)).examine(offline=False)) == expected


@pytest.fixture
def faulty(tmp_path: Path, dovecot: Dovecot) -> Iterator[tuple[Installation, FaultySmtp]]:
    with FaultySmtp() as smtp:
        yield Installation(tmp_path, imap=table(dovecot.port), smtp=table(smtp.port)), smtp


def test_a_login_that_submission_refuses(faulty: tuple[Installation, FaultySmtp]) -> None:
    installation, smtp = faulty
    smtp.misbehave("auth", "535")
    assert "smtp.username" in installation.examine(offline=False)["smtp-refused"]["fix"]


def test_a_port_without_login(faulty: tuple[Installation, FaultySmtp]) -> None:
    installation, smtp = faulty
    smtp.features = ("SIZE 50000000",)
    assert "465" in installation.examine(offline=False)["smtp-no-login"]["fix"]


def test_an_alias_that_may_not_send(faulty: tuple[Installation, FaultySmtp]) -> None:
    installation, smtp = faulty
    smtp.misbehave("mail", "553")
    found = installation.examine(offline=False)
    assert set(found) == {"smtp-sender"}
    assert "aliases" in found["smtp-sender"]["fix"]
    assert "RCPT" not in smtp.commands


def test_submission_that_nobody_offers(tmp_path: Path, dovecot: Dovecot) -> None:
    installation = Installation(tmp_path, imap=table(dovecot.port), smtp=table(free_port()))
    assert installation.examine(offline=False)["port-closed"]["about"] == "alice/work smtp"
