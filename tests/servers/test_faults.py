"""The proxy and the scripted server misbehave exactly as they are told."""

import imaplib
import socket
import time

import pytest

from tests.servers.dovecot import Dovecot
from tests.servers.ports import HOST
from tests.servers.proxy import Fault, Proxy
from tests.servers.scripted import ScriptedImap
from tests.servers.second_client import SecondClient

HELLO = b"Subject: hello\r\n\r\n" + b"0123456789\r\n" * 40_000


def received(port: int) -> bytes:
    """What a server says to a client that only listens, until it hangs up."""
    with socket.create_connection((HOST, port), timeout=1) as connection:
        said = b""
        while chunk := connection.recv(65_536):
            said += chunk
        return said


def test_the_proxy_carries_every_byte(dovecot: Dovecot, user: str) -> None:
    with Proxy(dovecot.port) as proxy, SecondClient(proxy.port, user, dovecot.password) as client:
        [uid] = client.append("INBOX", HELLO)
        assert client.raw("INBOX", uid) == HELLO
        assert proxy.carried > len(HELLO)


def test_the_proxy_delays_without_limiting(dovecot: Dovecot, user: str) -> None:
    with Proxy(dovecot.port) as proxy, SecondClient(proxy.port, user, dovecot.password) as client:
        [uid] = client.append("INBOX", HELLO)
        client.examine("INBOX")
        proxy.delay = 0.1
        begin = time.monotonic()
        client.imap.uid("FETCH", str(uid), "BODY.PEEK[]")
        assert 0.2 <= time.monotonic() - begin < 1.0


def test_the_proxy_cuts_after_a_byte_and_then_works_again(dovecot: Dovecot) -> None:
    with Proxy(dovecot.port) as proxy:
        proxy.fault = Fault("close", after=7)
        assert len(received(proxy.port)) == 7
        assert proxy.fault is None
        assert imaplib.IMAP4(HOST, proxy.port, timeout=1).shutdown() is None
        assert proxy.connections == 2


def test_the_proxy_resets_and_stalls(dovecot: Dovecot) -> None:
    with Proxy(dovecot.port) as proxy:
        proxy.fault = Fault("reset", after=0)
        with pytest.raises(ConnectionResetError):
            received(proxy.port)
        proxy.fault = Fault("stall", after=7)
        with pytest.raises(TimeoutError):
            received(proxy.port)


def test_the_proxy_halves_what_a_client_says(dovecot: Dovecot) -> None:
    with Proxy(dovecot.port) as proxy:
        proxy.fault = Fault("half", after=0)
        with pytest.raises(imaplib.IMAP4.abort):
            imaplib.IMAP4(HOST, proxy.port, timeout=5)
        client = imaplib.IMAP4(HOST, proxy.port, timeout=5)
        assert client.noop()[0] == "OK"
        client.shutdown()


def test_the_proxy_tells_what_both_sides_say(dovecot: Dovecot) -> None:
    said: list[tuple[str, bytes]] = []
    with Proxy(
        dovecot.port,
        heard=lambda words: said.append(("server", words)),
        asked=lambda words: said.append(("client", words)),
    ) as proxy:
        client = imaplib.IMAP4(HOST, proxy.port, timeout=5)
        assert client.noop()[0] == "OK"
        client.shutdown()
    assert [who for who, words in said if words] == ["server", "client", "server", "client", "server"]
    assert b"NOOP" in said[3][1]


def test_a_proxy_that_ends_while_somebody_is_connected_says_nothing(
    dovecot: Dovecot, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(dovecot.port) as proxy:
        client = imaplib.IMAP4(HOST, proxy.port, timeout=5)
    client.shutdown()
    assert [record.getMessage() for record in caplog.records] == []


def test_a_proxy_without_a_server_hangs_up(dovecot: Dovecot) -> None:
    with Proxy(dovecot.port) as proxy:
        dovecot.stop()
        assert received(proxy.port) == b""


def test_the_scripted_server_follows_its_script() -> None:
    fetched = b"* 1 FETCH (UID 7 BODY[] {3}\r\nabc)\r\nTAG OK done\r\n"
    script = [("EXAMINE INBOX", b"* 1 EXISTS\r\nTAG OK done\r\n"), ("UID FETCH 7", fetched), ("UID FETCH 8", None)]
    with ScriptedImap(script) as server:
        client = imaplib.IMAP4(HOST, server.port, timeout=5)
        client.authenticate("PLAIN", lambda _: b"\0alice\0secret")
        assert client.select("INBOX", readonly=True) == ("OK", [b"1"])
        assert client.uid("FETCH", "7", "BODY.PEEK[]")[1][0] == (b"1 (UID 7 BODY[] {3}", b"abc")
        with pytest.raises(imaplib.IMAP4.error, match="not in the script"):
            client.create("Archive")
        with pytest.raises(imaplib.IMAP4.abort):
            client.uid("FETCH", "8", "BODY.PEEK[]")
        client.shutdown()
    assert server.unexpected == ["CREATE Archive"]
