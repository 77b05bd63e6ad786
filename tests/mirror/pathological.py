"""Small descriptions of large hostile inputs: each once kept some mail software busy for minutes, or ended it."""

from collections.abc import Callable

_HTML = b"Content-Type: text/html; charset=utf-8\n\n"
_PLAIN = b"Content-Type: text/plain\n\n"
_MEGABYTE = 1_000_000
# Within the limit of a header block, so that the whole value is looked at.
_BLOCK = 990_000


def _html(markup: bytes) -> bytes:
    return b"From: a@example.org\nSubject: hostile\n" + _HTML + markup


def _header(name: bytes, value: bytes) -> bytes:
    return name + b": " + value + b"\nFrom: a@example.org\n\nbody\n"


def _nested_parts(levels: int) -> bytes:
    opening = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(levels))
    return b"Subject: hostile\n" + opening + b"Content-Type: text/plain\n\ndeep\n"


def _many_parts(count: int) -> bytes:
    return b"Subject: hostile\nContent-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * count + b"--b--\n"


def _parts(part: bytes, count: int) -> bytes:
    return b"Content-Type: multipart/mixed; boundary=b\n\n" + (b"--b\n" + part + b"\n") * count + b"--b--\n"


def _rules_and_elements() -> bytes:
    rules = b"".join(b".c .c%d{display:none}" % n for n in range(3_000))
    return _html(b"<style>" + rules + b"</style>" + b'<p class="c c1 c2 c3">x</p>' * 20_000)


