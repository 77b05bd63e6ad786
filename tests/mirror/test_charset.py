"""Charset labels and bytes that do not keep to them."""

import pytest

from mirror.mail.charset import codec_of, decode


@pytest.mark.parametrize(
    "label", ["koi8", "csgb2312", "x-x-big5", "cseuckr", "visual", "dos-874", "mac", "x-mac-ukrainian"]
)
def test_every_label_that_browsers_know_is_read(label: str) -> None:
    assert codec_of(label) is not None


@pytest.mark.parametrize("label", ["x-user-defined", "replacement", "bogus", "idna", "rot13", "unicode_escape", ""])
def test_what_is_no_charset_is_none(label: str) -> None:
    assert codec_of(label) is None


@pytest.mark.parametrize(
    ("data", "label", "text"),
    [
        ("Привет".encode("koi8-r"), "koi8", "Привет"),
        ("次の".encode("euc_jp"), "iso-2022-jp", "次の"),
        ("次の日曜日".encode("cp932"), "iso-2022-jp", "次の日曜日"),
        ("\ufeffhé".encode(), "iso-8859-1", "hé"),
        ("次の".encode("iso2022_jp"), "iso-2022-jp", "次の"),
    ],
)
def test_bytes_under_a_wrong_or_rare_label_are_read(data: bytes, label: str, text: str) -> None:
    assert decode(data, label) == text
