"""What of HTML a person sees: hidden elements, structure of the text, the small HTML that is left."""

import pytest

from mirror.content import Content, read_content
from mirror.sanitize import clean_html
from tests.mirror.mail import html_mail


def shown(markup: str) -> str:
    return read_content(html_mail(markup)).text


def cleaned(markup: str) -> str:
    return clean_html(read_content(html_mail(markup)).normalised_html)


HIDING = [
    "display:none",
    "display: none !important",
    "DISPLAY:NONE",
    "display/**/:/**/none",
    r"d\69splay:none",
    "visibility:hidden",
    "visibility:collapse",
    "opacity:0",
    "opacity:0.0",
    "opacity:1%",
    "mso-hide:all",
    "font-size:0",
    "font-size:1px",
    "font-size:0.1em",
    "font-size:2px",
    "font:0/0 a",
    "text-indent:-9999px",
    "text-indent:-100px",
    "margin-left:-1000px",
    "margin:0 0 0 -2000px",
    "position:absolute;left:-5000px",
    "position:fixed;top:-200px",
    "clip:rect(0,0,0,0)",
    "clip:rect(0 0 0 0)",
    "clip-path:inset(50%)",
    "clip-path: inset(100%)",
    "transform:scale(0)",
    "transform:scale(0,0)",
    "height:0;overflow:hidden",
    "max-height:0px;overflow:hidden",
    "width:0;overflow-x:hidden",
    "max-width:0;overflow:hidden",
    "filter:opacity(0)",
    "margin-left:-100%",
    "position:absolute;left:-100vw",
    "position:absolute;top:-100%",
    "transform:translateX(-9999px)",
    "scale:0",
    "zoom:0",
    "content-visibility:hidden",
    "width:1px;height:1px;overflow:hidden",
    "color:red;display:none",
    "display:block;display:none",
    "display:none;display:x",
    "display:none;display:var(--x)",
    "display:none;display:block !x",
    "opacity:0;opacity:foo",
    "font-size:0;font-size:bogus",
    "font-size:0;font-size:12foo",
    "font-size:0;font-size:calc(x)",
    "visibility:hidden;visibility:shown",
    "display:none;background:url(((;display:block;)))",
    "display:none;font-family:';display:block;'",
    "font-family:'/*';display:none;font-family:'*/'",
    "color:red;" * 400 + "display:none",
    "/*" + "x" * 4_100 + "*/display:none",
    "opacity:0.03",
    "opacity:calc(0)",
    "opacity:1e-9",
    "opacity:-1",
    "filter:opacity( .0 )",
    "-webkit-filter:opacity(0%)",
    "font-size:calc(0px)",
    "font-size:min(0px, 20px)",
    "text-indent:calc(-9999px)",
    "text-indent:100%;overflow:hidden",
    "position:absolute;left:9999px",
    "position:fixed;top:9999px",
    "position:absolute;inset:-9999px auto auto 0",
    "position:absolute;inset-inline-start:-9999px",
    "position:absolute;left:calc(-9999px + 1px)",
    "position:absolute;left:-1e4px",
    "margin-inline-start:-9999px",
    "translate:-9999px",
    "transform:translate(0,-9999px)",
    "transform:scale(1,0)",
    "transform:scale(.001)",
    "transform:matrix(0,0,0,0,0,0)",
    "transform:rotateX(90deg)",
    "transform:rotatey(.25turn)",
    "-webkit-transform:scale(0)",
    "rotate:x 90deg",
    "-webkit-clip-path:inset(100%)",
    "clip:rect(2px,2px,2px,2px)",
    "clip:rect(auto,0,auto,auto)",
    "clip-path:inset(0 100% 0 0)",
    "clip-path:inset(0 0 100% 0)",
    "clip-path:circle(1px)",
    "clip-path:ellipse(0 0)",
    "clip-path:polygon(1px 1px,1px 1px,1px 1px)",
    "clip-path:xywh(0 0 0 0)",
    "height:0;overflow:auto",
    "height:0;overflow:hidden scroll",
    "height:calc(0px);overflow:hidden",
    "block-size:0;overflow:clip",
    "height:0;contain:paint",
]
SHOWING = [
    "display:block",
    "display:none;display:block",
    "display:none;display:block !important",
    "opacity:0.9",
    "opacity:.5",
    "font-size:12px",
    "font:12px/1.5 Arial",
    "font:bold 700 14px Arial",
    "font-size:80%",
    "text-indent:-8px",
    "margin-left:-8px",
    "left:-5000px",
    "height:0",
    "max-height:0",
    "overflow:hidden",
    "line-height:0",
    "clip:rect(auto,auto,auto,auto)",
    "transform:scale(0.5)",
    "visibility:visible",
    "width:100px;overflow:hidden",
    "width:100%;overflow:hidden",
    "transform:translate(-50%,-50%)",
    "margin:-10px",
    "zoom:1",
    "scale:1",
    "display:x",
    "opacity:calc(1 - 0.2)",
    "opacity:0;opacity:1",
    "font-size:calc(14px + 0.2vw)",
    "font-size:-1px",
    "clip-path:inset(10px 20px)",
    "clip-path:circle(50%)",
    "clip-path:polygon(0 0,100% 0,100% 100%)",
    "transform:rotate(90deg)",
    "transform:matrix(1,0,0,1,0,0)",
    "position:absolute;left:20px;top:300px",
    "position:relative;left:2000px",
    "width:1px;min-width:100%;overflow:hidden",
    "height:auto;overflow:auto",
    "filter:blur(1px)",
    "filter:grayscale(100%)",
    "margin:0 auto",
    "background:url(a;b);width:100px",
]


