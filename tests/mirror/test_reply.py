"""What a mail newly says, without quoted history and signature."""

import pytest

from mirror.reply import preview_of, quoted_spans, reply_text

REPLIES = [
    ("New\n\n> old\n> older", "New"),
    ("New\n\nOn Mon, 1 Jan 2024 at 10:00, Sam <sam@example.org> wrote:\n> old\n\nBelow", "New\n\nBelow"),
    ("New\n\nOn Mon, 1 Jan 2024 at 10:00, Sam Example <sam@example.org>\nwrote:\n\n> old", "New"),
    ("Neu\n\nAm 01.01.24 um 10:00 schrieb Sam:\n> alt", "Neu"),
    ("New\n\n-----Original Message-----\nFrom: Sam\nold", "New"),
    ("New\n\n________________________________\nFrom: Sam\nold", "New"),
    ("New\n\nFrom: Sam <s@x>\nSent: Monday\nTo: Kim\nSubject: x\n\nold", "New"),
    ("New\n\nVon: Sam\nGesendet: Montag\nAn: Kim\nBetreff: x\n\nalt", "New"),
    ("New\n\n-- \nSam Example\n+49 30 1234", "New"),
    ("New\n\n--\nSam", "New"),
    ("New\n\nSent from my iPhone", "New"),
    ("From: here to there\nis a long way", "From: here to there\nis a long way"),
    ("He wrote:\nnothing", "He wrote:\nnothing"),
    ("a -- b\n--c", "a -- b\n--c"),
]


@pytest.mark.parametrize(("text", "reply"), REPLIES)
def test_reply_text(text: str, reply: str) -> None:
    assert reply_text(text) == reply


def test_preview_is_one_line_of_at_most_200_characters() -> None:
    preview = preview_of("First line\n\n" + "word " * 100)

    assert preview.startswith("First line word word")
    assert len(preview) <= 200
    assert "\n" not in preview


def test_preview_leaves_out_quotes_and_link_targets() -> None:
    assert preview_of("> old\n\nSee this <https://x.example/?t=1> now\n-- \nSam") == "See this now"


def test_preview_of_nothing_but_a_quote_is_the_quote() -> None:
    assert preview_of("> old words") == "> old words"
    assert preview_of("") == ""


def test_quoted_spans_cover_the_quote_and_what_introduces_it_and_nothing_else() -> None:
    text = "Yes.\n\nOn Mon, 2 Mar 2026 Bob wrote:\n> a\n> b\n\nNo.\n>> c\n-- \nSignature\nBegin forwarded message:\nof"
    covered = [text[start:end] for start, end in quoted_spans(text)]
    assert covered == [
        "On Mon, 2 Mar 2026 Bob wrote:\n> a\n> b",
        ">> c",
        "Begin forwarded message:\nof",
    ]
