"""Where the mail servers of an address are found."""

import pytest

from config.known import known_providers
from config.settings import presets
from server.setup.dns import Dns
from server.setup.finding import ProviderUnknown, find, named
from tests.servers.dns import NameServer

ZONE = {
    ("workspace.example", "MX"): ("10 aspmx2.googlemail.com.", "1 aspmx.l.google.com."),
    ("hosted.example", "MX"): ("0 hosted-example.mail.protection.outlook.com.",),
    ("own.example", "MX"): ("5 mx.own.example.",),
    ("_imaps._tcp.own.example", "SRV"): ("10 1 993 backup.own.example.", "0 1 9993 mail.own.example."),
    ("_submissions._tcp.own.example", "SRV"): ("0 0 0 .",),
    ("_submission._tcp.own.example", "SRV"): ("0 1 587 mail.own.example.",),
    ("_imap._tcp.elsewhere.example", "SRV"): ("0 1 143 mail.stranger.example.",),
    ("_imaps._tcp.none.example", "SRV"): ("0 0 0 .",),
}


def test_addresses_of_known_domains_need_no_dns() -> None:
    with NameServer({}) as server:
        found = find("Me@WEB.DE", Dns(server.resolver()))
    assert found is not None
    assert (found.imap["host"], found.username, found.is_sure) == ("imap.web.de", "Me", True)


@pytest.mark.parametrize(("domain", "preset"), [("workspace.example", "gmail"), ("hosted.example", "microsoft365")])
def test_the_host_of_a_domain_is_known_by_its_mail_exchanger(domain: str, preset: str) -> None:
    with NameServer(ZONE) as server:
        found = find(f"me@{domain}", Dns(server.resolver()))
    assert found is not None
    assert found.preset == preset
    assert not found.is_sure


def test_srv_names_give_the_preferred_server_and_its_security() -> None:
    with NameServer(ZONE) as server:
        found = find("me@own.example", Dns(server.resolver()))
    assert found is not None
    assert found.imap == {"host": "mail.own.example", "port": 9993, "security": "tls"}
    assert found.smtp == {"host": "mail.own.example", "port": 587, "security": "starttls"}
    assert found.is_sure


def test_a_server_outside_the_domain_is_to_be_agreed_to() -> None:
    with NameServer(ZONE) as server:
        found = find("me@elsewhere.example", Dns(server.resolver()))
    assert found is not None
    assert not found.is_sure
    assert found.smtp is None


@pytest.mark.parametrize("domain", ["none.example", "unknown.example"])
def test_a_domain_that_says_nothing_is_unknown(domain: str) -> None:
    with NameServer(ZONE) as server:
        assert find(f"me@{domain}", Dns(server.resolver())) is None


def test_a_provider_can_be_named() -> None:
    assert named("fastmail", "me@own.example").preset == "fastmail"
    with pytest.raises(ProviderUnknown, match="posteo"):
        named("fastmale", "me@own.example")


def test_every_known_provider_is_whole() -> None:
    names = [each.name for each in known_providers()]
    domains = [domain for each in known_providers() for domain in each.domains]
    assert len(set(names)) == len(names)
    assert len(set(domains)) == len(domains)
    assert {each.preset for each in known_providers()} - {""} == set(presets()) - {"generic"}
    for each in known_providers():
        assert each.domains or each.mx, each.name
        for server in (each.imap, each.smtp):
            assert set(server) == {"host", "port", "security"}, each.name
        if each.credential != "password":
            assert each.where, each.name
