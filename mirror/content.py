"""What a mail says, safe to read and to index. Pure: bytes in, one frozen value out.

    raw bytes -> message.read_message -> Message (parts, transfer encodings undone)
              -> read_content          -> Content (text, preview, small HTML, attachments, findings)
              -> sanitize.clean_html   -> the HTML that readers get (bleach), later than the text

Whatever a person would not see is in none of it. `findings` counts what was left out or looked odd: hidden_chars,
invisible_chars, low_contrast_chars, remote_images, alternative_mismatch, html_without_text (the text is a plain part
that nobody saw), html_not_read, display_name_has_other_address, mixed_script_name, idn_sender, several_senders,
att_path, att_active_type, att_double_extension, truncated_*, junk_header_lines, broken_boundary, encrypted, signed,
calendar, content_degraded. It informs, it does not decide.
"""

import re
from dataclasses import dataclass, replace

from mirror.envelope import Envelope, base_subject, read_envelope
from mirror.invisible import Findings, one_line, visible
from mirror.mail.charset import decode
from mirror.mail.filename import safe_filename
from mirror.mail.transfer import decode_part
from mirror.message import Address, Attachment, Body, Kept, Message, read_message, read_with_attachments
from mirror.page.html import Page, read_html
from mirror.page.plain import MAX_TEXT
from mirror.page.stripped import strip_tags
from mirror.record import CONTENT_VERSION
from mirror.reply import preview_of, reply_text
from mirror.source import packed, unpacked

__all__ = (
    "CONTENT_VERSION",
    "Address",
    "Attachment",
    "Content",
    "Envelope",
    "base_subject",
    "decode_part",
    "degraded",
    "read_content",
    "read_envelope",
    "read_with_kept",
    "recleaned",
    "reply_text",
)

_SHORTEST = 3
_WORD = re.compile(r"\w{3,}")
_SHARED_WORDS = 0.3
_MAX_COMPARED = 20_000
_BEGINNING = 2_000
_STUB = re.compile(r"(?i)\bhtml\b|view (?:this|it) in|web version|webversion|im browser|navigateur")
_META_CHARSET = re.compile(rb"(?i)<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]{2,40})")
_MAX_STUB = 300
_ASCII_WORDS = bytes(code if chr(code).isalnum() or code == 0x5F else 0x20 for code in range(128)) + bytes(
    range(128, 256)
)
_MAX_DEGRADED = 250_000


@dataclass(frozen=True, slots=True)
class Content:
    """What a mail says.

    text: plain text of what a person sees, indexed and read. preview: one line of at most 200 characters.
    normalised_html: input of `clean_html`, "" when the mail has no HTML; never served. source: for `recleaned`.
    """

    envelope: Envelope
    text: str
    preview: str
    attachments: tuple[Attachment, ...]
    normalised_html: str
    findings: dict[str, int]
    source: bytes


def read_content(raw: bytes) -> Content:
    """The content of a mail, without the sanitized HTML form. Never raises, for any bytes."""
    return read_with_kept(raw, 0)[0]


def read_with_kept(raw: bytes, largest: int) -> tuple[Content, Kept]:
    """The same, with its attachments of at most so many bytes; none for 0."""
    message, kept = read_with_attachments(raw, largest)
    return _cleaned(message, packed(message)), kept


def recleaned(source: bytes) -> Content:
    """The content by today's rules, from the `source` that an earlier version kept."""
    return _cleaned(unpacked(source), source)


def degraded(raw: bytes, reason: str) -> Content:
    """The content after reading it crashed or was stopped: headers and stripped text of its first part, cheap and safe.

    reason: one word for the findings ("timeout", "memory", "crash"). HTML is not parsed; text that may be hidden is
    left out. `recleaned` gives the same from its source.
    """
    message = read_message(raw[:_MAX_DEGRADED])
    word = re.sub("[^a-z_]", "", reason.lower())[:20]
    findings = Findings(message.findings) + Findings(["content_degraded", f"degraded_{word}"])
    if len(raw) > _MAX_DEGRADED:
        findings["truncated_input"] += 1
    message = replace(message, attachments=(), findings=dict(findings))
    return _cleaned(message, packed(message))


def _cleaned(message: Message, source: bytes) -> Content:
    envelope = read_envelope(message.header, message.hint, message.block)
    findings = Findings(message.findings) | Findings(envelope.findings)
    text, normalised_html = _shown(message, findings)
    attachments = tuple(
        replace(
            attachment,
            filename=safe_filename(attachment.filename, attachment.media_type, position, findings),
            media_type=one_line(attachment.media_type, 100, findings),
            content_id=one_line(attachment.content_id, 300, findings),
        )
        for position, attachment in enumerate(message.attachments, 1)
    )
    return Content(
        envelope=envelope,
        text=text,
        preview=preview_of(text),
        attachments=attachments,
        normalised_html=normalised_html,
        findings={name: count for name, count in sorted(findings.items()) if count},
        source=source,
    )


