"""Bytes to text, whatever the label says: aliases, mislabelled mail, raw 8-bit headers. Never raises."""

import codecs
import re
from functools import lru_cache

import webencodings

_JIS = "iso2022_jp"
# What senders mean by a label, where that differs from what the label says.
_ALIASES = {
    "ascii": "utf-8",
    "us-ascii": "utf-8",
    "ansi_x3.4-1968": "utf-8",
    "default": "utf-8",
    "unknown-8bit": "utf-8",
    "x-unknown": "utf-8",
    "utf": "utf-8",
    "utf8mb4": "utf-8",
    "utf-8mb4": "utf-8",
    "unicode": "utf-16",
    "unicode-1-1-utf-7": "utf-7",
    "x-utf-7": "utf-7",
    "iso-8859-1": "cp1252",
    "iso8859_1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-6-i": "iso-8859-6",
    "iso-8859-6-e": "iso-8859-6",
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-8-e": "iso-8859-8",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "windows-874": "cp874",
    "gb2312": "gb18030",
    "gb_2312-80": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "cp936": "gb18030",
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "ks_c_5601": "cp949",
    "ks_c_5601-1987": "cp949",
    "ks_c_5601-1989": "cp949",
    "ksc5601": "cp949",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "iso-2022-jp": _JIS,
    "iso-2022-jp-1": _JIS,
    "iso-2022-jp-2": _JIS,
    "iso-2022-jp-3": _JIS,
    "iso-2022-jp-ms": _JIS,
    "csiso2022jp": _JIS,
    "macintosh": "mac_roman",
    "x-mac-roman": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
}
_NOT_CHARSETS = {"idna", "punycode", "raw_unicode_escape", "unicode_escape", "undefined", "mbcs", "oem"}
_CODE_PAGE = re.compile(r"(?:x-)?(?:cp|windows|win|ansi|ibm)[-_ ]?(\d{3,5})")
_ISO_8859 = re.compile(r"(?:x-)?iso[-_ ]?8859[-_ ]?(\d{1,2}).*")
_ESCAPE = re.compile(rb"\x1b(\$\([DOPQ]|\$[@B]|\([BJHI])")
_HIGH = bytes(range(0x80, 0x100))
_TO_EUC = bytes(byte | 0x80 if 0x20 < byte < 0x7F else byte for byte in range(0x100))


@lru_cache(maxsize=512)
def codec_of(label: str) -> str | None:
    """The codec that reads text of this charset label; None when the label names no charset."""
    name = label.strip().strip("\"'").strip().lower()
    name = _ALIASES.get(name, name)
    if match := _CODE_PAGE.fullmatch(name):
        name = f"cp{match[1]}"
        name = _ALIASES.get(name, name)
    elif match := _ISO_8859.fullmatch(name):
        name = _ALIASES.get(f"iso-8859-{match[1]}", f"iso-8859-{match[1]}")
    try:
        codec = _lookup(name)
        # Only a text encoding decodes bytes to str; b"" would not even ask the codec.
        b"abcd".decode(codec, "replace")
    except (LookupError, UnicodeError, ValueError):
        return None
    return None if codec.replace("-", "_") in _NOT_CHARSETS else codec


def _lookup(name: str) -> str:
    """The codec Python has under this name, else the one browsers use for the label (WHATWG Encoding, 4.2)."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        known = webencodings.lookup(name)
        if known is None or known.name == "x-user-defined":
            raise
        found = _ALIASES.get(known.name, known.codec_info.name)
        return codecs.lookup(found).name


def decode(data: bytes, label: str, hint: str = "") -> str:
    """Text of these bytes: by the label where it fits, else by `guess`."""
    codec = codec_of(label[:60]) if label else None
    if codec is None:
        return guess(data, hint)
    if data.startswith(codecs.BOM_UTF8):
        return data.decode("utf-8-sig", "replace")
    if codec == _JIS:
        return _decode_jis(data)
    if codec.startswith(("utf-16", "utf-32")) and data and b"\0" not in data:
        return guess(data, hint)
    try:
        return data.decode(codec)
    except UnicodeError:
        pass
    text = data.decode(codec, "replace")
    if codec != "utf-8":
        try:
            return data.decode()
        except UnicodeError:
            return text
    high = len(data) - len(data.translate(None, _HIGH))
    return guess(data, hint) if text.count("\ufffd") * 3 > high else text


def guess(data: bytes, hint: str = "") -> str:
    """Text of bytes without a usable label: UTF-8, ISO-2022-JP by its escapes, the hint's charset, else cp1252."""
    try:
        text = data.decode()
    except UnicodeError:
        pass
    else:
        return _decode_jis(data) if "\x1b$" in text else text
    if b"\x1b$" in data:
        return _decode_jis(data)
    codec = codec_of(hint[:60]) if hint else None
    if codec not in (None, "utf-8", _JIS):
        try:
            return data.decode(codec)
        except UnicodeError:
            pass
    return data.decode("cp1252", "replace")


def _decode_jis(data: bytes) -> str:
    # Python's own iso2022_jp codecs refuse the vendor rows (circled digits) that Japanese mail is full of.
    pieces = []
    shift, start = b"(B", 0
    for match in _ESCAPE.finditer(data):
        pieces.append(_decode_jis_run(data[start : match.start()], shift))
        shift, start = match[1], match.end()
    pieces.append(_decode_jis_run(data[start:], shift))
    return "".join(pieces)


def _decode_jis_run(run: bytes, shift: bytes) -> str:
    if shift in (b"(B", b"(J", b"(H"):
        # 8-bit bytes have no meaning here: the mailer forgot to convert what it labelled.
        for codec in ("utf-8", "euc_jp", "cp932"):
            try:
                return run.decode(codec)
            except UnicodeError:
                continue
        return run.decode("cp932", "replace")
    if shift == b"(I":
        return run.translate(_TO_EUC).decode("cp932", "replace")
    if shift == b"$(D":
        pairs = run.translate(_TO_EUC)
        return b"".join(b"\x8f" + pairs[at : at + 2] for at in range(0, len(pairs), 2)).decode("euc_jp", "replace")
    return run.translate(_TO_EUC).decode("euc_jis_2004", "replace")
