"""The header block of a message or part: where it ends, its fields, and what is left of a damaged one.

One junk line (an unfolded continuation, a mailbox separator, a line with a NUL) makes a strict reader end the block
there and lose From and Subject. Here a line that is no field is dropped when a well-known field still follows before
the blank line; otherwise the body starts at it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.mail.charset import guess

MAX_BLOCK = 1_000_000
MAX_FIELDS = 5_000
_MAX_SCANNED = 4_000_000
_MAX_KEPT_VALUE = 65_536
_LINE = re.compile(rb"[^\n]*\n?")
_FIELD = re.compile(rb"([!-9;-~]+)[ \t]*:")
# A field and its folded lines, or a line that is none: whole lines, one after the other.
_CLEAN = re.compile(rb"([!-9;-~]++)[ \t]*+:([^\n]*+\n(?:[ \t]++[^\s][^\n]*+\n)*+)|([^\n]*+\n)")
_MAX_CLEAN = 65_536
_NAME_ALONE = re.compile(rb"[A-Za-z][A-Za-z-]*[ \t]*\r*\n?")
_BROKEN_NAME = re.compile(rb"([A-Za-z-]+)[ \t]*\r*\n[ \t]{1,8}:")
_KNOWN = re.compile(
    rb"(?i)(?:from|to|cc|bcc|subject|date|received|message-id|mime-version|content-[a-z-]+|x-[^:\r\n]{1,100}|return-path|"
    rb"delivered-to|reply-to|sender|dkim-signature|arc-[a-z-]+|references|in-reply-to|list-[a-z-]+|user-agent|"
    rb"authentication-results|precedence|importance|organization)[ \t]*:"
)
_SEPARATOR = re.compile(rb">?From +[^\s:]")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_FOLD = re.compile(r"[\r\n]+[ \t]*")


class Field(NamedTuple):
    """One field as received: its value still folded, encoded and possibly 8-bit."""

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Block:
    """Fields in received order; where the body starts; junk lines dropped; whether the block was over the limits.

    is_clean: nothing in it needed a judgement.
    """

    fields: Sequence[Field]
    end: int
    junk: int = 0
    truncated: bool = False
    is_clean: bool = field(default=False, compare=False)
    _by_name: dict[str, list[bytes]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, list[bytes]] = {}
        for name, value in self.fields:
            by_name.setdefault(name.lower(), []).append(value)
        object.__setattr__(self, "_by_name", by_name)

    def first(self, name: str) -> bytes:
        """The value of the first field of this name (lower case), b"" for none."""
        return self._by_name.get(name, (b"",))[0]

    def every(self, name: str) -> Sequence[bytes]:
        """The values of all fields of this name (lower case)."""
        return self._by_name.get(name, ())

    def shortened(self) -> bytes:
        """The block as bytes again, long values cut, at most MAX_BLOCK of it."""
        lines = (b"%s: %s\n" % (field.name.encode(), field.value[:_MAX_KEPT_VALUE]) for field in self.fields)
        kept, size = [], 0
        for line in lines:
            size += len(line)
            if size > MAX_BLOCK:
                break
            kept.append(line)
        return b"".join(kept) + b"\n"


def read_block(data: bytes, start: int, stop: int) -> Block:
    """The header block at `start`, its body ending at `stop`."""
    start = _after_mailbox_separator(data, start, stop)
    return read_clean(data, start, stop) or read_damaged(data, start, stop)


def read_clean(data: bytes, start: int, stop: int) -> Block | None:
    """The block at `start` when nothing in it needs a judgement: what `read_damaged` finds, ten times as fast."""
    limit = min(stop, start + _MAX_CLEAN)
    line_end = data.find(b"\n", start, limit) + 1
    if data[start:line_end] in (b"\n", b"\r\n"):
        return Block([], line_end)
    bare, paired = data.find(b"\n\n", start, limit), data.find(b"\n\r\n", start, limit)
    if bare < 0 and paired < 0:
        return None
    end = bare + 2 if paired < 0 or 0 <= bare < paired else paired + 3
    fields = []
    for name, value, junk in _CLEAN.findall(data, start, end - (1 if end == bare + 2 else 2)):
        if junk:
            return None
        fields.append(Field(name.decode("ascii"), value.strip(b" \t\r\n")))
    return None if len(fields) > MAX_FIELDS else Block(fields, end, is_clean=True)


def read_damaged(data: bytes, start: int, stop: int) -> Block:
    """The block at `start`, line by line, with a judgement of each that is no field."""
    limit = min(stop, start + _MAX_SCANNED)
    lines: list[tuple[int, int]] = []
    position, end = start, -1
    last_known = -1
    while position < limit:
        line_end = data.find(b"\n", position, limit) + 1 or limit
        first = data[position]
        if first in b" \t\r\n" and not data[position:line_end].strip() and _is_blank(data, position, line_end, limit):
            end = line_end
            break
        if first not in b" \t" and _KNOWN.match(data, position, line_end):
            last_known = len(lines)
        lines.append((position, line_end))
        position = line_end
    truncated = end < 0 and limit < stop
    if end < 0:
        blank = _BLANK_LINE.search(data, position - 1, stop) if truncated else None
        end = blank.end() if blank else stop
    return _fields(data, lines, last_known, end, truncated or end - start > MAX_BLOCK)


def _after_mailbox_separator(data: bytes, start: int, stop: int) -> int:
    if data.startswith(b"\xef\xbb\xbf", start):
        start += 3
    if _SEPARATOR.match(data, start, stop):
        start = data.find(b"\n", start, stop) + 1 or stop
    return start


def _is_blank(data: bytes, position: int, line_end: int, limit: int) -> bool:
    if data[position] not in b" \t":
        return True
    # A line of blanks ends the block, unless what follows it can only be more of the block.
    return data[line_end : line_end + 1] not in (b" ", b"\t") and not _KNOWN.match(data, line_end, limit)


def _fields(data: bytes, lines: list[tuple[int, int]], last_known: int, end: int, truncated: bool) -> Block:
    fields: list[Field] = []
    junk = 0
    name, value_start = "", -1
    previous_end = 0

    def finish() -> None:
        if value_start >= 0:
            fields.append(Field(name, data[value_start:previous_end].strip(b" \t\r\n")))

    for index, (position, line_end) in enumerate(lines):
        if data[position] in b" \t":
            junk += value_start < 0
            if value_start >= 0:
                previous_end = line_end
            continue
        match = _field_at(data, position, line_end)
        if match is None and index > last_known:
            finish()
            return Block(fields, position, junk, truncated)
        finish()
        if len(fields) >= MAX_FIELDS:
            return Block(fields, end, junk, truncated=True)
        if match is None:
            junk += 1
            value_start = -1
        else:
            name, value_start, previous_end = match[1].decode("ascii"), match.end(), line_end
    finish()
    return Block(fields, end, junk, truncated)


def _field_at(data: bytes, position: int, line_end: int) -> re.Match[bytes] | None:
    """The name of the field that starts here, its colon on this line or, where a mailer broke it off, on the next."""
    if match := _FIELD.match(data, position, line_end):
        return match
    return _BROKEN_NAME.match(data, position) if _NAME_ALONE.fullmatch(data, position, line_end) else None


def unfolded(value: bytes, hint: str = "") -> str:
    """A field's value as text on one line; raw 8-bit bytes are guessed at, encoded words stay as they are."""
    text = value.decode("ascii") if value.isascii() and b"\x1b" not in value else guess(value, hint)
    return _FOLD.sub(" ", text) if "\n" in text or "\r" in text else text
