"""Signing in from the command line to a Dovecot that takes access tokens only, and mirroring with what came of it."""

import json
import re
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pexpect
import pytest

from tests.processes import until
from tests.server.door import Mail
from tests.server.setup.newcomer import Newcomer, entries
from tests.servers.authorization import CLIENT, AuthorizationServer
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.dovecot import Dovecot
from tests.servers.ports import HOST
from tests.servers.smtp import SmtpSink


class Signed:
    """A newcomer whose mail server and authorization server know each other."""

    def __init__(self, newcomer: Newcomer, authority: AuthorizationServer, dovecot: Dovecot) -> None:
        self.newcomer = newcomer
        self.authority = authority
        self.dovecot = dovecot

    def browse(self, url: str) -> None:
        """Go there as a browser does that trusts the provider."""
        context = ssl.create_default_context(cafile=self.newcomer.environment["SSL_CERT_FILE"])
        answer = httpx2.get(url, verify=context, follow_redirects=True)
        assert answer.is_success

    def doctor(self) -> dict[str, str]:
        """What doctor finds to mend, by the name of the fault."""
        found = json.loads(self.newcomer.run("doctor", "--json").stdout)
        return {each["name"]: each["fix"] for each in found["findings"] if each["state"] == "fail"}

    def status(self) -> dict[str, object]:
        """What status says of the sign-in."""
        found = json.loads(self.newcomer.run("status", "--json").stdout)["me/work"]["sign_in"]
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AuthorizationServer, Dovecot, Certificates]]:
    """A Dovecot that asks an authorization server, whose owner is alice."""
    certificates = make_certificates(tmp_path_factory.mktemp("authority"))
    folder = tmp_path_factory.mktemp("passdb")
    with AuthorizationServer(certificates, "alice") as authority:
        folder.parent.parent.chmod(0o755)
        folder.parent.chmod(0o755)
        folder.chmod(0o755)
        (folder / "oauth2.conf").write_text(authority.dovecot_passdb())
        with Dovecot(settings=authority.dovecot(str(folder))) as dovecot:
            dovecot.fill("alice", Mail("Lunch").raw, range(1, 6))
            yield authority, dovecot, certificates


@pytest.fixture
def signed(tmp_path: Path, servers: tuple[AuthorizationServer, Dovecot, Certificates]) -> Signed:
    """Configured, not signed in."""
    authority, dovecot, certificates = servers
    authority.owner, authority.answer, authority.life = "alice", None, 3_600
    newcomer = Newcomer(tmp_path)
    newcomer.environment["SSL_CERT_FILE"] = str(certificates.ca_file)
    newcomer.config.parent.mkdir(parents=True)
    assert dovecot.certificates is not None
    newcomer.config.write_text(
        f'[server]\nport = {newcomer.port}\ndata_dir = "{tmp_path}/data"\n'
        f'[users.me.providers.work]\naddress = "alice@example.org"\nusername = "alice"\noauth = {authority.toml}\n'
        f'imap = {{ host = "{HOST}", port = {dovecot.tls_port}, ca_file = "{dovecot.certificates.ca_file}" }}\n'
    )
    newcomer.config.chmod(0o600)
    return Signed(newcomer, authority, dovecot)


def url_of(terminal: "pexpect.spawn[str]") -> str:
    terminal.expect(re.compile(r"(https://\S+)\r\n"))
    assert terminal.match is not None
    return str(terminal.match[1])  # type: ignore[index]  # pexpect has found it


def test_by_the_browser_of_this_machine_and_mirrored_with_tokens_that_are_renewed(signed: Signed) -> None:
    newcomer = signed.newcomer
    before = newcomer.run("sync")
    assert before.returncode == 1
    assert "postmirror auth login me/work" in before.stdout + before.stderr
    assert signed.status()["state"] == "none"
    assert signed.doctor() == {"sign-in": "postmirror auth login me/work"}
    terminal = newcomer.on_a_terminal("auth", "login", "me/work", "--no-browser")
    url = url_of(terminal)
    assert "login_hint=alice%40example.org" in url
    signed.browse(url)
    terminal.expect("signed in to me/work; it is renewed by itself")
    terminal.expect(pexpect.EOF)
    assert signed.status()["state"] == "signed_in"
    assert signed.doctor() == {}
    assert newcomer.run("sync").returncode == 0
    signed.authority.expire()
    assert newcomer.run("sync").returncode == 0
    assert signed.authority.renewals == 1
    assert "signed in since" in newcomer.run("status").stdout


def test_a_sign_in_is_noticed_at_once_by_what_serves_already(signed: Signed) -> None:
    newcomer = signed.newcomer

    def mirrored() -> dict[str, Any]:
        found = json.loads(newcomer.run("status", "--json").stdout)["me/work"]
        assert isinstance(found, dict)
        return found

    with newcomer.serving():
        until(lambda: "auth login me/work" in (mirrored()["error"] or ""))
        terminal = newcomer.on_a_terminal("auth", "login", "me/work", "--no-browser")
        signed.browse(url_of(terminal))
        terminal.expect("signed in to me/work")
        until(lambda: any(folder["messages"] == 5 for folder in mirrored()["folders"]), 60)


