"""Parts, bodies and attachments of messages with one quirk each."""

from pathlib import Path

import pytest

from mirror.content import read_content
from mirror.message import read_message
from tests.mirror.mail import multipart

MESSAGES = Path(__file__).parent.parent / "messages"


def raw(name: str) -> bytes:
    return (MESSAGES / f"{name}.eml").read_bytes()


@pytest.mark.parametrize(
    ("name", "subject", "text"),
    [
        ("charset-windows-874", "สวัสดี", "สวัสดีครับ"),
        ("charset-iso-8859-8-i-quoted-printable", "שלום", "שלום עולם"),
        ("charset-bogus", "Bogus", "Grüße"),
        ("charset-missing-with-byte-80", "Euro", "5 € each"),
        ("charset-gb2312-with-gb18030-bytes", "镕", "朱镕基 €"),
        ("charset-empty", "Empty", "déjà vu"),
        ("charset-iso-2022-jp-with-circled-digits", "①会議", "①番"),
        ("charset-utf-7", "Seven", "Hi Mom -☺-!"),
        ("charset-of-meta-in-base64-html", "Meta", "Привет"),
        ("charset-says-utf-8-is-cp1252", "Café", "Café déjà"),
    ],
)
def test_charsets_are_read_whatever_the_label(name: str, subject: str, text: str) -> None:
    content = read_content(raw(name))

    assert content.envelope.subject == subject
    assert content.text.strip() == text


def test_raw_8_bit_subject_is_read_by_the_charset_of_the_body() -> None:
    assert read_content(raw("subject-raw-koi8-r")).envelope.subject == "Re: Привет"


def test_html_in_related_in_alternative_is_the_body_and_its_image_is_inline() -> None:
    content = read_content(raw("alternative-related-inline-image"))

    assert content.text == "Hello in HTML"
    [image] = content.attachments
    assert (image.part, image.inline, image.content_id, image.filename) == ("2.2", True, "logo@x", "attachment-1.png")


def test_alternative_with_one_html_child_has_no_ghost_attachment() -> None:
    content = read_content(multipart("alternative", "Content-Type: text/html\n\n<p>Only</p>"))

    assert content.text == "Only"
    assert content.attachments == ()


def test_continued_file_names_are_joined_by_number_not_by_order() -> None:
    assert [a.filename for a in read_content(raw("filename-continuations-out-of-order")).attachments] == ["ab.pdf"]


def test_two_attachments_of_one_name_have_parts_of_their_own() -> None:
    content = read_content(raw("two-attachments-of-one-name"))

    assert [(a.part, a.filename, a.size) for a in content.attachments] == [("2", "a.pdf", 5), ("3", "a.pdf", 6)]


def test_nested_message_is_an_attachment_and_not_merged_into_the_body() -> None:
    content = read_content(raw("nested-message"))

    assert content.text.strip() == "See the forwarded message."
    assert [(a.part, a.media_type, a.filename) for a in content.attachments] == [
        ("2", "message/rfc822", "attachment-1.eml")
    ]


def test_outer_delimiter_ends_what_an_inner_part_left_open() -> None:
    content = read_content(raw("inner-multipart-never-closed"))

    assert content.text.split() == ["inner", "outer"]


def test_boundary_that_does_not_match_is_guessed_from_the_body() -> None:
    content = read_content(raw("boundary-does-not-match"))

    assert content.text.strip() == "Readable all the same"
    assert content.findings == {"broken_boundary": 1}


def test_multipart_without_any_delimiter_is_shown_as_text() -> None:
    assert read_content(raw("multipart-without-delimiters")).text.strip() == "Just text"


def test_delimiters_inside_words_do_not_cut() -> None:
    content = read_content(multipart("mixed", "Content-Type: text/plain\n\na --frontier b\n--frontierx\n--frontier-y"))

    assert content.text.splitlines() == ["a --frontier b", "--frontierx", "--frontier-y"]


