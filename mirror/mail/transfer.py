"""Content-Transfer-Encoding undone, with the slips that real mail has. Never raises."""

import binascii
import re

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64 = bytes(set(range(256)) - set(_ALPHABET))
_BASE64_BYTES = _ALPHABET + b"= \t\r\n"
_SAMPLE = 4_096
_MIN_SAMPLE = 4
_FIRST_LINE = re.compile(rb"\s*[A-Za-z0-9+/]{20,}={0,2}[ \t]*\r*(?:\n|$)")
_BLANK_LINE = re.compile(rb"(?<=[A-Za-z0-9+/=])\r?\n\r?\n(?=\s*\S)")
_PADDING = re.compile(rb"=+")
_MAX_RUNS = 2_000
_BASE64_LINES = re.compile(rb"[A-Za-z0-9+/\r\n]*")
_SOFT_BREAK_WITH_BLANKS = re.compile(rb"=[ \t]+(?=\r?\n)")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_COMMENT = re.compile(r"\([^()]*\)")
_PLAIN_NAMES = frozenset({"", "7bit", "8bit", "base64", "quoted-printable", "binary"})
_UUENCODE = frozenset({"x-uuencode", "uuencode", "uue", "x-uue"})


def encoding_of(value: str) -> str:
    """The encoding that a Content-Transfer-Encoding header names, lower case; "" for none."""
    if value in _PLAIN_NAMES:
        return value
    match = _NAME.search(_COMMENT.sub(" ", value[:200]).lower())
    return match[0] if match else ""


def decode_part(section: bytes, encoding: str) -> bytes:
    """The bytes of a part: its transfer encoding undone. An encoding that is unknown leaves it as it is."""
    if encoding == "base64":
        return _decode_base64(section)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(_SOFT_BREAK_WITH_BLANKS.sub(b"=", section))
    if encoding in _UUENCODE:
        return _decode_uuencoded(section)
    return section


def _decode_base64(data: bytes) -> bytes:
    if not _looks_encoded(data[:_SAMPLE]):
        return data
    data = _without_footer(data)
    first = data.find(b"=")
    if first < 0 or not data[first:].strip(b"= \t\r\n"):
        return _decode_run(data if first < 0 else data[:first])
    # Several encoded blocks one after the other, or text that a mailing list added below.
    runs = _PADDING.split(data, _MAX_RUNS)
    if len(runs) > _MAX_RUNS:
        return _decode_run(data)
    decoded = [_decode_run(runs[0])]
    for run in runs[1:]:
        if not _BASE64_LINES.fullmatch(run):
            break
        decoded.append(_decode_run(run))
    return b"".join(decoded)


def _looks_encoded(sample: bytes) -> bool:
    """Whether this is base64 at all: some mailers only say so."""
    head = sample.partition(b"=")[0]
    sample = head if len(head) >= _MIN_SAMPLE else sample
    foreign = len(sample.translate(None, _BASE64_BYTES))
    if foreign * 10 <= len(sample) and sample.count(b" ") * 20 <= len(sample):
        return True
    return _FIRST_LINE.match(sample) is not None


def _without_footer(data: bytes) -> bytes:
    """The encoded part, without text that a mailing list added below an empty line."""
    data_before_end = data.rstrip()
    if b"\n\n" not in data_before_end and b"\n\r\n" not in data_before_end:
        return data
    blank = _BLANK_LINE.search(data)
    if blank is None or _looks_encoded(data[blank.end() : blank.end() + _SAMPLE]):
        return data
    return data[: blank.start()]


def _decode_run(run: bytes) -> bytes:
    """The bytes of an encoded run, whatever else is between its characters."""
    if b"=" not in run:
        try:
            return binascii.a2b_base64(run + b"==")
        except binascii.Error:
            pass  # one character too many
    characters = run.translate(None, _NOT_BASE64)
    spare = len(characters) % 4
    if spare == 1:
        characters = characters[:-1]
    return binascii.a2b_base64(characters + b"==" if spare > 1 else characters)


def _decode_uuencoded(data: bytes) -> bytes:
    decoded = []
    begun = False
    for line in data.splitlines():
        if not begun:
            begun = line.startswith(b"begin ")
        elif line.strip() == b"end":
            break
        else:
            decoded.append(_decode_uuencoded_line(line))
    return b"".join(decoded) if begun else data


def _decode_uuencoded_line(line: bytes) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:
        # Some encoders write more characters than the length byte says.
        length = ((line[0] - 32) & 63) * 4 + 5 if line else 0
        try:
            return binascii.a2b_uu(line[: length // 3 + 1])
        except binascii.Error:
            return b""