@pytest.mark.parametrize("style", HIDING)
def test_hidden_elements_are_left_out_with_all_they_hold(style: str) -> None:
    markup = f'<p>before</p><div style="{style}">one <p>two</p></div><p>after</p>'

    assert shown(markup) == "before\n\nafter"
    assert cleaned(markup) == "<p>before</p><p>after</p>"
    assert read_content(html_mail(markup)).findings["hidden_chars"] == 6


@pytest.mark.parametrize("style", SHOWING)
def test_what_only_looks_like_hiding_stays(style: str) -> None:
    content = read_content(html_mail(f'<div style="{style}">text</div>'))

    assert content.text == "text"
    assert content.findings == {}


@pytest.mark.parametrize(
    ("rule", "element"),
    [
        (".x{display:none}", '<p class="x">gone</p>'),
        (".X{display:none}", '<p class="a X b">gone</p>'),
        ("#x{display:none}", '<p id="x">gone</p>'),
        ("p.x{display:none}", '<p class="x">gone</p>'),
        (".x.y{display:none}", '<p class="y x">gone</p>'),
        ("i{display:none}", "<i>gone</i>"),
        (".a .x{display:none}", '<div class="a"><b><i class="x">gone</i></b></div>'),
        (".a > .x{display:none}", '<div class="a"><i class="x">gone</i></div>'),
        (".y,.x{font-size:0}", '<p class="x">gone</p>'),
        ("@media screen{.x{display:none}}", '<p class="x">gone</p>'),
        ("@media all{.y{color:red}.x{display:none}}", '<p class="x">gone</p>'),
        ("@import url(x);.x{display:none}", '<p class="x">gone</p>'),
        ("/* } */.x{display:none}", '<p class="x">gone</p>'),
        (r".x{d\69splay:none}", '<p class="x">gone</p>'),
        (".x{display:none}.y{display:block}", '<p class="x">gone</p>'),
        ("p{display:block}.x{display:none}", '<p class="x">gone</p>'),
        (".x{display:none!important}", '<p class="x" style="display:block">gone</p>'),
        (".x{position:absolute;left:-999px}", '<p class="x">gone</p>'),
    ],
)
def test_rules_of_style_blocks_hide_too(rule: str, element: str) -> None:
    assert shown(f"<style>{rule}</style>{element}stays") == "stays"


@pytest.mark.parametrize(
    ("rule", "element"),
    [
        (".x{display:none}", '<p class="xy">text</p>'),
        (".x.y{display:none}", '<p class="x">text</p>'),
        (".a .x{display:none}", '<p class="x">text</p>'),
        (".x:hover{display:none}", '<p class="x">text</p>'),
        ("@media (max-width:600px){.x{display:none}}", '<p class="x">text</p>'),
        ("@media print{.x{display:none}}", '<p class="x">text</p>'),
        (".x{display:none}", '<p class="x" style="display:block">text</p>'),
        (".x{display:none}#y{display:block}", '<p class="x" id="y">text</p>'),
    ],
)
def test_rules_that_do_not_hold_hide_nothing(rule: str, element: str) -> None:
    assert shown(f"<style>{rule}</style>{element}") == "text"


