"""Snippets: where in a text they begin, and how long they are."""

import pytest

from mirror.query.himalaya import parse_himalaya
from mirror.query.snippet import snippet

LONG = "word " * 100 + "the needle is here" + " word" * 100


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("short text\n\nof two lines", "body two", "short text of two lines"),
        (LONG, "body needle", "…word word word word word the needle is here word word…"),
        (LONG, "not body needle", "word word word word word word word word word word word…"),
        (LONG, "from needle", "word word word word word word word word word word word…"),
        ("a\u0301" * 200 + " Straße 5", "body strasse", None),
        ("", "body x", ""),
    ],
)
def test_snippet_is_around_the_first_hit(text: str, query: str, shown: str | None) -> None:
    piece = snippet(text, parse_himalaya(query).filter, 55)
    assert len(piece) <= 57
    if shown is not None:
        assert piece == shown
