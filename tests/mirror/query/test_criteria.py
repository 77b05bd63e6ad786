from datetime import UTC, date, datetime

import pytest

from mirror.errors import QueryError
from mirror.query.criteria import parse_criteria
from mirror.query.tree import (
    MAX_NESTING,
    All,
    Any,
    Contains,
    Flagged,
    HeaderContains,
    Node,
    Not,
    OneOf,
    Positions,
    Received,
    ReceivedAt,
    Sent,
    Size,
    TextContains,
)

NOW = datetime(2024, 3, 1, tzinfo=UTC)
A_UID = "AAAAAAAAAAAAAAAAAAAA-1"
ANOTHER_UID = "AAAAAAAAAAAAAAAAAAAA_2"

VALID: dict[str, Node] = {
    "ALL": All(()),
    "ANSWERED": Flagged("\\Answered"),
    "BCC x": Contains("bcc", "x"),
    "BEFORE 1-Feb-2024": Received("<", date(2024, 2, 1)),
    "BODY voice": Contains("body", "voice"),
    "CC x": Contains("cc", "x"),
    "DELETED": Flagged("\\Deleted"),
    "DRAFT": Flagged("\\Draft"),
    "FLAGGED": Flagged("\\Flagged"),
    'from "Alice B"': Contains("from", "Alice B"),
    'HEADER List-Id "x y"': HeaderContains("List-Id", "x y"),
    'HEADER Received ""': HeaderContains("Received", ""),
    "HEADER sUBJECT x": Contains("subject", "x"),
    'HEADER Subject ""': HeaderContains("Subject", ""),
    "HEADER Body x": HeaderContains("Body", "x"),
    "KEYWORD $Forwarded": Flagged("$Forwarded"),
    "LARGER 1000": Size(">", 1000),
    "NEW": Any(()),
    "NOT SEEN": Not(Flagged("\\Seen")),
    "NOT NOT SEEN": Flagged("\\Seen"),
    "OLD": All(()),
    "ON 29-feb-2024": Received("=", date(2024, 2, 29)),
    "OR SEEN FLAGGED": Any((Flagged("\\Seen"), Flagged("\\Flagged"))),
    "OR OR SEEN FLAGGED NOT DRAFT": Any((Any((Flagged("\\Seen"), Flagged("\\Flagged"))), Not(Flagged("\\Draft")))),
    "RECENT": Any(()),
    "SEEN": Flagged("\\Seen"),
    "SENTBEFORE 1-Feb-2024": Sent("<", date(2024, 2, 1), or_received=False),
    'SENTON "1-Feb-2024"': Sent("=", date(2024, 2, 1), or_received=False),
    "SENTSINCE 01-Feb-2024": Sent(">=", date(2024, 2, 1), or_received=False),
    "SINCE 1-Feb-2024": Received(">=", date(2024, 2, 1)),
    "SMALLER 5": Size("<", 5),
    'SUBJECT "a \\"b\\" \\\\ c"': Contains("subject", 'a "b" \\ c'),
    'SUBJECT ""': Contains("subject", ""),
    "SUBJECT 会议": Contains("subject", "会议"),
    "TEXT x": TextContains("x"),
    "TO x": Contains("to", "x"),
    f"UID {A_UID}": OneOf(frozenset({1})),
    f"UID {A_UID},{ANOTHER_UID},unknown": OneOf(frozenset({1, 2})),
    "UNANSWERED": Not(Flagged("\\Answered")),
    "UNDELETED": Not(Flagged("\\Deleted")),
    "UNDRAFT": Not(Flagged("\\Draft")),
    "UNFLAGGED": Not(Flagged("\\Flagged")),
    "UNKEYWORD x": Not(Flagged("x")),
    "UNSEEN": Not(Flagged("\\Seen")),
    "YOUNGER 3600": ReceivedAt(">=", int(NOW.timestamp()) - 3600),
    "OLDER 3600": ReceivedAt("<", int(NOW.timestamp()) - 3600),
    "CHARSET UTF-8 SEEN": Flagged("\\Seen"),
    "1": Positions(((1, 1),)),
    "2:4,7,9:*,*": Positions(((2, 4), (7, 7), (9, None), (None, None))),
    "SEEN FROM a": All((Flagged("\\Seen"), Contains("from", "a"))),
    "SEEN  (FROM a)": All((Flagged("\\Seen"), Contains("from", "a"))),
    "(SEEN FROM a) NOT (TO b CC c)": All(
        (
            All((Flagged("\\Seen"), Contains("from", "a"))),
            Not(All((Contains("to", "b"), Contains("cc", "c")))),
        )
    ),
}

