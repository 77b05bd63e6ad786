"""The sample mailbox is varied, well formed and the same each time."""

import email.policy
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.parser import BytesParser

import pytest

from server.demo.letter import Letter
from server.demo.sample import sample_mailbox

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def letters() -> list[Letter]:
    return sample_mailbox(NOW)


def parsed(letter: Letter) -> EmailMessage:
    return BytesParser(EmailMessage, policy=email.policy.default).parsebytes(letter.raw())


def test_the_same_moment_gives_the_same_bytes(letters: list[Letter]) -> None:
    assert [letter.raw() for letter in sample_mailbox(NOW)] == [letter.raw() for letter in letters]
    assert [letter.raw() for letter in sample_mailbox(NOW, seed=2)] != [letter.raw() for letter in letters]


def test_mail_reaches_back_from_now_and_never_into_the_future(letters: list[Letter]) -> None:
    dates = [letter.date for letter in letters]
    assert dates == sorted(dates)
    assert NOW - timedelta(hours=1) < dates[-1] <= NOW
    assert dates[0] < NOW - timedelta(days=365)


def test_messages_are_well_formed(letters: list[Letter]) -> None:
    for letter in letters:
        assert not any(b"\n" in line or b"\r" in line for line in letter.raw().split(b"\r\n"))
        assert not [part.defects for part in parsed(letter).walk() if part.defects]
    assert len({letter.message_id for letter in letters}) == len(letters)


def test_there_is_something_of_everything(letters: list[Letter]) -> None:
    parts = [part for letter in letters for part in parsed(letter).walk()]
    assert len(letters) > 200
    assert {"INBOX", "Sent", "Drafts", "Junk", "Trash", "Archive/Invoices", "Ausflüge"} <= {x.folder for x in letters}
    assert {"\\Seen", "\\Flagged", "\\Answered", "\\Draft"} == {flag for letter in letters for flag in letter.flags}
    assert {"text/html", "text/csv", "text/calendar", "image/png", "application/pdf"} <= {
        part.get_content_type() for part in parts
    }
    assert {"koi8-r", "iso-2022-jp", "gb18030", "iso-8859-7", "windows-1252", "utf-8"} <= {
        part.get_content_charset() for part in parts
    }


def test_two_messages_try_to_give_orders(letters: list[Letter]) -> None:
    [visible] = [letter for letter in letters if "ignore all previous instructions" in letter.text]
    [hidden] = [letter for letter in letters if "ignore your previous instructions" in letter.html]
    assert visible.folder == hidden.folder == "INBOX"
    assert "SYSTEM:" in hidden.html
    assert "SYSTEM:" not in hidden.text