@pytest.mark.parametrize(
    ("rule", "element"),
    [
        ("[class=x]{display:none}", "<p class=x>gone</p>"),
        ('p[class~="x"]{display:none}', '<p class="a x">gone</p>'),
        ("[data-a^=b]{display:none}", "<p data-a=bc>gone</p>"),
        (r".\78{display:none}", "<p class=x>gone</p>"),
        (r".a\:x{display:none}", '<p class="a:x">gone</p>'),
        ("p:not(.z){display:none}", "<p>gone</p>"),
        (":is(.z,.x){display:none}", "<p class=x>gone</p>"),
        ("i + p{display:none}", "<i></i><p>gone</p>"),
        ("i ~ p{display:none}", "<i></i><b></b><p>gone</p>"),
        ("p:nth-child(n){display:none}", "<p>gone</p>"),
        ("@supports (display:block){.x{display:none}}", "<p class=x>gone</p>"),
        ("@layer a{.x{display:none}}", "<p class=x>gone</p>"),
        ("@container(min-width: 1px){.x{display:none}}", "<p class=x>gone</p>"),
        ("@media\n(min-width: 1px){.x{display:none}}", "<p class=x>gone</p>"),
        ("@media not print{.x{display:none}}", "<p class=x>gone</p>"),
        ("@media print,screen{.x{display:none}}", "<p class=x>gone</p>"),
        ("@media (max-width:99999px){.x{display:none}}", "<p class=x>gone</p>"),
        ("@media (width>=1px){.x{display:none}}", "<p class=x>gone</p>"),
        ("body{.x{display:none}}", "<p class=x>gone</p>"),
        ("p{&.x{display:none}}", "<p class=x>gone</p>"),
        ('.y{content:"}"}.x{display:none}', "<p class=x>gone</p>"),
        (".x{display:none}.x,::-bad(y){display:block}", "<p class=x>gone</p>"),
        (".x{display:none}@supports (a:b){.x{display:block}}", "<p class=x>gone</p>"),
        ("".join(f".y{n}{{color:red}}" for n in range(1_200)) + ".x{display:none}", "<p class=x>gone</p>"),
        (" " * 210_000 + ".x{display:none}", "<p class=x>gone</p>"),
        (",".join(f".y{n}" for n in range(500)) + ",.x{display:none}", "<p class=x>gone</p>"),
        (".x{display:none}", f'<p class="{"a " * 300}x">gone</p>'),
        (".r .x{display:none}", f"<div class=r>{'<div>' * 60}<p class=x>gone</p>{'</div>' * 61}"),
    ],
    ids=range(28),
)
def test_rules_that_may_hold_hide(rule: str, element: str) -> None:
    assert shown(f"<style>{rule}</style>{element}stays") == "stays"


def test_sheet_beyond_the_limits_hides_what_it_may_hide_and_says_so() -> None:
    rules = "".join(f".y{n}{{opacity:.{n}}}" for n in range(6_000))
    content = read_content(html_mail(f"<style>{rules}.x{{display:none}}</style><p class=x>gone</p>"))

    assert content.text == ""
    assert content.findings["truncated_style"] == 1


def test_style_block_for_print_hides_nothing() -> None:
    assert shown("<style media=print>p{display:none}</style><p>text</p>") == "text"


def test_style_block_below_its_element_counts() -> None:
    assert shown("<p class=x>gone</p>stays<style>.x{display:none}</style>") == "stays"


def test_child_may_override_size_and_visibility_but_not_display() -> None:
    assert shown('<div style="visibility:hidden">a<b style="visibility:visible">b</b></div>') == "b"
    assert shown('<div style="font-size:0">a<b style="font-size:12px">b</b></div>') == "b"
    assert shown('<div style="font-size:0">a<b style="font-size:1em">b</b></div>') == ""
    assert shown('<div style="display:none">a<b style="display:block">b</b></div>') == ""


def test_faint_elements_in_faint_elements_are_hidden() -> None:
    assert shown('<div style="opacity:.1">a<div style="opacity:.1">b</div></div>') == "a"


def test_inherited_visibility_is_no_override() -> None:
    assert shown('<div style="visibility:hidden">a<b style="visibility:inherit">b</b></div>stays') == "stays"


