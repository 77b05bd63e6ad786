"""FETCH answers: what the quick reading takes, imapclient's parser takes for the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.upstream import answers, fetched

_MAIL = b"Subject: x\r\n\r\nbody)\r\n"
_LITERAL = b"{%d}" % len(_MAIL)
_PIECES = (
    b"UID 5 ", b" UID 5", b"UID 0 ", b"UID 4294967296 ", b"BODY[] ", b"BODY[]<0> ", b"BODY[HEADER] ",
    b"BODY[HEADER.FIELDS (DATE FROM)] ", b"BODY[1.2.MIME] ", b"RFC822.SIZE 3 ", b"FLAGS (\\Seen) ", b"MODSEQ (7) ",
    b"{0}", b"{3}", b"NIL", b'"x"', b")", b" ", b"]", b"(",
)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        b"1 (UID 5 BODY[] " + _LITERAL + b")",
        b"1 (BODY[] " + _LITERAL + b" UID 5)",
        b"1 (UID 5 BODY[HEADER.FIELDS (DATE FROM X-A)] " + _LITERAL + b")",
        b"1 (UID 5 BODY[2.1]<1048576> " + _LITERAL + b")",
    ],
)
def test_ordinary_answers_are_read_quickly_and_alike(line: bytes) -> None:
    assert answers.section(line, [_MAIL]) == (5, _MAIL) == fetched.section_slowly(line, [_MAIL])


@pytest.mark.parametrize(
    "line",
    [
        b"1 (UID 5 FLAGS (\\Seen) BODY[] " + _LITERAL + b")",
        b"1 (BODY[] " + _LITERAL + b" FLAGS (\\Seen) UID 5)",
    ],
)
def test_flags_beside_a_body_are_left_to_the_parser(line: bytes) -> None:
    assert answers.section(line, [_MAIL]) is None
    assert fetched.section_slowly(line, [_MAIL]) == (5, _MAIL)


def test_body_without_a_uid_is_nobodys() -> None:
    assert fetched.bodies([(b"5 (BODY[] " + _LITERAL, _MAIL), b")"]) == {}


def test_last_of_two_answers_counts() -> None:
    answer = [
        (b"1 (UID 5 BODY[] {1}", b"a"), b")", b"2 (FLAGS (\\Seen))",
        (b"1 (UID 5 BODY[] {1}", b"b"), b")", (b"3 (BODY[] {2}", b"cc"), b" UID 7)",
    ]  # fmt: skip

    assert fetched.bodies(answer) == {5: b"b", 7: b"cc"}


_items = st.lists(st.sampled_from(_PIECES), max_size=3).map(b"".join)


@given(_items, _items, st.sampled_from((_LITERAL, b"{3}")), _items)
def test_quick_reading_never_differs(first: bytes, before: bytes, literal: bytes, after: bytes) -> None:
    line = b"1 (" + first + b"BODY[] " + before + literal + after + b")"
    quick = answers.section(line, [_MAIL])

    assert quick is None or quick == fetched.section_slowly(line, [_MAIL])
