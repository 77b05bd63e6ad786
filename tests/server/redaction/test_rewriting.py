"""Messages as redaction, link rules and quoted history leave them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.profile import ContentPolicy
from mirror.fold import fold_keeping_separators
from mirror.message import Address, Attachment
from mirror.mirrored import MirroredMessage, State
from mirror.query.tree import Contains, HeaderContains, TextContains, evaluate
from server.policy import visible
from server.redaction.markers import told
from server.redaction.plain import plain, whole_characters
from server.redaction.rewriting import rewriting_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECRET = "K-123456"
MESSAGE = MirroredMessage(
    id=1,
    folder="INBOX",
    folder_id=1,
    uid=1,
    content=1,
    state=State.WHOLE,
    flags=frozenset(),
    internaldate=NOW,
    size=9_999,
    subject=f"About {SECRET}",
    from_=(Address(f"Bob {SECRET}", f"{SECRET}@example.org"),),
    to=(Address(SECRET, "alice@example.org"),),
    cc=(Address(SECRET, "alice@example.org"),),
    bcc=(Address(SECRET, "alice@example.org"),),
    reply_to=(Address(SECRET, "alice@example.org"),),
    message_id=f"{SECRET}@example.org",
    in_reply_to=f"{SECRET}@example.org",
    references=(f"{SECRET}@example.org", "x@example.org"),
    preview=f"of {SECRET[:-1]}",
    attachments=(Attachment("2", f"{SECRET}.pdf", "application/pdf", 5, content_id=SECRET),),
    text=f"Customer {SECRET} called.",
    html=f"<p>{SECRET}</p>",
    headers=(("Subject", f"About {SECRET}"), ("X-Note", SECRET)),
)
OWN = {"redact": [{"pattern": r"K-\d{6}", "with": "[customer]"}], "attachments": {"types": ["*/*"]}}


def shown(message: MirroredMessage, **policy: Any) -> MirroredMessage:
    """The message as a policy shows it."""
    seen = visible(message, ContentPolicy.model_validate(policy), NOW)
    assert seen is not None
    return seen


def read(message: MirroredMessage, **policy: Any) -> MirroredMessage:
    """The message as a reader gets it."""
    return told(shown(message, **policy), ContentPolicy.model_validate(policy))


def test_a_pattern_is_left_out_of_every_field() -> None:
    seen = shown(MESSAGE, **OWN)
    for name, value in seen._asdict().items():
        assert "123456" not in repr(value), name
        assert "12345" not in repr(value), name
    assert seen.references == ("x@example.org",)


def test_the_words_of_a_rule_stand_where_something_was_left_out() -> None:
    message = read(MESSAGE, **OWN)
    assert message.subject == "About [customer]"
    assert message.from_ == (Address("Bob [customer]", "[customer]@example.org"),)
    assert message.text == "Customer [customer] called."
    assert message.preview == "Customer [customer] called."
    assert message.attachments[0].filename == "redacted.pdf"
    assert message.headers == (("Subject", "About [customer]"), ("X-Note", "[customer]"))
    assert message.html is None


@pytest.mark.parametrize("pattern", ["customer", "[", "123456", "K-", "\ufdd8", "customer  called", "r \ufdd8 c"])
def test_neither_what_was_left_out_nor_its_marker_can_be_found(pattern: str) -> None:
    seen = shown(MESSAGE._replace(text=f"x {SECRET} called."), **OWN)
    for condition in (Contains("body", pattern), TextContains(pattern), HeaderContains("X-Note", pattern)):
        assert not evaluate(condition, seen)


def test_no_pattern_matches_across_a_deletion() -> None:
    seen = shown(MESSAGE._replace(text=f"K-12{SECRET}3456"), **OWN)
    assert seen.text == "K-12\ufdd83456"


def test_a_preview_is_made_of_what_is_left() -> None:
    long = "word " * 38 + "4111 1111 1111 1111"
    message = read(MESSAGE._replace(text=long, preview=long[:200]), redact=["card_numbers"])
    assert "4111" not in message.preview
    assert read(MESSAGE._replace(text=None), redact=["card_numbers"]).preview == ""


@pytest.mark.parametrize("written", ["\uff2b-\uff11\uff12\uff13\uff14\uff15\uff16", "K\u2010123456", "K-12\u200b3456"])
def test_a_pattern_is_found_in_look_alike_spellings(written: str) -> None:
    assert read(MESSAGE._replace(text=f"a {written} b"), **OWN).text == "a [customer] b"


def test_a_pattern_with_an_anchor_sees_each_text_by_itself() -> None:
    message = read(MESSAGE, redact=[{"pattern": "^About"}])
    assert message.subject == f"[redacted] {SECRET}"


def test_a_code_is_left_out_where_only_the_subject_or_only_the_text_speaks_of_one() -> None:
    rule = {"redact": ["one_time_codes"]}
    in_text = read(MESSAGE._replace(subject="Your login code", text="482913"), **rule)
    assert in_text.text == "[code]"
    in_subject = read(MESSAGE._replace(subject="482913", text="Use this code to sign in: 482913"), **rule)
    assert (in_subject.subject, in_subject.text) == ("[code]", "Use this code to sign in: [code]")
    unread = read(MESSAGE._replace(subject="482913", text=None), **rule)
    assert unread.subject == "[code]"


@pytest.mark.parametrize(
    "speaks", [{"subject": "Your login code", "text": "See the file."}, {"text": "Your login code:"}]
)
def test_a_code_in_a_name_of_a_person_or_a_file_or_in_a_header_is_left_out_where_the_mail_speaks_of_one(
    speaks: dict[str, Any],
) -> None:
    mail = MESSAGE._replace(
        **speaks,
        from_=(Address("Shop 482913", "shop2026@example.org"),),
        attachments=(Attachment("2", "482913.txt", "text/plain", 5),),
        headers=(("X-Ticket", "482913"), ("Date", "Sun, 1 Mar 2026 12:00:00 +0000")),
    )
    message = read(mail, redact=["one_time_codes"], attachments={"types": ["*/*"]})
    assert message.from_ == (Address("Shop [code]", "shop2026@example.org"),)
    assert [each.filename for each in message.attachments] == ["redacted.txt"]
    assert message.headers == (("X-Ticket", "[code]"), ("Date", "Sun, 1 Mar 2026 12:00:00 +0000"))


def test_a_media_type_that_a_sender_made_up_is_not_told() -> None:
    types = ("application/pdf", "text/x-k-123456", "application/x-secret-plan")
    mail = MESSAGE._replace(attachments=tuple(Attachment(str(at), "a", each, 5) for at, each in enumerate(types)))
    kept = [each.media_type for each in read(mail, **OWN).attachments]
    assert kept == ["application/pdf", "application/octet-stream", "application/octet-stream"]


def test_quoted_history_is_left_out_where_the_policy_says_so() -> None:
    text = "Yes.\n\nOn Mon, 2 Mar 2026 Bob wrote:\n> secret\n> more\nBye\n-----Original Message-----\nFrom: x\nsecret"
    message = read(MESSAGE._replace(text=text), quoted="strip")
    assert message.text == "Yes.\n\n[quoted text]\nBye\n[quoted text]"
    assert message.preview == "Yes. [quoted text] Bye [quoted text]"


def test_size_tells_nothing_of_what_is_withheld() -> None:
    text = "1234567"
    for policy in ({}, OWN, {"links": "strip"}, {"bodies": False}, {"attachments": {"types": ["image/*"]}}):
        one = shown(MESSAGE._replace(text=text, size=10), **policy)
        other = shown(MESSAGE._replace(text=text, size=99_999), **policy)
        assert one == other
    assert shown(MESSAGE._replace(text=text, attachments=())).size == 7
    assert shown(MESSAGE._replace(text=None, text_octets=7, attachments=())).size == 7
    assert shown(MESSAGE._replace(text=text), **OWN).size == 7 + 5
    assert shown(MESSAGE._replace(size=10), attachments={}).size == 10


PIECES = st.text(
    st.sampled_from(
        "aKk1\u00fc\u0301\u0308\u304b\u3099\uff9e\u1100\u1161\u11a8\uac00\u09c7\u09be\ufb01\u2460 \n\u4e2d"
    ),
    max_size=12,
)


@given(PIECES, PIECES, PIECES)
def test_what_is_found_in_what_is_left_was_in_the_original(before: str, left_out: str, after: str) -> None:
    text = before + left_out + after
    start, end = whole_characters(text, (len(before), len(before) + len(left_out)))
    if start == end:
        return
    whole = fold_keeping_separators(text)
    assert fold_keeping_separators(text[:start]) in whole
    assert fold_keeping_separators(text[end:]) in whole
    joined = fold_keeping_separators(f"{text[:start]}\ufdd0{text[end:]}")
    assert joined == f"{fold_keeping_separators(text[:start])}\ufdd0{fold_keeping_separators(text[end:])}"


@given(PIECES)
def test_every_place_of_a_plain_text_leads_back_to_where_it_came_from(text: str) -> None:
    found = plain(text)
    for index in range(len(found.text)):
        start, end = whole_characters(text, found.original((index, index + 1)))
        assert 0 <= start < end <= len(text)
        assert found.text[index] in plain(text[start:end]).text


@given(
    st.lists(
        st.sampled_from([SECRET, "K-12", "3456", "4111 1111 1111 1111", " ", "\u00fc", "word", "\u0301"]), max_size=8
    )
)
def test_rewriting_only_leaves_out(pieces: list[str]) -> None:
    text = "".join(pieces)
    policy = ContentPolicy.model_validate({"redact": [{"pattern": r"K-\d{6}"}, "card_numbers"]})
    rewriting = rewriting_of(policy)
    assert rewriting is not None
    rewritten = rewriting.message(MESSAGE._replace(text=text)).text
    assert rewritten is not None
    at = 0
    for piece in rewritten.replace("\ufdd1", "\ufdd8").split("\ufdd8"):
        at = text.index(piece, at) + len(piece)
    assert SECRET not in rewritten
