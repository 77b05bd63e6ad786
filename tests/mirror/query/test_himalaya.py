from datetime import date

import pytest

from mirror.errors import QueryError
from mirror.query.himalaya import parse_himalaya
from mirror.query.tree import MAX_CONDITIONS, MAX_NESTING, All, Any, Contains, Flagged, Node, Not, Query, Sent, Sorter


def frm(pattern: str) -> Node:
    return Contains("from", pattern)


def to(pattern: str) -> Node:
    return Contains("to", pattern)


def subject(pattern: str) -> Node:
    return Contains("subject", pattern)


SEEN = Flagged("\\Seen")
FIFTH = Sent("=", date(2024, 1, 5), or_received=True)

VALID: dict[str, Query] = {
    "from alice": Query(frm("alice")),
    "not not flag seen": Query(SEEN),
    "not flag seen": Query(Not(SEEN)),
    "from a or from b and to c": Query(Any((frm("a"), All((frm("b"), to("c")))))),
    "(from a or from b) and to c": Query(All((Any((frm("a"), frm("b"))), to("c")))),
    "not from a and to b": Query(All((Not(frm("a")), to("b")))),
    "subject or or subject and": Query(Any((subject("or"), subject("and")))),
    "subject two\\ words": Query(subject("two words")),
    'subject "two words"': Query(subject("two words")),
    'from f and (to t or subject "s with parens )")': Query(
        All((frm("f"), Any((to("t"), subject("s with parens )")))))
    ),
    "subject foo\\(bar\\)": Query(subject("foo(bar)")),
    "subject ünïcödé": Query(subject("ünïcödé")),
    'subject "a \\"b\\" \\\\ c"': Query(subject('a "b" \\ c')),
    'subject ""': Query(subject("")),
    "date 05/01/2024": Query(FIFTH),
    "date 05-01-2024": Query(FIFTH),
    "date 2024/01/05": Query(FIFTH),
    "date 2024-1-5": Query(FIFTH),
    "after 2024-01-01 and before 2024-02-01": Query(
        All((Sent(">", date(2024, 1, 1), or_received=True), Sent("<", date(2024, 2, 1), or_received=True)))
    ),
    "order by date": Query(None, (Sorter("date"),)),
    "order by date desc subject": Query(None, (Sorter("date", descending=True), Sorter("subject"))),
    "from a order by from to desc": Query(frm("a"), (Sorter("from"), Sorter("to", descending=True))),
    "order by": Query(),
    "from   a  and   to b": Query(All((frm("a"), to("b")))),
    "(from a)and (to b)": Query(All((frm("a"), to("b")))),
    "((from a))": Query(frm("a")),
    "(from a )": Query(frm("a")),
    " \t\nfrom a\n": Query(frm("a")),
    "subject reorder by date": Query(subject("re"), (Sorter("date"),)),
    "subject order\\ by": Query(subject("order by")),
    'subject "unterminated': Query(subject('"unterminated')),
    "flag Replied": Query(Flagged("\\Answered")),
    "flag unseen": Query(Flagged("unseen")),
    "flag $Forwarded": Query(Flagged("$Forwarded")),
}

INVALID: dict[str, int] = {
    "": 0,
    "subject two words": 12,
    "from a to b": 7,
    "(from a)(to b)": 8,
    "from:alice": 4,
    "from a, to b": 8,
    "from a && to b": 7,
    "FROM alice": 0,
    "from a AND to b": 7,
    "Order by date": 0,
    "order by date DESC": 14,
    "subject": 7,
    "from a and": 10,
    "not": 0,
    "and from a": 0,
    "from a and or to b": 11,
    "(from a": 7,
    "from a)": 6,
    "()": 1,
    "( from a)": 1,
    "not(from a)": 0,
    "(from a) and(to b)": 12,
    "subject foo(bar)": 11,
    'subject "bad \\escape"': 13,
    "flag \\Seen": 5,
    'subject "two"words': 13,
    'subject "unterminated text': 22,
    'date "2024-01-05"': 5,
    "date yesterday": 5,
    "date 2024-02-30": 5,
    "date 01/31/2024": 5,
    "order by size": 9,
    "order by date, from": 9,
    "order  by date": 0,
    "order by date from alice": 19,
    "subject order by date": 8,
    "cc x": 0,
    "larger 1": 0,
    "ALL": 0,
    "*": 0,
    "date 24-01-05": 5,
}

CORRECTED: dict[str, str] = {
    "from:alice": "from alice",
    "FROM alice": "from alice",
    "from a AND to b": "from a and to b",
    "from a && to b": "from a and to b",
    "from a to b": "from a and to b",
    "(from a)(to b)": "(from a) and (to b)",
    "subject two words": 'subject "two words"',
    'subject "unterminated text': 'subject "unterminated text"',
    "invoice": "subject invoice or body invoice",
    "invoice march": 'subject "invoice march" or body "invoice march"',
    "after 2024-01-31T10:00:00Z": "after 2024-01-31",
    "since:2024-02-01": "after 2024-01-31",
    "date >= 2024-02-01": "after 2024-01-31",
    "is:unread from:bob": "not flag seen and from bob",
    'subject:"quarterly report" AND -from:spam': 'subject "quarterly report" and not from spam',
    "flag \\Seen": "flag seen",
    "Order by date": "order by date",
    "order by date DESC": "order by date desc",
    "from alice ORDER BY date": "from alice order by date",
    'date "2024-01-05"': "date 2024-01-05",
}


@pytest.mark.parametrize("text", VALID)
def test_valid_query_has_this_tree(text: str) -> None:
    assert parse_himalaya(text) == VALID[text]


@pytest.mark.parametrize("text", INVALID)
def test_invalid_query_is_refused_where_it_goes_wrong(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_himalaya(text)
    assert caught.value.position == INVALID[text]
    assert parse_himalaya(caught.value.example)


@pytest.mark.parametrize("text", CORRECTED)
def test_likely_mistake_is_answered_with_the_corrected_query(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_himalaya(text)
    assert caught.value.example == CORRECTED[text]


def test_position_counts_the_blanks_before_the_query() -> None:
    with pytest.raises(QueryError) as caught:
        parse_himalaya("  from a to b")
    assert caught.value.position == 9


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_NESTING + 1) + "from a" + ")" * (MAX_NESTING + 1),
        "(" * 100_000,
        " and ".join(["from a"] * (MAX_CONDITIONS + 1)),
        "not " * 20_000 + "from a",
        "order by " + "date " * 9,
    ],
    ids=["nested", "parentheses", "conditions", "characters", "sort keys"],
)
def test_query_that_is_too_complex_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="at most"):
        parse_himalaya(text)


def test_query_at_its_limits_is_read() -> None:
    assert parse_himalaya("(" * MAX_NESTING + "from a" + ")" * MAX_NESTING) == Query(frm("a"))
    assert parse_himalaya(" or ".join(["from a"] * MAX_CONDITIONS)).filter == Any((frm("a"),) * MAX_CONDITIONS)
    assert parse_himalaya("not " * 1_001 + "from a") == Query(Not(frm("a")))
