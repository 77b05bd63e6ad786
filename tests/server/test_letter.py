"""The bytes of a mail to send."""

import re
from email import message_from_bytes
from email.policy import default

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.letter import NAMES, Ambiguous, read_back, write_letter
from server.policy import parse_recipient

ALICE = parse_recipient("alice@example.org")
BOB, JOERG = parse_recipient("b@example.org"), parse_recipient("jörg@example.org")

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
    parcel = write_letter(name[:200], ALICE, [BOB, JOERG], subject, body)
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


@pytest.mark.parametrize(
    "addition", [b"Bcc: e@evil.test\r\n", b"Subject: other\r\n", b"X: a\nb\r\n", b"X: a\rb\r\n", b"\r\nx\r\n", b"\0"]
)
def test_a_mail_that_reads_back_differently_is_not_sent(addition: bytes) -> None:
    mail = write_letter("Alice", ALICE, [BOB], "hello", "text").mail
    read_back(mail, "hello", ["b@example.org"])
    with pytest.raises(Ambiguous):
        read_back(addition + mail, "hello", ["b@example.org"])


@pytest.mark.parametrize(("subject", "recipient"), [("bye", "b@example.org"), ("hello", "c@example.org")])
def test_a_subject_or_recipient_that_reads_back_differently_is_not_sent(subject: str, recipient: str) -> None:
    mail = write_letter("Alice", ALICE, [BOB], "hello", "text").mail
    with pytest.raises(Ambiguous):
        read_back(mail, subject, [recipient])
