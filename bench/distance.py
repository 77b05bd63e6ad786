"""A first sync over a long way: a proxy that delays every octet, so that a round trip takes 50 ms."""

import json
import statistics
from pathlib import Path

from bench.figures import Figure, Section
from bench.installation import Installation, Mailbox
from tests.servers.dovecot import Dovecot
from tests.servers.proxy import Proxy
from tests.servers.second_client import Incoming

ROUND_TRIP = 0.05
_SIZE = 4_000
_APPENDED_AT_ONCE = 100


def fill_small(dovecot: Dovecot, login: str, wanted: int) -> Mailbox:
    """A mailbox of plain messages of 4 KB."""
    line = "The quick brown fox jumps over the lazy dog, and number {} of the hounds sleeps on.\r\n"
    with dovecot.client(login) as client:
        for start in range(0, wanted, _APPENDED_AT_ONCE):
            numbers = range(start, min(wanted, start + _APPENDED_AT_ONCE))
            client.append("INBOX", *(Incoming(_mail(number, line), ("\\Seen",)) for number in numbers))
    return Mailbox(dovecot, login, wanted, wanted * _SIZE, "plain messages of 4 KB", 1)


def _mail(number: int, line: str) -> bytes:
    head = (
        f"From: sender{number % 50}@example.com\r\nTo: alice@example.org\r\nSubject: Small mail {number}\r\n"
        f"Message-ID: <{number}@small.example>\r\n\r\n"
    )
    text = "".join(line.format(number * 50 + each) for each in range(_SIZE // len(line)))
    return (head + text).encode("ascii")


def over_distance(mailbox: Mailbox, folder: Path, runs: int) -> Section:
    """Messages a second through the proxy."""
    rates, listed = [], []
    for number in range(runs):
        with Proxy(mailbox.dovecot.port, delay=ROUND_TRIP / 2) as proxy:
            installation = Installation(folder / f"distance-{number}", mailbox, imap_port=proxy.port)
            summary = json.loads(installation.postmirror("sync", "--json"))
            rates.append(mailbox.messages / summary["searchable_s"])
            listed.append(proxy.connections)
    figures = (
        Figure("messages of 4 KB, searchable", statistics.median(rates), "/s", min(rates)),
        Figure("connections opened", statistics.median(listed), ""),
    )
    return Section(f"First sync at {ROUND_TRIP * 1_000:.0f} ms round trip", ("median", "slowest"), figures)
