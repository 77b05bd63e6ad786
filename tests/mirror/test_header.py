"""Header blocks as they arrive, damaged ones included."""

from pathlib import Path

import pytest

from mirror.content import read_content, read_envelope
from mirror.mail.header import read_block, unfolded

MESSAGES = Path(__file__).parent.parent / "messages"


@pytest.mark.parametrize(
    ("name", "subject", "junk"),
    [
        ("unfolded-header-line", "Unfolded", 1),
        ("blank-before-colon", "Blank", 0),
        ("nul-in-header", "Nul", 1),
        ("header-name-and-colon-on-two-lines", "Split", 0),
    ],
)
def test_damaged_block_keeps_sender_and_subject(name: str, subject: str, junk: int) -> None:
    content = read_content((MESSAGES / f"{name}.eml").read_bytes())

    assert content.envelope.subject == subject
    assert [address.address for address in content.envelope.from_] == ["sam@example.org"]
    assert content.text.strip() == "body"
    assert content.findings.get("junk_header_lines", 0) == junk


def test_body_may_start_without_a_blank_line() -> None:
    content = read_content((MESSAGES / "body-without-blank-line.eml").read_bytes())

    assert content.envelope.subject == "Glued"
    assert content.text.splitlines() == ["This is already the body.", "Second line."]


def test_line_of_blanks_ends_the_block_before_a_body() -> None:
    assert read_content(b"Subject: a\n \t\nbody: not a field\n").text.strip() == "body: not a field"


def test_line_of_blanks_continues_a_field_before_more_of_it() -> None:
    envelope = read_envelope(b"From: Mary Smith\n    \n\t<mary@example.net>\nSubject: b\n\n")

    assert [(a.name, a.address) for a in envelope.from_] == [("Mary Smith", "mary@example.net")]
    assert envelope.subject == "b"


def test_text_without_any_header_is_a_body() -> None:
    assert read_content(b"Just a note.\n\nBye\n").text.splitlines() == ["Just a note.", "", "Bye"]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r\r\n", b"\r"])
def test_every_line_end_is_read(line_end: bytes) -> None:
    raw = line_end.join([b"From: a@example.org", b"Subject: one", b" two", b"", b"body", b""])
    content = read_content(raw)

    assert content.envelope.subject == "one two"
    assert content.text.strip() == "body"


def test_sender_below_a_giant_field_is_found() -> None:
    envelope = read_envelope(b"Subject: " + b"x" * 1_000_000 + b"\nFrom: a@example.org\n\n")

    assert len(envelope.subject) == 1_000
    assert envelope.from_[0].address == "a@example.org"
    assert envelope.findings == {"truncated_headers": 1, "truncated_subject": 1}


def test_block_knows_where_the_body_starts() -> None:
    raw = b"A: b\r\n\r\nbody"
    block = read_block(raw, 0, len(raw))

    assert raw[block.end :] == b"body"
    assert [(field.name, field.value) for field in block.fields] == [("A", b"b")]


def test_raw_bytes_are_read_by_the_hint_when_they_are_no_utf_8() -> None:
    assert unfolded("Grüße".encode()) == "Grüße"
    assert unfolded("Grüße".encode("cp1252")) == "Grüße"
    assert unfolded("Привет".encode("koi8-r"), "koi8-r") == "Привет"
