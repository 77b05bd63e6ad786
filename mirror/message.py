"""A mail parsed: raw bytes in, typed fields out. Pure functions.

`read_message` finds the parts and undoes transfer encodings; text is decoded, cleaned and judged later, from what is
kept here, so that better rules can be applied again without the raw mail.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.invisible import Findings
from mirror.mail.header import MAX_BLOCK, Block
from mirror.mail.mime import Part, read_tree

MAX_MESSAGE = 50_000_000
MAX_BODIES = 4_000_000
_INLINE_MEDIA = ("image/", "audio/", "video/")
_NO_FALLBACK = ("text/calendar", "text/x-vcard", "text/vcard", "text/directory", "text/rfc822-headers", "text/css")


class Address(NamedTuple):
    """A mailbox of an address header: display name ("" for none) and addr-spec, decoded and cleaned."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attachment of a message.

    part: its section number (RFC 3501 6.4.5, `"2.1"`), stable for the message. filename: safe to write to a disk.
    size: decoded bytes. encoding: the Content-Transfer-Encoding to undo when the part is fetched by its number.
    content_id: without angle brackets, "" for none. inline: shown within the body rather than beside it.
    """

    part: str
    filename: str
    media_type: str
    size: int
    encoding: str = ""
    content_id: str = ""
    inline: bool = False

    def as_row(self) -> dict[str, str | int | bool]:
        """Its values by their names, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Body:
    """One text part that is shown as the body: its bytes decoded from the transfer encoding, not yet from a charset."""

    part: str
    media_type: str
    charset: str
    flowed: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """The source of a mail's content.

    header: the header block as received. hint: the charset its parts name first. text_body, html_body: which of
    `bodies` make up each form (RFC 8621 4.1.4). attachments: with file names as sent, not yet made safe.
    """

    header: bytes
    hint: str
    bodies: tuple[Body, ...]
    text_body: tuple[int, ...]
    html_body: tuple[int, ...]
    attachments: tuple[Attachment, ...]
    findings: dict[str, int]
    block: Block | None = field(default=None, repr=False, compare=False)
    """The fields of `header`, where nothing in it needed a judgement."""


Kept = tuple[tuple[str, bytes], ...]
"""(section number, decoded bytes) of attachments."""


def read_message(raw: bytes) -> Message:
    """The message in these bytes. Never raises: what cannot be read is left out, and `findings` says so."""
    return read_with_attachments(raw, 0)[0]


def read_with_attachments(raw: bytes, largest: int) -> tuple[Message, Kept]:
    """The same, with its attachments of at most so many bytes; none for 0."""
    findings = Findings()
    if len(raw) > MAX_MESSAGE:
        raw = raw[:MAX_MESSAGE]
        findings["truncated_message"] += 1
    raw = with_line_feeds(raw)
    root, hint = read_tree(raw, findings)
    selection = _Selection()
    selection.visit([root], "mixed", in_alternative=False)
    selection.fall_back()
    shown = {id(part): part for part in (*selection.text, *selection.html)}
    bodies = dict(zip(shown, _bodies(list(shown.values()), raw, findings), strict=True))
    order = list(bodies)
    attachments, kept = [], []
    for part in selection.attachments:
        data = part.data(raw)
        attachments.append(_attachment(part, len(data), selection))
        if largest and len(data) <= largest:
            kept.append((part.number, data))
    message = Message(
        header=raw[: root.start] if root.start <= MAX_BLOCK else root.block.shortened(),
        hint=hint,
        bodies=tuple(bodies.values()),
        text_body=tuple(order.index(id(part)) for part in selection.text),
        html_body=tuple(order.index(id(part)) for part in selection.html),
        attachments=tuple(attachments),
        findings=dict(findings | _named(root, selection)),
        block=root.block if root.block.is_clean and root.start <= MAX_BLOCK else None,
    )
    return message, tuple(kept)


def with_line_feeds(raw: bytes) -> bytes:
    """The mail from its first header line on; a mail with bare carriage returns for line ends gets line feeds."""
    if raw[:1] in (b"\r", b"\n"):
        raw = raw.lstrip(b"\r\n")
    if b"\r" in raw[:1_000_000] and b"\n" not in raw:
        return raw.replace(b"\r", b"\n")
    return raw


