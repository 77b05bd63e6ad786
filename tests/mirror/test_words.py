"""Encoded words, parameters, charsets and transfer encodings: the small decoders."""

import pytest

from mirror.mail.charset import codec_of, decode
from mirror.mail.parameters import media_type_of, read_parameters
from mirror.mail.transfer import decode_part, encoding_of
from mirror.mail.words import decode_words


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("plain", "plain"),
        ("=?utf-8?Q?a_b=C3=A4?=", "a bä"),
        ("=?UTF-8?b?w6Q=?=", "ä"),
        ("=?utf-8?b?w6Q?=", "ä"),
        ("=?utf-8?Q?a?= =?utf-8?Q?b?=", "ab"),
        ("=?utf-8?B?4oI=?= =?utf-8?B?rA==?=", "€"),
        ("=?utf-8?Q?a?= b", "a b"),
        ("x=?utf-8?Q?=C3=A4?=y", "xäy"),
        ('"=?utf-8?Q?=C3=A4?="', '"ä"'),
        ("=?utf-8?Q?raw blank?=", "raw blank"),
        ("=?us-ascii*EN?Q?Keith?=", "Keith"),
        ("=?iso-8859-1?Q?Fr=F6sche?=", "Frösche"),
        ("=?no-such?Q?a?=", "a"),
        ("=?utf-8?Q?unfinished", "=?utf-8?Q?unfinished"),
        ("=?", "=?"),
        ("=?utf-8?Q??=", ""),
    ],
)
def test_encoded_words(written: str, read: str) -> None:
    assert decode_words(written) == read


@pytest.mark.parametrize(
    ("value", "main", "parameters"),
    [
        ("text/plain; charset=utf-8", "text/plain", {"charset": "utf-8"}),
        (" Text /Plain ; Charset = 'x'", "text/plain", {"charset": "'x'"}),
        ("(hello) text (plain) / (world) plain", "text/plain", {}),
        ('multipart/mixed; boundary="a b"', "multipart/mixed", {"boundary": "a b"}),
        ("multipart/related Content-Type: text/html", "multipart/related", {}),
        ("application/pdf name=x.pdf", "application/pdf", {"name": "x.pdf"}),
        ('text/plain;;;; = ;; name="v"', "text/plain", {"name": "v"}),
        ("a/b; name*=utf-8''%C3%A4", "a/b", {"name": "ä"}),
        ("a/b; name*1*=%20b; name*0*=utf-8''%C3%A4", "a/b", {"name": "ä b"}),
        ('a/b; name*1="b.pdf"; name*0="a"', "a/b", {"name": "ab.pdf"}),
        ('a/b; name="=?utf-8?Q?=C3=A4?="', "a/b", {"name": "ä"}),
        ('a/b; name="say \\"hi\\""', "a/b", {"name": 'say "hi"'}),
        ('a/b; name="C:\\TEMP\\x"', "a/b", {"name": "C:\\TEMP\\x"}),
        ('a/b; name="unclosed', "a/b", {"name": "unclosed"}),
        ("", "", {}),
    ],
)
def test_parameters(value: str, main: str, parameters: dict[str, str]) -> None:
    assert read_parameters(value) == (main, parameters)


@pytest.mark.parametrize(
    ("value", "media_type"),
    [
        ("text/plain", "text/plain"),
        ("", "text/plain"),
        ("text", "text/plain"),
        ("html", "text/html"),
        ("image", "application/octet-stream"),
        ("a/b/c", "application/octet-stream"),
    ],
)
def test_media_types(value: str, media_type: str) -> None:
    assert media_type_of(value, "text/plain") == media_type


@pytest.mark.parametrize(
    "label", ["idna", "punycode", "rot13", "unicode_escape", "raw_unicode_escape", "hex", "nonsense", ""]
)
def test_codecs_that_are_no_charsets_are_refused(label: str) -> None:
    assert codec_of(label) is None


@pytest.mark.parametrize(
    ("data", "label", "text"),
    [
        ("ä".encode("cp1252"), "us-ascii", "ä"),
        (b"\x93quoted\x94", "iso-8859-1", "“quoted”"),
        ("中文".encode("gb18030"), "x-gbk", "中文"),
        ("한국".encode("cp949"), "ks_c_5601-1987", "한국"),
        ("日本".encode("cp932"), "shift_jis", "日本"),
        ("ä".encode(), "iso-2022-jp", "ä"),
        (b"\x1b$B-!\x1b(B", "", "①"),
        (b"\x1b(I1\x1b(B", "iso-2022-jp", "ｱ"),
        (b"plain", "utf-16", "plain"),
        ("ä".encode("utf-16"), "utf-16", "ä"),
        ("šě".encode("cp1250"), "windows1250", "šě"),
    ],
)
def test_charsets(data: bytes, label: str, text: str) -> None:
    assert decode(data, label) == text


@pytest.mark.parametrize(
    ("data", "encoding", "decoded"),
    [
        (b"SGVsbG8=", "base64", b"Hello"),
        (b"SGVsbG8", "base64", b"Hello"),
        (b"SGVs\r\n\r\nbG8=\r\n", "base64", b"Hello"),
        (b"SGVsbG8=\nSGVsbG8=\n", "base64", b"HelloHello"),
        (b"SGVsbG8= ignored", "base64", b"Hello"),
        (b"SGV!sbG8=", "base64", b"SGV!sbG8="),
        (b"SGVsbG8sIHdvcmxkISBIb3c*gYXJlIHlvdSB0b2RheT8=", "base64", b"Hello, world! How are you today?"),
        (b"", "base64", b""),
        (b"a=3D=\nb=ZZ", "quoted-printable", b"a=b=ZZ"),
        (b"a=  \r\nb", "quoted-printable", b"ab"),
        (b"raw", "8bit", b"raw"),
        (b"raw", "no-such", b"raw"),
        (b"no begin line", "x-uuencode", b"no begin line"),
    ],
)
def test_transfer_encodings(data: bytes, encoding: str, decoded: bytes) -> None:
    assert decode_part(data, encoding) == decoded


@pytest.mark.parametrize(
    ("value", "encoding"),
    [
        (" Base64 ", "base64"),
        ('"quoted-printable"', "quoted-printable"),
        ("7bit (comment)", "7bit"),
        ("base64; x=y", "base64"),
        ("8bit, base64", "8bit"),
        ("", ""),
    ],
)
def test_encoding_names(value: str, encoding: str) -> None:
    assert encoding_of(value) == encoding