@pytest.mark.parametrize(
    "markup",
    [
        '<p style="display:none">a<tr>b<td>c</td>d</p>stays',
        '<div style="display:none">a</p>b</h1>c</td>d</ul>e</div>stays',
        '<div style="display:none"><table><tr><td>a</div>b</td></tr></table>c</div>stays',
        '<p><b style="display:none">a</p><p>b</b>stays</p>',
        '<p><font style="font-size:0">a</p><p>b</font>stays</p>',
        '<a href="https://x.example/"><p style="display:none">a</a>b</p>stays',
        '<div><span style="display:none">a<p>b</span>c</p></div>stays',
        '<ul><li style="display:none">a<li>stays</ul>',
        '<table><tr><td style="display:none">a<td>stays</table>',
        '<p style="display:none">a<div>stays</div>',
        '<table title="<"><tr style="display:none"><td>a</td></tr></table>stays',
        f'<table title="{"x" * 4_100}"><tr style="display:none"><td>a</td></tr></table>stays',
        '<table><!--</table>--><tr style="display:none"><td>a</td></tr></table>stays',
        '<!--<style>--><p><b style="display:none">a</p><p>b</p></b>stays',
        '<p title="<style>"></p><div style="display:none"></p></td></table>a</div>stays',
        '<div style="display:none"></body>a</div>stays',
        '<div style="display:none"></html></head><html><head></head><body>a</div>stays',
        '<body>stays<body style="display:none">a',
        '<body>stays<p style="display:none">a</p></body><body class=a><p style="display:none">b',
        '<iframe></div></iframe><div style="display:none"><iframe></div></iframe>a</div>stays',
        '<script><!-- <script> </script> a --></script><i style="display:none"></i>stays',
        "<!-- --!>stays<!-- > a --><i hidden>b</i>",
        '<p title="a>b" hidden>c</p>stays',
        "<p title='\">' style='d&#105;splay:none'></td>a</p>stays",
        'stays<p hidden title="',
    ],
)
def test_sloppy_tags_end_hidden_elements_where_a_browser_ends_them(markup: str) -> None:
    assert shown(markup).removeprefix("- ") == "stays"


def test_zero_sizes_in_attributes_hide_what_overflow_cuts_off() -> None:
    assert shown('<table><tr><td height="0" style="overflow:hidden">gone</td><td>stays</td></tr></table>') == "stays"


def test_hidden_attribute_and_closed_dialog_hide() -> None:
    assert shown("<p hidden>a</p><dialog>b</dialog><dialog open>c</dialog>") == "c"


@pytest.mark.parametrize(
    ("markup", "flagged"),
    [
        ('<p style="color:#fff">ghost</p>', 5),
        ('<p style="color:#fefefe;background:white">ghost</p>', 5),
        ('<body bgcolor="#000000" text="#050505">ghost</body>', 5),
        ('<p style="color:transparent">ghost</p>', 5),
        ('<p style="color:rgba(0,0,0,0)">ghost</p>', 5),
        ('<p style="color:#0000">ghost</p>', 5),
        ('<p style="color:#00000000">ghost</p>', 5),
        ('<p style="color:hsla(0,0%,0%,0)">ghost</p>', 5),
        ('<p style="color:rgb(0 0 0 / 0)">ghost</p>', 5),
        ('<p style="color:oklch(0.5 0.1 20)">fine</p>', 0),
        ('<div style="background:#000"><p style="color:#fff">fine</p></div>', 0),
        ('<td style="background:url(x)"><p style="color:#fff">fine</p></td>', 0),
        ("<p>fine</p>", 0),
    ],
)
def test_low_contrast_is_flagged_and_stays(markup: str, flagged: int) -> None:
    content = read_content(html_mail(f"<table><tr>{markup}</tr></table>" if "<td" in markup else markup))

    assert content.text in ("ghost", "fine")
    assert content.findings.get("low_contrast_chars", 0) == flagged


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("one<br>two", "one\ntwo"),
        ("<div>one</div><div>two</div>", "one\ntwo"),
        ("a  <b> b</b>\n c", "a b c"),
        ("<ul><li>a<li>b<ol><li>c<li>d</ol></ul>", "- a\n- b\n  1. c\n  2. d"),
        ("<table><tr><td>a<td>b<tr><td><td>c</table>", "a | b\nc"),
        ("<blockquote>a<blockquote>b</blockquote></blockquote>c", "> a\n>\n> > b\n\nc"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("a<hr>b", "a\n----\nb"),
        ("<h1>T</h1>x", "T\n\nx"),
        ("a&nbsp;&lt;b&gt; &amp;", "a\u00a0<b> &"),
        ('<a href="https://x.example/">https://x.example</a>', "https://x.example"),
        ('<a href="mailto:a@x.example">a@x.example</a>', "a@x.example"),
        (
            '<a href="https://x.example/"><img src=cid:a></a> <a href="https://x.example/"><img src=cid:b></a>',
            "<https://x.example/>",
        ),
        ("a<o:p>b</o:p><v:shape>c</v:shape>", "ab"),
        ("<p>Hello <unknown>there</unknown>", "Hello there"),
    ],
)
def test_structure_of_the_text(markup: str, text: str) -> None:
    assert shown(markup) == text


def test_text_is_not_markdown() -> None:
    assert shown('<img src="https://evil.example/?q=1" alt="x">a <b>b</b>') == "a b"