INPUTS: dict[str, Callable[[], bytes]] = {
    "unclosed formatting": lambda: _html(b"".join(b"<p><font color=c%d>x" % n for n in range(2_500))),
    "unclosed formatting, 240 KB": lambda: _html(b"".join(b"<p><font color=c%d>x" % n for n in range(12_000))),
    "unclosed bold": lambda: _html(b"<b><i><u><p>x" * 20_000),
    "100,000 unclosed tags": lambda: _html(b"<p>" * 50_000 + b"<span>" * 50_000 + b"x"),
    "1 MB of ampersands": lambda: _html(b"&" * _MEGABYTE),
    "1 MB of less-than": lambda: _html(b"<" * _MEGABYTE),
    "1 MB of escapes": lambda: _html(b"&amp;" * (_MEGABYTE // 5)),
    "1 MB of comment openings": lambda: _html(b"<!--" * (_MEGABYTE // 4)),
    "deep divs": lambda: _html(b"<div>" * 100_000 + b"deep"),
    "deep tables": lambda: _html(b"<table><tr><td>" * 30_000 + b"deep"),
    "deep links": lambda: _html(b"<a href=https://example.org/>x" * 30_000),
    "deep quotes": lambda: _html(b"<blockquote>x" * 30_000),
    "many tables without cells": lambda: _html(b"<table>x" * 30_000),
    "many siblings with children": lambda: _html(b"<div>" + b"<p>x<b>y</b></p>" * 25_000),
    "a long table": lambda: _html(b"<table>" + b"<tr><td>a<td>b" * 20_000),
    "many bold words": lambda: _html(b"<b>x</b> " * 50_000),
    "hidden formatting carried on": lambda: _html(b"<p><b style='display:block'>x" * 30_000),
    "hidden items never closed": lambda: _html(b"<ul><li style='display:none'>x<dl><dd>" * 20_000),
    "stray tags": lambda: _html(b"<i hidden>" + b"</p></td><tr></b>x" * 50_000),
    "open tables with hidden cells": lambda: _html(b"<table><td style='left:0'>" * 30_000),
    "20,000 attributes": lambda: _html(b"<p " + b" ".join(b"a%d=1" % n for n in range(20_000)) + b">x</p>"),
    "one long style": lambda: _html(b'<p style="' + b"display:block;" * 70_000 + b'">x</p>'),
    "many styles": lambda: _html(
        b"".join(b'<p style="font-size:%dpx;a%d:b">x</p>' % (n % 90, n) for n in range(50_000))
    ),
    "a style block of braces": lambda: _html(b"<style>" + b"{" * 500_000 + b"</style>x"),
    "a style block of media rules": lambda: _html(b"<style>" + b"@media x{" * 50_000 + b"</style>x"),
    "a style block of escapes": lambda: _html(b"<style>" + b".x{\\64:/**/}" * 40_000 + b"</style>x"),
    "many rules on many elements": _rules_and_elements,
    "long lists of ancestors": lambda: _html(
        b"<style>" + (b",".join([b"div p"] * 330) + b"{margin:0}") * 9 + b"</style>" + b"<div><p>x" * 2_000
    ),
    "many rules of one ancestor": lambda: _html(
        b"<style>" + b"".join(b"div p{margin:%dpx}" % n for n in range(3_000)) + b"</style>" + b"<div><p>x" * 2_000
    ),
    "many classes, one rule often": lambda: _html(
        b"<style>"
        + (b",".join([b".a"] * 600) + b"{margin:0}") * 5
        + b"</style>"
        + (b'<p class="' + b"a " * 250 + b'">') * 8
    ),
    "a filter of letters": lambda: _html(b'<p style="filter:' + b"x" * 90_000 + b'">x'),
    "50,000 semicolons": lambda: _header(b"Content-Type", b"text/plain" + b";" * 50_000),
    "50,000 parameters": lambda: _header(b"Content-Type", b"text/plain" + b"; a*0*=''%41" * 50_000),
    "blanks in a parameter": lambda: _header(b"Content-Type", b"text/plain; a" + b" " * 60_000 + b"b"),
    "1 MB subject": lambda: _header(b"Subject", b"x" * _MEGABYTE),
    "1 MB subject of encoded words": lambda: _header(b"Subject", b"=?utf-8?Q?x?= " * (_BLOCK // 14)),
    "1 MB subject of openings": lambda: _header(b"Subject", b"=?a?q?" * (_BLOCK // 6)),
    "1 MB of parentheses in To": lambda: _header(b"To", b"(" * _BLOCK),
    "1 MB of quotes in To": lambda: _header(b"To", b'"\\' * (_BLOCK // 2)),
    "100,000 addresses": lambda: _header(b"To", b"a <a@example.org>, " * 100_000),
    "1 MB of brackets in To": lambda: _header(b"To", b"<" * _BLOCK),
    "1 MB of at signs in To": lambda: _header(b"To", b"a@" * (_BLOCK // 2)),
    "1 MB of letters in To": lambda: _header(b"To", b"x" * _BLOCK),
    "1 MB of quotes and at signs in To": lambda: _header(b"To", b'"@' * (_BLOCK // 2)),
    "1 MB of dots in To": lambda: _header(b"To", b"a . " * (_BLOCK // 4)),
    "1 MB of words in To": lambda: _header(b"To", b"=?utf-8?q?" * (_BLOCK // 10)),
    "1 MB of groups in To": lambda: _header(b"To", b"a:b;" * (_BLOCK // 4)),
    "1 MB of raw 8-bit in To": lambda: _header(b"To", b"\xe4 " * (_BLOCK // 2)),
    "1 MB of references": lambda: _header(b"References", b"<a@b> " * (_BLOCK // 6)),
    "1 MB of comments in Date": lambda: _header(b"Date", b"(" * _BLOCK),
    "100,000 headers": lambda: b"".join(b"X-%d: x\n" % n for n in range(100_000)) + b"\nbody\n",
    "100,000 headers of one name": lambda: b"To: a@example.org\n" * 100_000 + b"\nbody\n",
    "100,000 junk header lines": lambda: b"Subject: x\n" + b"junk\n" * 100_000 + b"From: a@example.org\n\nbody\n",
    "a header that never ends": lambda: b"Subject: x\n" + b" x\n" * 2_000_000,
    "100,000 parts": lambda: _many_parts(100_000),
    "2,000 nested parts": lambda: _nested_parts(2_000),
    "25 MB of base64": lambda: (
        b"Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n\n" + (b"QUJD" * 19 + b"\n") * 325_000
    ),
    "25 MB of base64 text": lambda: (
        b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n" + (b"QUJD" * 19 + b"\n") * 325_000
    ),
    "10 MB of base64 padding": lambda: (
        b"Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n\n" + b"QQ==" * 2_500_000
    ),
    "50 MB of text": lambda: _PLAIN + b"word " * 10_000_000,
    "60 MB of quoted-printable": lambda: (
        b"Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n" + b"=41=20" * 10_000_000
    ),
    "uuencoded lines": lambda: (
        b"Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode\n\nbegin 644 a\n" + b"#0V%T\n" * 200_000
    ),
    "1 MB of NULs": lambda: b"\0" * _MEGABYTE,
    "NULs in HTML": lambda: _html(b"<p>\0x" * 200_000),
    "CR only": lambda: b"Subject: x\rContent-Type: text/html\r\r" + b"<p>x\r" * 500_000,
    "2,000 parts of HTML": lambda: _parts(b"Content-Type: text/html\n\n" + b"<p>x<b>y" * 300, 2_000),
    "2,000 parts of invisible text": lambda: _parts(
        b"Content-Type: text/plain; charset=utf-8\n\n" + "\u200b".encode() * 8_000, 2_000
    ),
    "2,000 attachments": lambda: _parts(b"Content-Type: image/png\nContent-Transfer-Encoding: base64\n\nQQ==", 2_000),
    "delimiters only": lambda: b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\n" * 1_000_000,
    "dashes only": lambda: b"Content-Type: multipart/mixed; boundary=-\n\n" + b"-" * 5_000_000,
    "2 MB of HTML text": lambda: _html(b"<p>some words in a paragraph</p>" * 65_000),
    "4 MB of invisible characters": lambda: _html("\u200b".encode() * 1_300_000),
    "quote marks": lambda: _PLAIN + b">" * 2_000_000,
    "flowed lines": lambda: b"Content-Type: text/plain; format=flowed\n\n" + b"> x \n" * 500_000,
    "re: re: re:": lambda: _header(b"Subject", b"Re: " * 250_000),
}
