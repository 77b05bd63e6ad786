"""What holds for any mail at all."""

import re

import lxml.html
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.content import base_subject, degraded, read_content, read_envelope, recleaned
from mirror.invisible import Findings
from mirror.mail.addresses import read_addresses
from mirror.mail.dates import read_date
from mirror.mail.filename import safe_filename
from mirror.page.markup import TAGS
from mirror.reply import preview_of, reply_text
from mirror.sanitize import clean_html
from tests.mirror.mail import everything, html_mail

# The joiners may stay between emoji and in scripts that need them.
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
FRAGMENTS = (
    "<p>", "</p>", "<div>", "</div>", "<b>", "</b>", "<i>", "<a href='https://x.example/'>",
    "<a href='javascript:1'>", "</a>", "<table>", "</table>", "<tr>", "<td>", "</td>", "<th colspan=2>", "<caption>",
    "<tbody>", "<ul>", "<ol>", "<li>", "</ul>", "<dl>", "<dt>", "<dd>", "<blockquote>", "</blockquote>", "<pre>",
    "</pre>", "<h1>", "<h2>", "</h1>", "<br>", "<hr>", "<img src='https://evil.example/x.png' alt='pic'>",
    "<img src=cid:a alt='<b>'>", "<!--", "-->", "<style>", "</style>", "<script>", "</script>", "<title>", "</title>",
    "<svg>", "</svg>", "<form>", "<select>", "<option>", "<textarea>", "</textarea>", "<template>", "<noscript>",
    "<plaintext>", "<xmp>", "<frameset>", "<body>", "</body>", "<html>", "<head>", "</head>", "<center>",
    "<font color=white>", "</font>", "<span hidden>", "<div style='display:none'>", "<p style='font-size:0'>", "&lt;",
    "&amp;", "&#0;", "&#x202e;", "&#xd800;", "&nbsp;", "\u200b", "\u00ad", "\U000e0041", "\u202e", "\ud7ff", " ",
    "\n", "word", "ä", "<", ">", "&", '"', "'", "]]>", "<?x", "<![CDATA[", "<o:p>", "</o:p>",
    "<a href='//evil.example/'>", "<a href='data:text/html,x'>", "</", "<nobr>", "<code>", "<sub>", "<s>", "<q>",
    "<abbr>", "<object>", "<iframe src=x>", "<math>", "<button>", "<input value=x>", "<details>",
)  # fmt: skip
MARKUP = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=40).map("".join)
PIECES = (
    b"From: a@example.org\n", b"From : =?utf-8?Q?a?= <b@c>\r\n", b"Subject: \xe4\xff=?koi8-r?B?8A==?=\n",
    b"To: (((\n", b"Content-Type: multipart/mixed; boundary=b\n",
    b"Content-Type: multipart/alternative; boundary=\"b\"\r\n", b"Content-Type: text/html\n",
    b"Content-Type: text/plain; charset=utf-16; format=flowed\n", b"\n", b"\r\n", b"\r",
    b"Content-Type: message/rfc822\n", b"Content-Transfer-Encoding: base64\n",
    b"Content-Transfer-Encoding: x-uuencode\n", b"Content-Transfer-Encoding: quoted-printable\n", b"--b\n",
    b"--b\r\n", b"--b--\n", b"begin 644 x\n", b"SGVsbG8=\n",
    b"Content-Disposition: attachment; filename*0*=utf-8''%ff; filename*1=..%2f\n", b"Date: 0 0 0 0:0:0 +9999\n",
    b"\0", b"Message-ID: <>\nReferences: <a\n b> <c>\n", b"=\n", b"=E4=\n", b"\x1b$B!!\x1b(B", b"\xff\xfe", b"<p>",
    b" continued\n", b"Content-ID: <a>\n", b"Date: Mon, 1 Jan 2024 10:00:00 +0100\n", b":\n", b"junk\n",
    b"<style>p{display:none}</style>",
)  # fmt: skip
MAIL = st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=40).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400) | MAIL)
def test_any_bytes_are_a_content_without_anything_unseen(raw: bytes) -> None:
    content = read_content(raw)

    assert not UNSEEN.search(everything(content).replace("\t", ""))
    assert len(content.preview) <= 200
    assert "\n" not in content.preview
    assert recleaned(content.source) == content
    assert not UNSEEN.search(everything(degraded(raw, "crash")))


