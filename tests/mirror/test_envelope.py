"""Addresses, dates and subjects of envelopes."""

import pytest

from mirror.content import base_subject, read_envelope
from mirror.mail.addresses import read_addresses
from mirror.mail.dates import read_date


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        ("a@example.org", [("", "a@example.org")]),
        ("Ann <a@example.org>", [("Ann", "a@example.org")]),
        ('"Doe, Ann" <a@example.org>, b@example.org', [("Doe, Ann", "a@example.org"), ("", "b@example.org")]),
        ("a@example.org (Ann)", [("Ann", "a@example.org")]),
        ("Team: a@example.org, B <b@example.org>;", [("", "a@example.org"), ("B", "b@example.org")]),
        ("undisclosed-recipients:;", []),
        ("=?utf-8?Q?Doe=2C_Ann_=3Cx=40evil=3E?= <a@example.org>", [("Doe, Ann <x@evil>", "a@example.org")]),
        ('"very.(odd)"@example.org', [("", '"very.(odd)"@example.org')]),
        ("Ann <@relay.example:a@example.org>", [("Ann", "a@example.org")]),
        ("a @ example . org", [("", "a@example.org")]),
        ("Ann <a@exam\tple.org>", [("Ann", "a@example.org")]),
        ("Ann <a@example.org", [("Ann <", "a@example.org")]),
        ("Bob <bob@x> Bobby <bobby@x>", [("Bob Bobby", "bob@x"), ("", "bobby@x")]),
        ("NO", [("NO", "")]),
        ("", []),
        (",,;,", []),
    ],
)
def test_addresses(value: str, addresses: list[tuple[str, str]]) -> None:
    assert read_addresses(value) == addresses


@pytest.mark.parametrize(
    ("header", "first"),
    [
        (b'From: "A", b <c@d.example>', "c@d.example"),
        (b"From\n : <x@d.example>", "x@d.example"),
        (b'From: "S" <v@good.example>:<a@evil.example>', "v@good.example"),
        (b"From: <any@attack.example>\nFrom: <admin@legitimate.example>", "any@attack.example"),
    ],
)
def test_odd_senders_show_a_real_address_first(header: bytes, first: str) -> None:
    assert read_envelope(header + b"\n\n").from_[0].address == first


def test_every_address_of_a_forged_sender_is_kept_and_flagged() -> None:
    envelope = read_envelope(b'From: "S" <v@good.example>:<a@evil.example>\n\n')

    assert [address.address for address in envelope.from_] == ["v@good.example", "a@evil.example"]
    assert envelope.findings == {"several_senders": 1}


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("Fri, 21 Nov 1997 09:55:06 -0600", "1997-11-21T09:55:06-06:00"),
        ("13 Feb 22 00:04 EST", "2022-02-13T00:04:00-05:00"),
        ("Mon, 1 Jul 2003 10:52:37 +0200", "2003-07-01T10:52:37+02:00"),
        ("1 Jul 2003 ((a) comment) 10:52:37 +0200 (CEST)", "2003-07-01T10:52:37+02:00"),
        ("Tue Jul  1 10:52:37 2003", "2003-07-01T10:52:37+00:00"),
        ("July 1, 2003 1:05 PM", "2003-07-01T13:05:00+00:00"),
        ("1-Jul-2003 12:05:00 AM +0100", "2003-07-01T00:05:00+01:00"),
        ("1 Jul 103 10:52:37 GMT", "2003-07-01T10:52:37+00:00"),
        ("Thu, 1 Jan 0024 10:00:00 +0000", "2024-01-01T10:00:00+00:00"),
        ("2003-07-01T10:52:37Z", "2003-07-01T10:52:37+00:00"),
        ("2003-07-01 10:52:37 +0530", "2003-07-01T10:52:37+05:30"),
        ("31 Dec 2016 23:59:60 +0000", "2016-12-31T23:59:59+00:00"),
        ("1 Jul 2003 10.52.37 +0200", "2003-07-01T10:52:37+02:00"),
        ("1 Jul 2003 10:52 GMT+1", "2003-07-01T10:52:00+01:00"),
        ("Tue, 029 Apr 2019 23:34:45 -0800", "2019-04-29T23:34:45-08:00"),
        ("29-04-2017 23:34", "2017-04-29T23:34:00+00:00"),
        ("1 Jul 2003 10:52:37 +9999", "2003-07-01T10:52:37+00:00"),
    ],
)
def test_dates(value: str, moment: str) -> None:
    date = read_date(value)

    assert date is not None
    assert date.isoformat() == moment


@pytest.mark.parametrize(
    "value",
    [
        "",
        "garbage",
        "0",
        "32 Jul 2003 10:00",
        "1 Zzz 2003 10:00",
        "Tue, 7 00 2026",
        "1 Jul 99999 10:00",
        "Tue, 13 Feb 100000 10:00:00 +0000",
        "Tue, 13 Feb 3609 10:00:00 +0000",
        "now",
        "1 Jul 1200",
    ],
)
def test_unreadable_dates_are_none_never_a_made_up_moment(value: str) -> None:
    assert read_date(value) is None
    assert read_envelope(f"Date: {value}\n\n".encode()).date is None


@pytest.mark.parametrize(
    ("subject", "base"),
    [
        ("Re: Lunch", "Lunch"),
        ("RE: re: Fwd: FW: Lunch (fwd)", "Lunch"),
        ("[list] Re: [list] Lunch", "Lunch"),
        ("Re[2]: Lunch", "Lunch"),
        ("[Fwd: Lunch]", "Lunch"),
        ("[fwd: Re: Lunch (fwd)]", "Lunch"),
        ("[only a label]", "[only a label]"),
        ("Regarding: Lunch", "Regarding: Lunch"),
        ("Re:", ""),
        ("", ""),
        ("  a \t b  ", "a b"),
    ],
)
def test_base_subject(subject: str, base: str) -> None:
    assert base_subject(subject) == base
