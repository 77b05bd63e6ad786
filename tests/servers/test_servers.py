"""The servers that other tests stand on behave as those tests expect."""

import imaplib
import smtplib
import ssl
from datetime import UTC, datetime

import pytest

from tests.servers.certificates import Certificates
from tests.servers.courier import Courier
from tests.servers.cyrus import Cyrus
from tests.servers.dovecot import Dovecot
from tests.servers.pymap import Pymap
from tests.servers.second_client import Incoming, SecondClient
from tests.servers.smtp import SmtpSink

HELLO = b"From: bob@example.org\r\nTo: alice@example.org\r\nSubject: hello\r\n\r\nHello.\r\n"


def change_everything(client: SecondClient, prefix: str = "") -> None:
    """One of each change a mail program makes, checked by what it lists afterwards."""
    name = f"{prefix}日本"
    first, second, third = client.append("INBOX", HELLO, Incoming(HELLO, ("\\Flagged",)), HELLO)
    client.create(f"{prefix}Projekte & Co")
    client.rename(f"{prefix}Projekte & Co", name)
    client.add_flags("INBOX", [first, second], "\\Seen")
    client.remove_flags("INBOX", [second], "\\Flagged")
    client.expunge("INBOX", [first])
    client.move("INBOX", [third], name)
    assert {"INBOX", name} <= client.folders().keys()
    assert [(message.uid, message.flags) for message in client.listing("INBOX")] == [(second, frozenset({"\\Seen"}))]
    assert [message.flags for message in client.listing(name)] == [frozenset()]
    assert client.raw("INBOX", second) == HELLO


def test_dovecot_is_changed_by_a_second_client(dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        change_everything(client)
        assert {"CONDSTORE", "QRESYNC", "LIST-STATUS"} <= set(client.imap.capability()[1][0].decode().split())


def test_pymap_is_changed_by_a_second_client(pymap_server: Pymap) -> None:
    with pymap_server.client() as client:
        change_everything(client)


@pytest.mark.soak
@pytest.mark.parametrize("server", ["cyrus", "courier"])
def test_the_other_servers_are_changed_by_a_second_client(
    request: pytest.FixtureRequest, server: str, user: str
) -> None:
    other: Cyrus | Courier = request.getfixturevalue(server)
    with other.client(user) as client:
        change_everything(client, other.prefix)
        assert client.can("QRESYNC") == (server == "cyrus")


def test_dovecot_keeps_uids_over_restart_and_kill(dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        date = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
        client.append("INBOX", *[Incoming(HELLO, ("\\Seen", "$Label1"), date)] * 3)
        before = client.status("INBOX"), client.listing("INBOX")
        dovecot.restart()
        with pytest.raises(imaplib.IMAP4.abort):
            client.status("INBOX")
    dovecot.kill()
    dovecot.start()
    with dovecot.client(user) as client:
        assert (client.status("INBOX"), client.listing("INBOX")) == before


def test_dovecot_offers_no_extension_on_the_plain_rung(dovecot_plain_rung: Dovecot, user: str) -> None:
    with dovecot_plain_rung.client(user) as client:
        assert set(client.imap.capability()[1]) == {b"IMAP4rev1"}


def test_dovecot_speaks_tls_that_verifies(dovecot: Dovecot, user: str) -> None:
    assert dovecot.certificates
    context = ssl.create_default_context(cafile=dovecot.certificates.ca_file)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with imaplib.IMAP4_SSL("localhost", dovecot.tls_port, ssl_context=context, timeout=10) as client:
        client.login(user, dovecot.password)
    with imaplib.IMAP4("localhost", dovecot.port, timeout=10) as client:
        client.starttls(context)
        with pytest.raises(imaplib.IMAP4.error, match="AUTHENTICATIONFAILED"):
            client.login(user, "wrong")


def test_a_provider_is_configured_for_a_mailbox(dovecot: Dovecot, smtp_sink: SmtpSink, user: str) -> None:
    provider = dovecot.provider(user, tls=True, smtp=smtp_sink.endpoint())
    username, password = provider.login(provider.imap)
    assert password
    context = ssl.create_default_context(cafile=provider.imap.ca_file)
    with imaplib.IMAP4_SSL(provider.imap.host, provider.imap.port, ssl_context=context, timeout=10) as client:
        client.login(username, password.read())
    assert (provider.smtp, provider.address) == (smtp_sink.endpoint(), f"{user}@example.org")


def test_smtp_sink_keeps_what_it_takes(smtp_sink: SmtpSink) -> None:
    with smtplib.SMTP(smtp_sink.host, smtp_sink.port, timeout=10) as client:
        client.sendmail("bob@example.org", ["alice@example.org", "carol@example.org"], HELLO)
    [message] = smtp_sink.wait_for(1)
    assert (message.sender, message.recipients) == ("bob@example.org", ("alice@example.org", "carol@example.org"))
    assert (message.raw, message.tls) == (HELLO, False)
    assert smtp_sink.commands == ["MAIL", "RCPT", "RCPT", "DATA", "QUIT"]


@pytest.mark.parametrize(
    ("recipient", "error", "kept"),
    [
        ("rcpt-450@example.org", smtplib.SMTPRecipientsRefused, 0),
        ("rcpt-550@example.org", smtplib.SMTPRecipientsRefused, 0),
        ("data-451@example.org", smtplib.SMTPDataError, 0),
        ("hangup@example.org", smtplib.SMTPServerDisconnected, 1),
        ("stall@example.org", smtplib.SMTPServerDisconnected, 1),
    ],
)
def test_smtp_sink_fails_for_recipients_that_ask_for_it(
    smtp_sink: SmtpSink, recipient: str, error: type[Exception], kept: int
) -> None:
    client = smtplib.SMTP(smtp_sink.host, smtp_sink.port, timeout=1)
    with pytest.raises(error):
        client.sendmail("bob@example.org", [recipient], HELLO)
    client.close()
    assert len(smtp_sink.messages) == kept


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_smtp_sink_speaks_tls_and_wants_a_login(certificates: Certificates, security: str) -> None:
    context = ssl.create_default_context(cafile=certificates.ca_file)
    with SmtpSink("tls" if security == "tls" else "starttls", certificates, require_auth=True) as sink:
        client = (
            smtplib.SMTP_SSL("localhost", sink.port, timeout=10, context=context)
            if security == "tls"
            else smtplib.SMTP("localhost", sink.port, timeout=10)
        )
        with client:
            if security == "starttls":
                client.starttls(context=context)
            with pytest.raises(smtplib.SMTPSenderRefused):
                client.sendmail("bob@example.org", ["alice@example.org"], HELLO)
            with pytest.raises(smtplib.SMTPAuthenticationError):
                client.login("alice", "wrong")
            client.login("alice", sink.password)
            client.sendmail("bob@example.org", ["alice@example.org"], HELLO)
        assert [message.tls for message in sink.messages] == [True]