@pytest.mark.parametrize(
    ("markup", "html"),
    [
        ('<p onclick="x()" style="color:red" class=a>a</p>', "<p>a</p>"),
        ("<div><div><p>a</p></div></div>", "<p>a</p>"),
        ("<p></p><b></b>a", "a"),
        ("<table><tbody><tr><td><table><tr><td>a</table></table>", "<div>a</div>"),
        ("<table><tr><td><tr><td>a<td>b</table>", "<table><tbody><tr><td>a</td><td>b</td></tr></tbody></table>"),
        ("<table><tr><td><p>a</p><tr><td>b<tr><td></table>", "<div><p>a</p><div>b</div></div>"),
        ("<table><tbody><tr><td>a<tr><td><p>b<p>c</table>", "<div><div>a</div><div><p>b</p><p>c</p></div></div>"),
        (
            "<table><tr><td><table><tr><td>a<tr><td>b</table><tr><td>c</table>",
            "<div><div><div>a</div><div>b</div></div><div>c</div></div>",
        ),
        (
            "<table><tr><td>a<table><tr><td>b<td>c</table><tr><td>d</table>",
            "<div><div>a<table><tbody><tr><td>b</td><td>c</td></tr></tbody></table></div><div>d</div></div>",
        ),
        (
            "<table><tr><th>a<tr><td>b</table>",
            "<table><tbody><tr><th>a</th></tr><tr><td>b</td></tr></tbody></table>",
        ),
        (
            "<table><caption>c</caption><tr><td>a<tr><td>b</table>",
            "<table><caption>c</caption><tbody><tr><td>a</td></tr><tr><td>b</td></tr></tbody></table>",
        ),
        ("<center>a</center>", "<div>a</div>"),
        ('<a href="https://x.example/?a=1&amp;b=2">a</a>', '<a href="https://x.example/?a=1&amp;b=2">a</a>'),
        ('<img src="https://x.example/a.png" alt="A">', '<img alt="A">'),
        ('<img src="cid:a@x" alt="A">', '<img src="cid:a@x" alt="A">'),
        (
            '<table><tr><td colspan="2" width=9>a<td>b</table>',
            '<table><tbody><tr><td colspan="2">a</td><td>b</td></tr></tbody></table>',
        ),
        ("<form action=x><input name=a><button>b</button></form>", "b"),
        ("<base href=https://evil.example/><meta http-equiv=refresh content=0>a<link rel=stylesheet href=x>", "a"),
        ("a &lt;script&gt;", "a &lt;script&gt;"),
    ],
)
def test_html_that_readers_get(markup: str, html: str) -> None:
    assert cleaned(markup) == html


def test_deeply_nested_text_is_kept() -> None:
    assert shown("<div>" * 688 + "deep") == "deep"
    assert shown("<div>" * 100_000 + "deep") == "deep"
    assert shown("<table><tr><td>" * 5_000 + "deep") == "deep"


@pytest.mark.parametrize(
    "markup",
    [
        "<template>AGENT</template>",
        "<svg><text>AGENT</text></svg>",
        "<noscript>AGENT</noscript>",
        "<select><option>AGENT</select>",
        "<object>AGENT</object>",
        "<dialog>AGENT</dialog>",
        f'<template x="{"y" * 2_100}">AGENT</template>',
        "<style>p{display:none}</style><p>AGENT</p>",
    ],
)
def test_elements_that_show_nothing_show_nothing_in_deep_nesting(markup: str) -> None:
    assert "AGENT" not in shown("<div>" * 2_100 + markup + "</div>" * 2_100)


def test_deep_nesting_does_not_uncover_hidden_text() -> None:
    assert shown("<div>" * 3_000 + '<div style="display:none">AGENT</div>' + "deep") == "deep"


def test_what_goes_over_the_limits_is_left_out_and_said() -> None:
    content: Content = read_content(html_mail("<p>some words in a row</p>" * 100_000))

    assert len(content.text) <= 400_000
    assert len(content.normalised_html) <= 401_000
    assert {"truncated_nodes", "truncated_text", "truncated_html"} & set(content.findings)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<html><body>aaa</body></html>bbb", "aaabbb"),
        ("<p>aaa</p></html>bbb", "aaa\n\nbbb"),
        ("<html><body>aaa</BODY ></html\n>bbb", "aaabbb"),
    ],
)
def test_what_follows_the_end_of_the_document_is_read_as_browsers_show_it(markup: str, text: str) -> None:
    assert shown(markup) == text


def test_what_is_hidden_stays_hidden_beyond_the_end_of_the_body() -> None:
    assert shown('<div style="display:none"></body>X</div>') == ""