INVALID: dict[str, int] = {
    "": 0,
    "ALL\r\nA2 DELETE INBOX": 3,
    "SUBJECT {5}": 8,
    "SUBJECT {5+}": 8,
    "SUBJECT a\x00": 9,
    "SUBJECT 100%": 8,
    "SUBJECT a*": 8,
    'SUBJECT "open': 8,
    'SUBJECT a"b': 8,
    'SUBJECT "bad \\escape"': 8,
    "SUBJECT": 7,
    "SUBJECT (a)": 8,
    "from:alice": 0,
    "hello world": 0,
    "FOO": 0,
    "SEEN AND FLAGGED": 5,
    "OR SEEN": 7,
    "NOT": 3,
    "()": 1,
    "(SEEN": 5,
    "SEEN)": 4,
    "SINCE 2024-02-01": 6,
    "SINCE 31-Feb-2024": 6,
    "SINCE 1-Foo-2024": 6,
    "LARGER x": 7,
    "LARGER -1": 7,
    "KEYWORD \\Seen": 8,
    "UID 5": 4,
    "UID 1:*": 4,
    "UID *": 4,
    "0": 0,
    "CHARSET KOI8-R ALL": 8,
    "CHARSET UTF-8": 13,
}

CORRECTED: dict[str, str] = {
    "from:alice": "from alice",
    "hello world": 'TEXT "hello world"',
    "SINCE 2024-02-01": "SINCE 1-Feb-2024",
    "SINCE 2024-02-01T10:00:00Z": "SINCE 1-Feb-2024",
    "SEEN AND FLAGGED": "SEEN FLAGGED",
    "SUBJECT 100%": 'SUBJECT "100%"',
    "unread": "UNSEEN",
}


def resolve(uid: str) -> int | None:
    return {A_UID: 1, ANOTHER_UID: 2}.get(uid)


@pytest.mark.parametrize("text", VALID)
def test_valid_criteria_have_this_tree(text: str) -> None:
    assert parse_criteria(text, resolve=resolve, now=NOW).filter == VALID[text]


@pytest.mark.parametrize("text", VALID)
def test_keys_are_read_in_any_letter_case(text: str) -> None:
    for key in ("FROM", "SEEN", "NOT", "OR", "SINCE", "UNSEEN", "CHARSET", "HEADER"):
        text = text.replace(key, key.capitalize())
    assert parse_criteria(text, resolve=resolve, now=NOW)


@pytest.mark.parametrize("text", INVALID)
def test_invalid_criteria_are_refused_where_they_go_wrong(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_criteria(text)
    assert caught.value.position == INVALID[text]
    assert parse_criteria(caught.value.example)


@pytest.mark.parametrize("text", CORRECTED)
def test_likely_mistake_is_answered_with_the_corrected_criteria(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_criteria(text)
    assert caught.value.example == CORRECTED[text]


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_NESTING + 1) + "SEEN" + ")" * (MAX_NESTING + 1),
        "NOT " * 10_000 + "SEEN",
        "OR " * 10_000,
        "SEEN " * 201,
    ],
    ids=["parentheses", "not", "or", "conditions"],
)
def test_criteria_that_are_too_complex_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="at most"):
        parse_criteria(text)
