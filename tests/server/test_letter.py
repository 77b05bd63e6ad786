"""The bytes of a mail to send."""

import hashlib
import re
from dataclasses import replace
from email import message_from_bytes
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.policy import NotAnAddress
from server.sending.correspondent import Correspondent, parse_correspondent
from server.sending.letter import Draft, Enclosure, Envelope, write_letter
from server.sending.proofreading import Ambiguous, Meant, read_back
from server.sending.submission import Parcel

ALICE = parse_correspondent("Alice <alice@example.org>")
BOB, JOERG = parse_correspondent("b@example.org"), parse_correspondent("jörg@example.org")
HEADERS = ("From", "To", "Subject", "Date", "Message-ID")
NAMES = (*HEADERS, "Content-Type", "Content-Transfer-Encoding", "MIME-Version")


def draft(subject: str = "hello", text: str = "text", html: str = "", **more: Any) -> Draft:
    """A draft whose addresses were checked already."""
    return Draft("", (), subject, text, html=html, **more)


def letter(written: Draft, *to: Correspondent, name: str = "Alice", **more: Any) -> Parcel:
    """The draft as a mail from Alice."""
    return write_letter(Envelope(Correspondent(name, ALICE.recipient), to or (BOB,), **more), written)


def read(parcel: Parcel) -> EmailMessage:
    """The mail as another program reads it."""
    return BytesParser(EmailMessage, policy=default).parsebytes(parcel.mail)


plain = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=300)
hidden = st.sampled_from(
    ["=0D=0ABcc:_e=40evil.test", "=0A=0Ax", "=0D", "=0A", "=2C", "=00", "DQpCY2M6IGVAZXZpbC50ZXN0", "DQoNCng=", "AA=="]
)
encoded_words = st.builds(
    "=?{}?{}?{}?={}".format,
    st.sampled_from(["utf-8", "us-ascii", "iso-8859-1", "utf-16", "unknown-8bit", "utf-8*en"]),
    st.sampled_from("qQbB"),
    st.one_of(hidden, plain),
    st.sampled_from(["", " ", "  ", "x"]),
)
subjects = st.lists(st.one_of(plain, encoded_words), max_size=4).map("".join)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=400)
bodies = st.lists(st.one_of(texts, encoded_words), max_size=4).map("".join)


@settings(max_examples=300, deadline=None)
@given(name=st.one_of(plain, encoded_words), subject=subjects, body=bodies)
def test_any_subject_and_body_arrive_as_they_were_written(name: str, subject: str, body: str) -> None:
    parcel = letter(draft(subject, body), BOB, JOERG, name=name[:200].strip())
    head = parcel.mail.partition(b"\r\n\r\n")[0]
    split = [line.partition(b": ")[0].decode() for line in head.split(b"\r\n") if line[:1] not in b" \t"]
    mail = message_from_bytes(parcel.mail, policy=default)
    assert sorted(split) == sorted(mail.keys()) == sorted(NAMES)
    assert mail["Subject"] == subject
    assert [address.addr_spec for address in mail["From"].addresses] == ["alice@example.org"]
    assert str(mail["To"]) == "b@example.org, jörg@example.org"
    arrived, written = (re.sub("\r\n?", "\n", text).rstrip("\n") for text in (mail.get_content(), body))
    assert arrived == written
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n|\0", parcel.mail)
    assert parcel.mail.endswith(b"\r\n")
    assert all(len(line) <= 998 for line in parcel.mail.split(b"\r\n"))


MEANT = Meant(HEADERS, "hello", ALICE, (BOB,), (), (("", hashlib.sha256(b"text\n").digest()),))


@pytest.mark.parametrize(
    "addition", [b"Bcc: e@evil.test\r\n", b"Subject: other\r\n", b"X: a\nb\r\n", b"X: a\rb\r\n", b"\r\nx\r\n", b"\0"]
)
def test_a_mail_that_reads_back_differently_is_not_sent(addition: bytes) -> None:
    mail = letter(draft()).mail
    read_back(mail, MEANT)
    with pytest.raises(Ambiguous):
        read_back(addition + mail, MEANT)


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": "bye"},
        {"to": (JOERG,)},
        {"to": (BOB, JOERG)},
        {"cc": (BOB,)},
        {"sender": BOB},
        {"sender": Correspondent("Bob", ALICE.recipient)},
        {"pieces": (("", hashlib.sha256(b"other\n").digest()),)},
        {"pieces": (*MEANT.pieces, ("x", b""))},
    ],
)
def test_a_part_that_reads_back_differently_is_not_sent(changed: dict[str, Any]) -> None:
    mail = letter(draft()).mail
    with pytest.raises(Ambiguous):
        read_back(mail, replace(MEANT, **changed))