@settings(max_examples=200, deadline=None)
@given(MAIL)
def test_any_bytes_are_an_envelope(block: bytes) -> None:
    envelope = read_envelope(block)

    assert all("\n" not in value for _, value in envelope.headers)
    assert envelope.date is None or envelope.date.utcoffset() is not None


@settings(max_examples=400, deadline=None)
@given(MARKUP)
def test_clean_html_holds_only_what_is_allowed(markup: str) -> None:
    cleaned = clean_html(read_content(html_mail(markup)).normalised_html)

    assert not UNSEEN.search(cleaned)
    for element in lxml.html.fragment_fromstring(f"<div>{cleaned}</div>").iter():
        assert element.tag in TAGS
        for name, value in element.items():
            assert (element.tag, name) in {
                ("a", "href"), ("img", "src"), ("img", "alt"), ("td", "colspan"), ("td", "rowspan"), ("th", "colspan"),
                ("th", "rowspan"),
            }  # fmt: skip
            if name == "href":
                assert re.match(r"(?i)https?://|mailto:|tel:", value)
            if name == "src":
                assert value.lower().startswith("cid:")


@settings(max_examples=400, deadline=None)
@given(MARKUP)
def test_cleaning_twice_changes_nothing(markup: str) -> None:
    once = clean_html(read_content(html_mail(markup)).normalised_html)

    assert clean_html(once) == once


VISIBLE = ("<p>{}</p>", "<div>{}</div>", "<b>{}</b>", "<table><tr><td>{}</td></tr></table>", "<ul><li>{}</li></ul>")
HIDDEN = (
    '<div style="display:none">{}</div>', '<span style="visibility:hidden">{}</span>', "<div hidden>{}</div>",
    '<p style="font-size:0">{}</p>', '<b style="opacity:0">{}</b>', "<script>{}</script>", "<title>{}</title>",
    '<table style="display:none"><tr><td>{}</td></tr></table>', '<div class="gone">{}</div>', '<p id="gone">{}</p>',
    '<div style="height:0;overflow:hidden">{}</div>', "<!-- {} -->", "<template>{}</template>",
    '<a href="https://x.example/" style="display:none">{}</a>', '<div style="position:absolute;left:-999px">{}</div>',
)  # fmt: skip


def _wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def wrap(pair: tuple[str, str]) -> str:
        wrapper, content = pair
        return wrapper.format(content)

    return st.lists(
        st.tuples(st.sampled_from(VISIBLE), inner).map(wrap)
        | st.tuples(st.sampled_from(HIDDEN), st.just("zqsecret")).map(wrap),
        max_size=4,
    ).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.recursive(st.just("zqshown "), _wrapped, max_leaves=12))
def test_what_is_not_shown_is_not_indexed_and_what_is_shown_is(markup: str) -> None:
    content = read_content(html_mail(f"<style>.gone{{display:none}}#gone{{display:none}}</style>{markup}"))

    assert "zqsecret" not in everything(content)
    assert content.text.count("zqshown") == markup.count("zqshown")
    assert clean_html(content.normalised_html).count("zqshown") == markup.count("zqshown")


@given(st.text(max_size=200), st.sampled_from(("application/pdf", "text/html", "image/png", "")))
def test_any_file_name_is_one_safe_component(sent: str, media_type: str) -> None:
    name = safe_filename(sent, media_type, 1, Findings())

    assert name not in ("", ".", "..")
    assert not re.search(r'[/\\:\0\r\n<>"|?*]', name)
    assert not UNSEEN.search(name)
    assert len(name.encode()) <= 150
    assert safe_filename(name, media_type, 1, Findings()) == name


@given(st.text(max_size=300))
def test_small_readers_take_any_text(text: str) -> None:
    read_addresses(text)
    read_date(text)
    assert base_subject(base_subject(text)) == base_subject(text)
    assert len(reply_text(text)) <= len(text)
    assert len(preview_of(text)) <= 200
