"""What ordinary mail is read by is quick; it finds what the thorough reading of odd mail finds."""

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror import reply
from mirror.envelope import read_envelope
from mirror.mail.addresses import read_all, read_one
from mirror.mail.dates import read_ordinary, read_words
from mirror.mail.header import read_clean, read_damaged
from mirror.message import read_message
from mirror.page.balance import put_right
from mirror.page.nesting import as_written
from mirror.reply import reply_text
from tests.corpus import messages, needs_corpus
from tests.mirror.mutation import mutations

EXAMPLES = sorted((Path(__file__).parent.parent / "messages").glob("*.eml"))
_TAGS = (
    "<p>", "</p>", "<div>", "</div>", "<table>", "<tr>", "<td>", "</td>", "</tr>", "</table>", "<b style=x>", "</b>",
    "<ul>", "<li>", "</li>", "</ul>", "<h1>", "</h1>", "<h2>", "</H2>", "<!-- <p> -->", "<title>a<b></title>",
    "<style>p{}</style>", "<script>if(a<b)</script>", "<html>", "<head>", "</head>", "<body>", "<body class=x>",
    "</body>", "</html>", "<br>", "</br>", "<hr>", "<img src='>'>", "<a href=x>", "</a>", "<font color=x>", "</font>",
    "<center>", "</center>", "<tbody>", "</tbody>", "<dl>", "<dt>", "</dt>", "</dl>", "<fieldset>", "</fieldset>",
    "<caption>", "</caption>", "text", "<", "<x", "<noscript>", "</noscript>", "<!doctype html>", "<span>", "</span>",
)  # fmt: skip
_LINES = (
    "-- ", "> quoted", "On Monday Jane wrote:", "On Monday", "Jane wrote:", "Jane <j@example.org> schrieb am Montag:",
    "", "From: a", "*From:* a", "Sent: b", "To: c", "Subject: d", "Sent from my phone", "-----Original Message-----",
    "____", "Begin forwarded message:", "K wrote:", "\u017fent from my phone", "\u0130l giorno x ha scritto:",
    " indented", "text",
)  # fmt: skip
_PAIRS = ("p", "div", "table", "tr", "td", "tbody", "b", "ul", "li", "dl", "dt", "h1", "a", "font", "center", "span")


def _same_header(raw: bytes) -> bool:
    """Whether the quick reading has nothing to say of this block, or the same as the thorough one."""
    quick, thorough = read_clean(raw, 0, len(raw)), read_damaged(raw, 0, len(raw))
    return quick is None or quick == thorough


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_header_block_of_an_example(path: Path) -> None:
    assert _same_header(path.read_bytes())


@given(
    st.lists(
        st.sampled_from((b"A: b", b"Subject", b":", b" ", b"\t", b"x", b"\r", b"\n", b"\r\n", b"\x0c", b"\0")),
        max_size=20,
    )
)
def test_header_block_of_any_lines(pieces: list[bytes]) -> None:
    assert _same_header(b"".join(pieces) + b"\n\nbody\n")


@needs_corpus
def test_header_blocks_of_damaged_mail() -> None:
    differing = [path for path, raw in mutations(list(messages()), 600, seed=41) if not _same_header(raw)]

    assert differing == []


@needs_corpus
def test_envelope_by_the_fields_that_are_at_hand() -> None:
    mails = [(path, read_message(raw)) for path, raw in mutations(list(messages()), 400, seed=43)]
    at_hand = [(path, mail) for path, mail in mails if mail.block is not None]

    assert len(at_hand) > 100
    assert [
        path
        for path, mail in at_hand
        if read_envelope(mail.header, mail.hint, mail.block) != read_envelope(mail.header, mail.hint)
    ] == []


@given(st.lists(st.sampled_from(_LINES) | st.text(max_size=12), max_size=12).map("\n".join))
def test_lines_that_begin_as_no_quote_does(text: str) -> None:
    found = reply_text(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reply, "_SAYS_NOTHING", frozenset())
        assert reply_text(text) == found


@given(st.text(st.sampled_from('ab.@<>"\\(),;: =?\t')))
def test_one_mailbox(value: str) -> None:
    found = read_one(value)

    assert not found or found == read_all(value)


@pytest.mark.parametrize(
    "value",
    [
        '"Doe, Jane" <j@example.org>',
        "Jane Doe <j@example.org>",
        "j.d@example.org",
        "=?utf-8?Q?J=C3=A9?= <j@example.org>",
    ],
)
def test_one_mailbox_as_most_are_written(value: str) -> None:
    assert read_one(value) == read_all(value) != []


@given(
    st.from_regex(r"(Mon, )?\d{1,2} (Jan|Feb|Xyz|May) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}", fullmatch=True)
)
def test_ordinary_date(text: str) -> None:
    quick, thorough = _moment_by(read_ordinary, text), _moment_by(read_words, text)

    assert quick in (None, thorough)


def _moment_by(read: Callable[[str], datetime | None], text: str) -> str | None:
    """ISO form, with the offset; "" where the numbers are no date."""
    try:
        moment = read(text)
    except ValueError:
        return ""
    return None if moment is None else moment.isoformat()


def _element(tag: str, inner: list[str]) -> str:
    return f"<{tag}>{''.join(inner)}</{tag}>"


_NESTED = st.recursive(
    st.sampled_from(_TAGS + ("text",) * 20),
    lambda inner: st.builds(_element, st.sampled_from(_PAIRS), st.lists(inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.lists(_NESTED | st.sampled_from(_TAGS), max_size=8).map("".join))
def test_markup_that_nests(markup: str) -> None:
    """End tags of headings and style are written in one way by the thorough reading."""
    found = as_written(markup)

    assert found is None or _even(found) == _even(put_right(markup))


def test_markup_of_a_newsletter_is_left_as_it_is() -> None:
    markup = "<html><head><style>td{}</style></head><body><table><tr><td><p><a href=x><img></a> t</p></td></tr></table>"

    assert as_written(markup + "</body></html>") == markup.replace("</head>", "")


def _even(markup: str) -> str:
    return re.sub(r"(?i)</(h[1-6]|style)[^<>]*>", lambda match: f"</{match[1].lower()}>", markup)
