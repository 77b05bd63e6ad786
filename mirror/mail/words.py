"""Encoded words (RFC 2047) as mailers write them: glued to text, in quotes, with raw blanks or bad padding."""

import re

from mirror.mail.charset import decode
from mirror.mail.transfer import decode_part

_WORD = re.compile(r"=\?([^\s?]{1,60})\?(?:([bB])\?([^?]*)|[qQ]\?(.{0,1000}?))\?=", re.S)
_GAP = re.compile(r"\?=[ \t\r\n]+(?==\?)")
_ESCAPED = re.compile(rb"=([0-9A-Fa-f]{2})")


def decode_words(text: str) -> str:
    """The text with its encoded words decoded; neighbours of one charset are joined before decoding."""
    if "=?" not in text:
        return text
    text = _GAP.sub("?=", text)
    decoded: list[str] = []
    pending, charset, position = b"", "", 0
    for match in _WORD.finditer(text):
        label = match[1].partition("*")[0].lower()
        if match.start() > position or label != charset:
            decoded.append(decode(pending, charset))
            decoded.append(text[position : match.start()])
            pending, charset = b"", label
        pending += _payload(match, charset)
        position = match.end()
    decoded.append(decode(pending, charset))
    decoded.append(text[position:])
    return "".join(decoded)


def _payload(match: re.Match[str], charset: str) -> bytes:
    if match[2]:
        return decode_part(match[3].encode("ascii", "ignore"), "base64")
    written = match[4].replace("_", " ")
    try:
        raw = written.encode("ascii")
    except UnicodeEncodeError:
        try:
            raw = written.encode(charset, "replace")
        except LookupError:
            raw = written.encode("utf-8", "replace")
    return _ESCAPED.sub(lambda escape: bytes.fromhex(escape[1].decode()), raw)