def _shown(message: Message, findings: Findings) -> tuple[str, str]:
    """(text, normalised HTML) of the bodies: from the HTML form where there is one that shows something."""
    if "content_degraded" in message.findings:
        return _stripped(message, findings), ""
    bodies = [message.bodies[index] for index in message.html_body or message.text_body]
    plain_bodies = [message.bodies[index] for index in message.text_body]
    if not any(body.media_type == "text/html" for body in bodies):
        return _joined_plain(bodies, message.hint, findings), ""
    page = Page()
    for body in bodies:
        decoded = _decoded(body, message.hint)
        if body.media_type == "text/html":
            read_html(decoded, page, findings)
        else:
            _write_plain(_plain(body, decoded, findings), page)
    if page.text.is_full:
        findings["truncated_text"] += 1
    if page.markup.truncated:
        findings["truncated_html"] += 1
    seen = page.text.text()
    plain_only = [body for body in plain_bodies if body.media_type == "text/plain" and body not in bodies]
    if plain_only:
        unseen = Findings()
        plain = _joined_plain(plain_only, message.hint, unseen)
        if page.text.is_blank:
            findings.update(unseen)
            findings["html_without_text"] += bool(plain.strip())
            return plain, ""
        if _differ(plain, seen):
            findings["alternative_mismatch"] += 1
    return seen, page.markup.html()


def _write_plain(written: str, page: Page) -> None:
    """A plain part between HTML parts, as it stands."""
    page.text.preformatted(1)
    page.text.write(written)
    page.text.preformatted(-1)
    if page.markup.open("pre"):
        page.markup.write(written)
        page.markup.close()


def _stripped(message: Message, findings: Findings) -> str:
    """Text of a mail that is not read: of HTML that cannot hide anything, or plain text where there is no HTML."""
    is_cut = "truncated_input" in message.findings and b"multipart/" in message.header.lower()
    html_bodies = [body for body in message.bodies if body.media_type == "text/html"]
    if is_cut or (html_bodies and len(html_bodies) != len(message.bodies)):
        # Of an alternative, a person sees the HTML: the plain form may say anything.
        findings["html_not_read"] += 1
        return ""
    texts = (
        strip_tags(_decoded(body, message.hint), findings)
        if body.media_type == "text/html"
        else _plain(body, _decoded(body, message.hint), findings)
        for body in (message.bodies[index] for index in message.text_body)
    )
    return "\n\n".join(text.strip() for text in texts if text.strip())


def _joined_plain(bodies: list[Body], hint: str, findings: Findings) -> str:
    texts = (_plain(body, _decoded(body, hint), findings).strip("\n") for body in bodies)
    text = "\n\n".join(text for text in texts if text.strip())
    if len(text) > MAX_TEXT:
        findings["truncated_text"] += 1
    return text[:MAX_TEXT]


def _decoded(body: Body, hint: str) -> str:
    charset = body.charset
    if not charset and body.media_type == "text/html" and (match := _META_CHARSET.search(body.data, 0, 4_096)):
        charset = match[1].decode("ascii")
    text = decode(body.data, charset, hint)
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _plain(body: Body, decoded: str, findings: Findings) -> str:
    text = visible(decoded, findings)
    return _unflowed(text, delete_space=body.flowed == "delsp") if body.flowed else text


def _unflowed(text: str, *, delete_space: bool) -> str:
    """Lines of format=flowed text (RFC 3676) joined to the paragraphs they were broken from."""
    lines: list[list[str]] = []
    depth_before, is_open = 0, False
    for line in text.split("\n"):
        content = line.lstrip(">")
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        is_soft = content.endswith(" ") and content != "-- "
        content = content[:-1] if is_soft and delete_space else content
        if is_open and depth == depth_before and content != "-- ":
            lines[-1].append(content)
        else:
            lines.append([f"{'>' * depth} " if depth else "", content])
        depth_before, is_open = depth, is_soft
    return "\n".join(map("".join, lines))


def _differ(plain: str, seen: str) -> bool:
    """The plain form says something else than the HTML form; a stub that points to the HTML does not."""
    if len(plain) <= _MAX_STUB and _STUB.search(plain):
        return False
    ours, seen = _words(plain[:_MAX_COMPARED].lower()), seen[:_MAX_COMPARED].lower()
    beginning = seen[: seen.rfind("\n", 0, max(len(plain), _BEGINNING)) + 1]
    if ours and len(ours & _words(beginning)) / len(ours) >= _SHARED_WORDS:
        return False  # what follows only adds to what they share
    theirs = _words(seen)
    if not ours or not theirs:
        return bool(ours)
    return len(ours & theirs) / min(len(ours), len(theirs)) < _SHARED_WORDS


def _words(text: str) -> set[str]:
    """What _WORD finds, but the pattern sees only what is not ASCII: it is slow."""
    words: set[str] = set()
    found = set(text.encode("utf-8", "replace").translate(_ASCII_WORDS).decode("utf-8").split())
    if text.isascii():
        return {word for word in found if len(word) >= _SHORTEST}
    for word in found:
        if not word.isascii():
            words.update(_WORD.findall(word))
        elif len(word) >= _SHORTEST:
            words.add(word)
    return words