def test_by_another_device(signed: Signed) -> None:
    terminal = signed.newcomer.on_a_terminal("auth", "login", "me/work", "--device")
    terminal.expect(re.compile(r"enter ([0-9A-F]+) and"))
    assert terminal.match is not None
    signed.authority.agreed_devices.add(str(terminal.match[1]))  # type: ignore[index]  # pexpect has found it
    terminal.expect("signed in to me/work")


def test_by_a_pasted_address(signed: Signed) -> None:
    terminal = signed.newcomer.on_a_terminal("auth", "login", "me/work", "--paste")
    url = url_of(terminal)
    context = ssl.create_default_context(cafile=signed.newcomer.environment["SSL_CERT_FILE"])
    ends_at = httpx2.get(url, verify=context).headers["location"]
    terminal.expect("address of the last page")
    terminal.sendline(ends_at)
    terminal.expect("signed in to me/work")


def test_an_address_of_another_sign_in_is_not_taken(signed: Signed) -> None:
    terminal = signed.newcomer.on_a_terminal("auth", "login", "me/work", "--paste")
    terminal.expect("address of the last page")
    terminal.sendline("http://127.0.0.1:1455/?code=stolen&state=guessed")
    terminal.expect("not signed in")
    terminal.expect(pexpect.EOF)
    assert signed.status()["state"] == "none"


def test_what_comes_to_the_port_without_our_state_is_not_listened_to(signed: Signed) -> None:
    terminal = signed.newcomer.on_a_terminal("auth", "login", "me/work", "--no-browser")
    url = url_of(terminal)
    back = re.search(r"redirect_uri=http%3A%2F%2F127.0.0.1%3A(\d+)", url)
    assert back is not None
    assert httpx2.get(f"http://{HOST}:{back[1]}/").status_code == 404
    httpx2.get(f"http://{HOST}:{back[1]}/?code=x&state=y")
    signed.browse(url)
    terminal.expect("signed in to me/work")


def test_somebody_else_who_signs_in_is_not_kept(signed: Signed) -> None:
    signed.authority.owner = "mallory"
    terminal = signed.newcomer.on_a_terminal("auth", "login", "me/work", "--no-browser")
    signed.browse(url_of(terminal))
    terminal.expect("does not let that account into the mailbox of alice@example.org")
    terminal.expect(pexpect.EOF)
    assert signed.status()["state"] == "none"


def test_signing_out_forgets(signed: Signed) -> None:
    terminal = signed.newcomer.on_a_terminal("auth", "login", "me/work", "--no-browser")
    browsing = threading.Thread(target=signed.browse, args=(url_of(terminal),))
    browsing.start()
    terminal.expect("signed in to me/work")
    browsing.join()
    assert signed.newcomer.run("auth", "logout", "me/work").returncode == 0
    assert signed.status()["state"] == "none"
    assert "nobody is signed in" in signed.newcomer.run("auth", "logout", "me/work").stderr


def test_a_newcomer_whose_provider_takes_no_passwords_comes_to_a_first_answer_and_sends(signed: Signed) -> None:
    newcomer, authority = signed.newcomer, signed.authority
    newcomer.config.unlink()
    certificates = signed.dovecot.certificates
    assert certificates is not None
    with SmtpSink("tls", certificates, require_auth=True, takes_token=authority.is_good) as sink:
        terminal = newcomer.on_a_terminal(
            *("init", "alice@example.org", "--username", "alice", "--ca-file", str(certificates.ca_file)),
            *("--imap", f"{HOST}:{signed.dovecot.tls_port}", "--smtp", f"{HOST}:{sink.port}", "--name", "work"),
            *("--oauth-client-id", CLIENT, "--oauth-authorization-url", f"{authority.url}/authorize"),
            *("--oauth-token-url", f"{authority.url}/token", "--oauth-scope", "imap", "--no-browser", *newcomer.here),
            *("--client", "json", "--yes"),
        )
        signed.browse(url_of(terminal))
        terminal.expect("about 5 messages")
        terminal.expect("lets us in too")
        terminal.expect(pexpect.EOF)
        assert isinstance(terminal.before, str)
        _, stdio = entries(terminal.before.replace("\r\n", "\n"))
        outbound = '\n[profiles.assistant.outbound]\nto_allow = ["*@example.org"]\n'
        newcomer.config.write_text(newcomer.config.read_text() + outbound)
        authority.expire()
        answer = newcomer.ask_over_stdio(stdio, "list_messages", folder="INBOX")
        assert len(answer["messages"]) == 5
        renewals = authority.renewals
        authority.expire()
        mail = {"from": "alice@example.org", "to": ["bob@example.org"], "subject": "Lunch", "body": "At noon?"}
        sent = newcomer.ask_over_stdio(stdio, "send_message", is_read=False, **mail)
        assert sent["message_id"]
        assert [each.recipients for each in sink.messages] == [("bob@example.org",)]
        assert authority.renewals == renewals + 1
