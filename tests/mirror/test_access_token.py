"""Logging in over IMAP with an OAuth 2 access token."""

import pytest

from config.provider import Endpoint, Provider
from config.secret import SecretSource
from mirror.errors import AuthenticationRefused
from mirror.upstream import Upstream
from tests.servers.ports import HOST
from tests.servers.scripted import ScriptedImap


def provider(server: ScriptedImap, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """An account with a token."""
    monkeypatch.setenv("POSTMIRROR_TEST_TOKEN", "to.k-en")
    imap = Endpoint(host=HOST, port=server.port, security="plain")
    password = SecretSource(env="POSTMIRROR_TEST_TOKEN")
    return Provider(address="alice@example.org", auth="oauth2", password=password, imap=imap)


@pytest.mark.parametrize(
    ("capability", "said"),
    [
        ("IMAP4rev1 AUTH=PLAIN AUTH=XOAUTH2", b"user=alice@example.org\x01auth=Bearer to.k-en\x01\x01"),
        ("IMAP4rev1 AUTH=XOAUTH2 AUTH=OAUTHBEARER", b"n,a=alice@example.org,\x01auth=Bearer to.k-en\x01\x01"),
    ],
)
def test_a_token_is_presented_by_what_the_server_offers(
    monkeypatch: pytest.MonkeyPatch, capability: str, said: bytes
) -> None:
    with ScriptedImap([], capability=capability) as server:
        Upstream.connect(provider(server, monkeypatch)).close()
    assert server.responses == [said]
    assert not any("LOGIN" in command for command in server.commands)


def test_a_token_is_never_sent_as_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        ScriptedImap([], capability="IMAP4rev1 AUTH=PLAIN") as server,
        pytest.raises(AuthenticationRefused, match="access token"),
    ):
        Upstream.connect(provider(server, monkeypatch))
    assert "to.k-en" not in " ".join(server.commands)
    assert server.responses == []


def test_a_refused_token_is_a_refused_login(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        ScriptedImap([("AUTHENTICATE", b"TAG NO invalid token\r\n")], capability="IMAP4rev1 AUTH=XOAUTH2") as server,
        pytest.raises(AuthenticationRefused),
    ):
        Upstream.connect(provider(server, monkeypatch))