def test_base64_text_with_a_footer_below_keeps_the_text() -> None:
    assert read_content(raw("base64-with-list-footer")).text.strip() == "Grüße an alle"


def test_text_that_only_claims_to_be_base64_is_shown() -> None:
    assert read_content(raw("base64-in-name-only")).text.strip() == "This was never encoded, whatever the header says."


def test_uuencoded_part_is_decoded() -> None:
    assert read_content(raw("uuencoded-part")).text == "Hello"


def test_carriage_returns_alone_end_lines() -> None:
    content = read_content(raw("carriage-returns-only"))

    assert content.envelope.subject == "Old Macintosh"
    assert content.text.splitlines() == ["first", "second"]


def test_mailbox_separator_and_byte_order_mark_are_no_header() -> None:
    content = read_content(b"\xef\xbb\xbfFrom a@example.org Mon Jan  1 00:00:00 2024\nSubject: Hi\n\nbody")

    assert content.envelope.subject == "Hi"
    assert content.envelope.headers == (("Subject", "Hi"),)


def test_flowed_text_is_joined() -> None:
    assert read_content(raw("format-flowed")).text.splitlines() == [
        "A paragraph that was broken here.",
        "> a quote that was broken",
        "",
        "-- ",
        "Sam",
    ]


@pytest.mark.parametrize(
    ("name", "finding", "filename"),
    [
        ("smime-enveloped", "encrypted", "smime.p7m"),
        ("pgp-encrypted", "encrypted", "pgp-version.asc"),
        ("pgp-signed", "signed", "signature.asc"),
        ("calendar-invitation", "calendar", "attachment-1.ics"),
    ],
)
def test_special_parts_are_named_for_what_they_are(name: str, finding: str, filename: str) -> None:
    content = read_content(raw(name))

    assert content.findings == {finding: 1}
    assert content.attachments[0].filename == filename


def test_parts_have_the_section_numbers_of_imap() -> None:
    inner = "Content-Type: multipart/mixed; boundary=i\n\n--i\n\na\n--i\nContent-Type: image/png\n\nx\n--i--"
    content = read_content(multipart("mixed", inner, "Content-Type: application/pdf\n\nx"))

    assert [a.part for a in content.attachments] == ["1.2", "2"]
    assert [a.part for a in read_content(b"Content-Type: application/pdf\n\nx").attachments] == ["1"]


def test_plain_and_html_parts_in_a_row_are_all_shown_in_order() -> None:
    parts = (
        "Content-Type: text/plain\n\none",
        "Content-Type: text/html\n\n<p>two</p>",
        "Content-Type: text/plain\n\nthree",
    )

    assert read_content(multipart("mixed", *parts)).text.split() == ["one", "two", "three"]


def test_html_split_by_pictures_within_an_alternative_is_whole() -> None:
    mixed = (
        "Content-Type: multipart/mixed; boundary=i\n\n--i\nContent-Type: text/html\n\n<p>one</p>\n"
        "--i\nContent-Type: image/png; name=x.png\n\nx\n--i\nContent-Type: text/html\n\n<p>two</p>\n--i--"
    )
    content = read_content(multipart("alternative", "Content-Type: text/plain\n\none two", mixed))

    assert content.text.split() == ["one", "two"]
    assert [a.filename for a in content.attachments] == ["x.png"]


def test_size_is_that_of_the_decoded_part() -> None:
    [only] = read_content(b"Content-Type: application/pdf\nContent-Transfer-Encoding: Base64\n\nSGVsbG8=\n").attachments

    assert (only.size, only.encoding) == (5, "base64")


def test_message_beyond_the_limit_is_read_as_far_as_it_goes() -> None:
    message = read_message(b"Subject: big\n\n" + b"x" * 51_000_000)

    assert message.findings == {"truncated_message": 1, "truncated_body": 1}
    assert message.header == b"Subject: big\n\n"