def test_html_goes_beside_the_text_and_files_around_both() -> None:
    files = (
        Enclosure("Résumé =?utf-8?q?=0D=0Ax?= 1.pdf", "application/pdf", bytes(range(256)) * 300),
        Enclosure("note.txt", "text/plain", b"one\ntwo\r\nthree\r"),
        Enclosure("mail.eml", "message/rfc822", b"Subject: x\n\nFrom here\n"),
        Enclosure("x" * 200 + ".csv", "nonsense\r\nX: y", b""),
    )
    parcel = letter(draft(text="plain Zwölf", html="<p>rich €</p>" + "x" * 2_000, attachments=files))
    mail = read(parcel)
    assert mail.get_content_type() == "multipart/mixed"
    alternative, *parts = mail.iter_parts()
    assert [part.get_content_type() for part in alternative.iter_parts()] == ["text/plain", "text/html"]
    assert [part.get_content().strip()[:9] for part in alternative.iter_parts()] == ["plain Zwö", "<p>rich €"]
    assert [(part.get_filename(), part.get_payload(decode=True)) for part in parts] == [
        (each.filename, each.data) for each in files
    ]
    assert [part.get_content_type() for part in parts] == [
        "application/pdf",
        "text/plain",
        "application/octet-stream",
        "application/octet-stream",
    ]
    assert all(part.get_content_disposition() == "attachment" for part in parts)
    assert parcel.mail.isascii()
    assert all(len(line) <= 998 for line in parcel.mail.split(b"\r\n"))


def test_html_alone_is_an_alternative_of_nothing_and_files_need_no_html() -> None:
    assert read(letter(draft(html="<p>x</p>"))).get_content_type() == "multipart/alternative"
    mixed = read(letter(draft(attachments=(Enclosure("a", "text/plain", b"x"),))))
    assert [part.get_content_type() for part in mixed.walk()] == ["multipart/mixed", "text/plain", "text/plain"]


def test_bcc_is_in_the_copy_and_not_in_the_mail() -> None:
    carol = parse_correspondent("Carol <carol@example.org>")
    parcel = letter(draft(), BOB, cc=(JOERG,), bcc=(carol,))
    assert b"carol" not in parcel.mail.lower()
    assert parcel.copy == b"Bcc: Carol <carol@example.org>\r\n" + parcel.mail
    assert parcel.recipients == ("b@example.org", "jörg@example.org", "carol@example.org")
    assert (alone := letter(draft())).copy == alone.mail


def test_a_mail_to_bcc_alone_says_so() -> None:
    parcel = write_letter(Envelope(ALICE, (), (), (BOB,)), draft())
    assert b"To: undisclosed-recipients:;\r\n" in parcel.mail


def test_a_reply_names_its_parent_last_and_a_long_thread_is_capped() -> None:
    thread = tuple(f"<{number}@example.net>" for number in range(500))
    mail = read(letter(draft(in_reply_to="499@example.net", references=(*thread, "no id", "<a@b\r\nBcc: x@y.z>"))))
    assert mail["In-Reply-To"] == "<499@example.net>"
    found = mail["References"].split()
    assert (len(found), found[0], found[-1]) == (20, "<0@example.net>", "<499@example.net>")
    assert found[1:] == [f"<{number}@example.net>" for number in range(481, 500)]
    alone = read(letter(draft(in_reply_to="<1@example.net>")))
    assert (alone["In-Reply-To"], alone["References"]) == ("<1@example.net>", "<1@example.net>")


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("bob@example.org", "", "bob@example.org"),
        (" Bob  <bob@example.org> ", "Bob", "bob@example.org"),
        ("<bob@example.org>", "", "bob@example.org"),
        ('"Doe, Jane \\"JD\\"" <jane@example.org>', 'Doe, Jane "JD"', "jane@example.org"),
        ("Jörg Müller 🍲 <jörg@bücher.example>", "Jörg Müller 🍲", "jörg@xn--bcher-kva.example"),
        ("=?utf-8?q?x?= <bob@example.org>", "=?utf-8?q?x?=", "bob@example.org"),
    ],
)
def test_a_name_beside_an_address_is_shown_as_it_was_written(text: str, name: str, address: str) -> None:
    person = parse_correspondent(text)
    assert (person.name, person.recipient.address) == (name, address)
    [shown] = read(letter(draft(), person))["To"].addresses
    read_address = shown.addr_spec.encode("utf-8", "surrogateescape").decode()
    assert (shown.display_name, read_address) == (name, address)


@pytest.mark.parametrize(
    "text",
    [
        "Bob, Carol <carol@example.org>",
        "bob@example.org, Carol <carol@example.org>",
        '"ceo@example.org" <eve@example.org>',
        "ceo@example.org <eve@example.org>",
        "Bob <bob@example.org> <eve@example.org>",
        "Bob <bob@example.org>, eve@example.org",
        "Bob\r\nBcc: e@evil.test <bob@example.org>",
        "Bob\u2028 <bob@example.org>",
        "Bob <<bob@example.org>>",
        "Bob <>",
        '"Bob <bob@example.org>',
        "x" * 201 + " <bob@example.org>",
    ],
)
def test_what_may_mean_somebody_else_is_no_address(text: str) -> None:
    with pytest.raises(NotAnAddress):
        parse_correspondent(text)
