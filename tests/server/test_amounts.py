"""How amounts are told."""

import re
from pathlib import Path

import pytest

from server.amounts import counted, lasting, octets

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (counted(0, "token"), "0 tokens"),
        (counted(1, "token"), "1 token"),
        (counted(20_000, "message"), "20,000 messages"),
        (counted(1, "mailbox", "mailboxes"), "1 mailbox"),
        (counted(2, "mailbox", "mailboxes"), "2 mailboxes"),
        (octets(1), "1 byte"),
        (octets(999), "999 bytes"),
        (octets(2_500_000), "2.5 MB"),
        (lasting(1), "a few seconds"),
        (lasting(30), "less than a minute"),
        (lasting(70), "about a minute"),
        (lasting(150), "about 2 minutes"),
        (lasting(5_300), "about 88 minutes"),
        (lasting(5_400), "about 2 hours"),
        (lasting(40 * 3_600), "about 2 days"),
    ],
)
def test_an_amount_is_told_in_words(told: str, expected: str) -> None:
    assert told == expected


def test_nothing_is_counted_in_another_way() -> None:
    """A number before a plural in the text of a command is right for every number but one."""
    plural = re.compile(
        r"\{[^{}]*\} (?:sender addres|mailbox|profile|token|folder|message|file|line|day|server|problem)e?s\b"
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "server").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if plural.search(line) and "raise" not in line
    ]
    assert found == []
