"""Generated mail is the same for the same seed, well formed, and as big and as mixed as it claims."""

import email.policy
from email.message import EmailMessage
from email.parser import BytesParser

import pytest

from bench.mail import date_of, generate


@pytest.fixture(scope="module")
def messages() -> list[bytes]:
    return list(generate(600, seed=1))


def parsed(message: bytes) -> EmailMessage:
    return BytesParser(EmailMessage, policy=email.policy.default).parsebytes(message)


def test_a_seed_gives_the_same_messages_however_many_are_asked_for(messages: list[bytes]) -> None:
    assert list(generate(20, seed=1)) == messages[:20]
    assert next(generate(1, seed=2)) != messages[0]


def test_messages_are_thirteen_kilobytes_on_average(messages: list[bytes]) -> None:
    assert 11_000 < sum(map(len, messages)) / len(messages) < 15_000


def test_messages_are_well_formed(messages: list[bytes]) -> None:
    for message in messages:
        lines = message.split(b"\r\n")
        assert not any(b"\n" in line or b"\r" in line for line in lines)
        assert max(map(len, lines)) <= 998
        assert not [part.defects for part in parsed(message).walk() if part.defects]


def test_messages_are_mixed(messages: list[bytes]) -> None:
    parts = [part for message in messages for part in parsed(message).walk()]
    assert {"text/plain", "text/html", "text/csv", "text/calendar", "image/png", "application/pdf"} <= {
        part.get_content_type() for part in parts
    }
    assert {"utf-8", "iso-8859-1", "koi8-r", "gb18030", "iso-2022-jp"} <= {part.get_content_charset() for part in parts}
    assert {"7bit", "8bit", "quoted-printable", "base64"} <= {part["Content-Transfer-Encoding"] for part in parts}
    assert len({part["References"] for part in parts}) > 100


def test_dates_rise_and_are_written_in_several_zones(messages: list[bytes]) -> None:
    dates = [date_of(message) for message in messages]
    assert dates == sorted(dates)
    assert len({date.utcoffset() for date in dates}) > 5
