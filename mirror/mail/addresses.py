"""Address headers: mailboxes and groups, decoded only after they are taken apart.

Decoding first would let an encoded comma or angle bracket forge a second mailbox.
"""

import re

from mirror.mail.words import decode_words

MAX_LENGTH = 262_144
_MAX_COMMENTS = 200
_MAX_ESCAPES = 500
_MAX_NAME = 2_000
_TOKEN = re.compile(
    r'"((?:[^"\\]|\\.)*)"|<([^<>]*)>|([,;:()])|(=\?[^\s?]{1,60}\?[bBqQ]\?[^?]*\?=|\\.|[^",;:<>()\\=]+)|.', re.S
)
# One mailbox without comments, escapes or groups: its display name, quoted or not, and its address; or that alone.
_ORDINARY = re.compile(
    r'(?:"([^"\\]*+)"|([^"\\()<>,;:]*+))[ \t]*+<([^\s"\\()<>,;:@]++@[^\s"\\()<>,;:@]++)>|'
    r'([^\s"\\()<>,;:@.]++(?:\.[^\s"\\()<>,;:@.]++)*+@[^\s"\\()<>,;:@.]++(?:\.[^\s"\\()<>,;:@.]++)*+)'
)
_MAX_ORDINARY = 200
_SPACED_ADDR_SPEC = re.compile(r"[^\s<>\"@.]+(?:\s*\.\s*[^\s<>\"@.]+)*\s*@\s*[^\s<>\"@.]+(?:\s*\.\s*[^\s<>\"@.]+)*")
_BLANKS_AND_COMMENTS = re.compile(r"\([^()]*\)|\s+")
_ESCAPE = re.compile(r"\\(.)", re.S)


def read_addresses(value: str) -> list[tuple[str, str]]:
    """(display name, addr-spec) of every mailbox, groups flattened; "" where one of the two is missing."""
    return read_one(value) or read_all(value[:MAX_LENGTH])


def read_one(value: str) -> list[tuple[str, str]]:
    """What `read_all` finds, where that is one mailbox written in an ordinary way; nothing otherwise."""
    if len(value) <= _MAX_ORDINARY and (match := _ORDINARY.fullmatch(value)):
        return [(" ".join(decode_words((match[1] or match[2] or "").strip()).split()), match[3] or match[4])]
    return []


def read_all(value: str) -> list[tuple[str, str]]:
    """Every mailbox, read token by token."""
    if value.count("(") > _MAX_COMMENTS:
        value = value.replace("(", " ").replace(")", " ")
    if value.count("\\") > _MAX_ESCAPES:
        value = value.replace("\\", "")
    reading = _Reading()
    for match in _TOKEN.finditer(value):
        reading.take(match, value)
    reading.finish()
    return reading.mailboxes


class _Reading:
    """The mailbox being read, and those already read."""

    def __init__(self) -> None:
        self.mailboxes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.address: str | None = None
        self.comments: list[str] = []
        self.comment: list[str] = []
        self.depth = 0

    def take(self, match: re.Match[str], value: str) -> None:
        piece = match[0]
        if self.depth or piece == "(":
            self._take_comment(piece)
        elif match[1] is not None:
            is_local_part = value.startswith("@", match.end())
            self.words.append(piece if is_local_part else _ESCAPE.sub(r"\1", match[1]))
        elif match[2] is not None:
            if self.address is not None and "@" in match[2]:
                self.finish()
            if self.address is None:
                self.address = match[2]
        elif piece in (",", ";"):
            self.finish()
        elif piece == ":":
            if self.address is None and not any("@" in word for word in self.words):
                self.words, self.comments = [], []
            elif self.address is None:
                self.words.append(piece)
        else:
            self.words.append(piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece)

    def _take_comment(self, piece: str) -> None:
        if piece == "(":
            self.depth += 1
            if self.depth == 1:
                self.comment = []
                return
        elif piece == ")":
            self.depth -= 1
            if self.depth == 0:
                self.comments.append(decode_words("".join(self.comment).strip()[:_MAX_NAME]))
                return
        self.comment.append(piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece)

    def finish(self) -> None:
        """End the mailbox being read, if there is one."""
        if self.depth:
            self.words.extend(self.comment)
            self.depth = 0
        written = "".join(self.words).strip()
        name, address = written, self.address
        if address is None:
            name, address = _taken_apart(written)
        if not name and self.comments:
            name = " ".join(self.comments)
        if not address.startswith('"'):
            address = _BLANKS_AND_COMMENTS.sub("", address)
        if address.startswith("@") and ":" in address:
            address = address.partition(":")[2]
        name = " ".join(decode_words(name[:_MAX_NAME]).split())
        if name or address:
            self.mailboxes.append((name, address))
        self.words, self.address, self.comments = [], None, []


def _taken_apart(written: str) -> tuple[str, str]:
    """(name, addr-spec) of a mailbox written without angle brackets."""
    if spaced := _SPACED_ADDR_SPEC.fullmatch(written[:_MAX_NAME]):
        return "", spaced[0]
    left, at, right = written.partition("@")
    if not at:
        return written, ""
    start = left.rfind('"', 0, -1) if left.endswith('"') else max(left.rfind(character) for character in ' \t"<>') + 1
    stop = min(found for found in (*(right.find(character) for character in ' \t"<>'), len(right)) if found >= 0)
    if start in (-1, len(left)) or stop == 0:
        return written, ""
    return f"{left[:start]}{right[stop:]}".strip(), f"{left[start:]}@{right[:stop]}"
