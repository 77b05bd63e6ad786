"""The MIME tree of a message as slices of its bytes, bounded in depth, parts and work.

Each multipart is cut at its own delimiter lines before its children are looked at, so an outer delimiter always ends
what an inner one left open. Nothing is copied until a part is decoded.
"""

import re
from dataclasses import dataclass, field

from mirror.invisible import Findings
from mirror.mail.charset import codec_of
from mirror.mail.header import Block, read_block, unfolded
from mirror.mail.parameters import media_type_of, read_parameters
from mirror.mail.transfer import decode_part, encoding_of

MAX_DEPTH = 100
MAX_PARTS = 2_000
_MAX_SCANNED = 400_000_000
_GUESSED_DELIMITER = re.compile(rb"(?m:^)--([^\s-][^\r\n]{0,200}?)[ \t]*\r*\n(?=[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-)")
_CHARSET = re.compile(rb"(?i)charset\s*=\s*[\"']?([\w.:-]{2,40})")
_MAX_JUNK = 1_000
_HINT_WITHIN = 65_536


@dataclass(slots=True)
class Part:
    """One part: what its headers say and where its body lies. `number` is its section number (RFC 3501 6.4.5)."""

    number: str
    block: Block
    media_type: str
    parameters: dict[str, str]
    disposition: str
    filename: str
    content_id: str
    encoding: str
    start: int
    stop: int
    children: list["Part"] = field(default_factory=list)

    def data(self, raw: bytes) -> bytes:
        """The part's bytes with the transfer encoding undone."""
        return decode_part(raw[self.start : self.stop], self.encoding)


def read_tree(raw: bytes, findings: Findings) -> tuple[Part, str]:
    """The root part of a message, and the charset that its parts name first (a hint for raw 8-bit headers)."""
    match = _CHARSET.search(raw, 0, _HINT_WITHIN)
    hint = match[1].decode("ascii", "ignore") if match else ""
    if hint and codec_of(hint) is None:
        hint = ""
    return _Reading(raw, hint, findings).part(0, len(raw), "", "text/plain", 0), hint


class _Reading:
    """One pass over a message, with what it has spent of its limits."""

    def __init__(self, raw: bytes, hint: str, findings: Findings) -> None:
        self.raw = raw
        self.hint = hint
        self.findings = findings
        self.parts = 0
        self.scanned = 0

    def part(self, start: int, stop: int, number: str, default_type: str, depth: int) -> Part:
        self.parts += 1
        block = read_block(self.raw, start, stop)
        if block.junk:
            self.findings["junk_header_lines"] += block.junk
        if block.truncated:
            self.findings["truncated_headers"] += 1
        value, parameters = read_parameters(unfolded(block.first("content-type"), self.hint))
        disposition, disposition_parameters = read_parameters(unfolded(block.first("content-disposition"), self.hint))
        part = Part(
            number=number,
            block=block,
            media_type=media_type_of(value, default_type),
            parameters=parameters,
            disposition=disposition,
            filename=(disposition_parameters.get("filename") or parameters.get("name") or "").strip(),
            content_id=unfolded(block.first("content-id")[:1_000]).strip().strip("<>"),
            encoding=encoding_of(unfolded(block.first("content-transfer-encoding")[:1_000])),
            start=block.end,
            stop=stop,
        )
        if part.media_type.startswith("multipart/"):
            self._descend(part, depth)
        if not number and not part.children:
            part.number = "1"
        return part

    def _descend(self, part: Part, depth: int) -> None:
        if depth >= MAX_DEPTH:
            self.findings["truncated_depth"] += 1
            return
        boundary = part.parameters.get("boundary", "").rstrip().encode("utf-8", "replace")
        spans = self._spans(part, boundary) if boundary else []
        if not spans and (guessed := _GUESSED_DELIMITER.search(self.raw, part.start, part.stop)):
            self.findings["broken_boundary"] += 1
            spans = self._spans(part, guessed[1])
        if not spans and not self.raw[part.start : part.stop][:_MAX_JUNK].translate(None, b"- \t\r\n").strip(boundary):
            part.stop = part.start
        default_type = "message/rfc822" if part.media_type == "multipart/digest" else "text/plain"
        for index, (start, stop) in enumerate(spans, 1):
            if self.parts >= MAX_PARTS:
                self.findings["truncated_parts"] += 1
                break
            number = f"{part.number}.{index}" if part.number else str(index)
            part.children.append(self.part(start, stop, number, default_type, depth + 1))

    def _spans(self, part: Part, boundary: bytes) -> list[tuple[int, int]]:
        raw, stop = self.raw, part.stop
        self.scanned += stop - part.start
        if self.scanned > _MAX_SCANNED:
            self.findings["truncated_depth"] += 1
            return []
        delimiter = b"--" + boundary
        spans: list[tuple[int, int]] = []
        opened = -1
        position = part.start
        while len(spans) <= MAX_PARTS:
            found = raw.find(delimiter, position, stop)
            if found < 0:
                break
            position = found + len(delimiter)
            if found > part.start and raw[found - 1] != 0x0A:
                continue
            line_end = raw.find(b"\n", position, stop) + 1 or stop
            rest = raw[position : min(line_end, position + 200)].strip(b" \t\r\n")
            if rest not in (b"", b"--"):
                continue
            if opened >= 0:
                spans.append((opened, max(opened, _before_line_break(raw, found))))
            position, opened = line_end, line_end
            if rest == b"--":
                opened = -1
                break
        if opened >= 0:
            spans.append((opened, stop))
        return spans


def _before_line_break(raw: bytes, position: int) -> int:
    """The end of the content before a delimiter: the line break in front of it belongs to the delimiter."""
    position -= 1
    return position - 1 if position > 0 and raw[position - 1] == 0x0D else position