class _Selection:
    """Which parts are the body and which are attachments: the algorithm of RFC 8621 4.1.4."""

    def __init__(self) -> None:
        self.text: list[Part] = []
        self.html: list[Part] = []
        self.attachments: list[Part] = []
        self.inline: set[int] = set()

    def visit(
        self, parts: list[Part], kind: str, *, in_alternative: bool, to_text: bool = True, to_html: bool = True
    ) -> None:
        text_before, html_before = len(self.text), len(self.html)
        for index, part in enumerate(parts):
            if part.children:
                subtype = part.media_type.partition("/")[2]
                self.visit(
                    part.children,
                    subtype,
                    in_alternative=in_alternative or subtype == "alternative",
                    to_text=to_text,
                    to_html=to_html,
                )
                continue
            if part.media_type.startswith("multipart/") and part.stop <= part.start:
                continue
            is_media = part.media_type.startswith(_INLINE_MEDIA)
            # A multipart without parts is shown as the text it is.
            is_text = part.media_type in ("text/plain", "text/html") or part.media_type.startswith("multipart/")
            is_inline = (
                part.disposition != "attachment"
                and (is_text or is_media)
                and (index == 0 or (kind != "related" and (is_media or not part.filename)))
            )
            if not is_inline:
                self.attachments.append(part)
                if kind == "related" and part.disposition != "attachment":
                    self.inline.add(id(part))
                continue
            if kind == "alternative" and is_text:
                (self.html if part.media_type == "text/html" else self.text).append(part)
                continue
            if is_media:
                self.attachments.append(part)
                if part.content_id or part.disposition == "inline":
                    self.inline.add(id(part))
                continue
            if in_alternative and part.media_type == "text/html":
                to_text = False
            elif in_alternative and to_text:
                to_html = False
            if to_text:
                self.text.append(part)
            if to_html:
                self.html.append(part)
        if kind == "alternative":
            if len(self.text) == text_before and len(self.html) > html_before:
                self.text.extend(self.html[html_before:])
            elif len(self.html) == html_before and len(self.text) > text_before:
                self.html.extend(self.text[text_before:])

    def fall_back(self) -> None:
        """Show the first other text part when the mail has no body at all."""
        if self.text or self.html:
            return
        for part in self.attachments:
            is_text = part.media_type.startswith("text/") and not part.media_type.startswith(_NO_FALLBACK)
            if is_text and part.disposition != "attachment":
                self.text.append(part)
                self.html.append(part)
                return


def _bodies(parts: list[Part], raw: bytes, findings: Findings) -> list[Body]:
    bodies = []
    left = MAX_BODIES
    for part in parts:
        data = part.data(raw) if left else b""
        if len(data) > left or not left:
            findings["truncated_body"] += 1
            data = data[:left]
        left -= len(data)
        bodies.append(_body(part, data))
    return bodies


def _body(part: Part, data: bytes) -> Body:
    is_flowed = part.parameters.get("format", "").lower() == "flowed"
    flowed = ("delsp" if part.parameters.get("delsp", "").lower() == "yes" else "yes") if is_flowed else ""
    media_type = "text/html" if part.media_type == "text/html" else "text/plain"
    return Body(part.number, media_type, part.parameters.get("charset", "")[:60], flowed, data)


def _attachment(part: Part, size: int, selection: _Selection) -> Attachment:
    return Attachment(
        part=part.number,
        filename=part.filename[:2_000],
        media_type=part.media_type,
        size=size,
        encoding=part.encoding,
        content_id=part.content_id,
        inline=id(part) in selection.inline,
    )


def _named(root: Part, selection: _Selection) -> Findings:
    """Kinds of content a reader should know of: encrypted, signed, calendar."""
    findings = Findings()
    types = {root.media_type} | {part.media_type for part in selection.attachments}
    if types & {"multipart/encrypted", "application/pgp-encrypted"} or any(
        part.media_type in ("application/pkcs7-mime", "application/x-pkcs7-mime")
        and part.parameters.get("smime-type", "enveloped-data").lower() != "signed-data"
        for part in (root, *selection.attachments)
    ):
        findings["encrypted"] = 1
    if any("signed" in media_type or "signature" in media_type for media_type in types):
        findings["signed"] = 1
    if types & {"text/calendar", "application/ics"}:
        findings["calendar"] = 1
    return findings
