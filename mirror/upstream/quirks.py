"""What known servers need beyond the RFCs: the one table, each line with its source."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quirk:
    """What is done otherwise with one kind of server.

    host, greeting: patterns, the first that matches decides. without: capabilities it announces and breaks. set_octets:
    longest UID set in a command. fetches: how many FETCHes may be in flight. daily_bytes: mail it lets an account fetch
    in a day, 0 for no known limit. tells_mailbox_id: whether STATUS may be asked for MAILBOXID where OBJECTID is there.
    """

    name: str
    source: str = ""
    host: str = ""
    greeting: str = ""
    without: frozenset[str] = frozenset()
    set_octets: int = 8_000
    fetches: int = 2
    daily_bytes: int = 0
    tells_mailbox_id: bool = True


PLAIN = Quirk("standard")

QUIRKS: Sequence[Quirk] = (
    Quirk(
        "gmail",
        source="https://support.google.com/a/answer/1071518: 2,500 MB a day by IMAP, 15 connections an account",
        host=r"(^|\.)(gmail|googlemail|google)\.com$",
        greeting=r"Gimap ready",
        daily_bytes=2_200_000_000,
    ),
    Quirk(
        "outlook",
        source='Exchange throttling policies: commands under way are limited; it says "Suggested Backoff Time"',
        host=r"(^|\.)(outlook|office365|hotmail|live)\.com$",
        greeting=r"Microsoft Exchange",
        fetches=1,
    ),
    Quirk(
        "yahoo",
        source="RFC 2683 3.2.1.5: command lines of 1,000 octets are what every server takes",
        host=r"(^|\.)(yahoo|aol|ymail)\.[a-z.]+$",
        set_octets=1_000,
        fetches=1,
    ),
    Quirk(
        "icloud",
        source="ENABLE answers OK without ENABLED; its proxy garbles CAPABILITY before the login (tried)",
        host=r"(^|\.)(mail\.me|icloud)\.com$",
    ),
    Quirk(
        "cyrus",
        source="Cyrus 3.6.1: MAILBOXID in STATUS is memory it never wrote, line ends included (tried)",
        greeting=r"Cyrus IMAP",
        tells_mailbox_id=False,
    ),
    Quirk(
        "courier",
        source="Courier 5.0.13: no UIDNEXT before SELECT (tried)",
        greeting=r"Courier-IMAP",
    ),
    Quirk(
        "pymap",
        source="pymap 0.36.7: one command at a time (tried)",
        greeting=r"pymap",
        fetches=1,
    ),
)


def quirk_of(host: str, greeting: bytes | None) -> Quirk:
    """The quirks of a server, known by its host name or else by its greeting."""
    said = (greeting or b"").decode("utf-8", "replace")
    for quirk in QUIRKS:
        if quirk.host and re.search(quirk.host, host, re.IGNORECASE):
            return quirk
    for quirk in QUIRKS:
        if quirk.greeting and re.search(quirk.greeting, said, re.IGNORECASE):
            return quirk
    return PLAIN
