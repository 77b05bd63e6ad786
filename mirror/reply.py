"""What a mail newly says: its text without quoted history and signature. For previews, and as an option of readers."""

import re

MAX_PREVIEW = 200
_MAX_LINES = 20_000
_ATTRIBUTION = re.compile(
    r"(?i)^(?:on\b.{4,200}\bwrote:|am\b.{4,200}\bschrieb\b.{0,100}:|le\b.{4,200}\ba écrit ?:|el\b.{4,200}\bescribió:|"
    r"il\b.{4,200}\bha scritto:|op\b.{4,200}\bschreef\b.{0,100}:|.{1,200}\b(?:wrote|writes|schrieb|skrev|a écrit) ?:)$"
)
_ATTRIBUTION_START = re.compile(r"(?i)^(?:on|am|le|el|il|op)\b.{4,160}$")
_ORIGINAL = re.compile(
    r"(?i)^(?:-{2,}\s*(?:original message|original appointment|forwarded message|ursprüngliche nachricht|"
    r"message d'origine|mensaje original|messaggio originale|weitergeleitete nachricht)\s*-{2,}|"
    r"begin forwarded message:|_{20,})$"
)
_FORWARDED_FIELD = re.compile(r"(?i)^\*?(?:from|von|de|da|van)\*? ?: ?\S")
_FORWARDED_NEXT = re.compile(
    r"(?i)^\*?(?:sent|date|to|subject|gesendet|datum|an|betreff|envoyé|enviado|inviato|cc)\*? ?:"
)
_SIGNATURE = re.compile(r"^(?:-- ?|—)$")
_SENT_FROM = re.compile(
    r"(?i)^(?:sent from my |sent from (?:mail|outlook|yahoo)|von meinem \w+ gesendet|envoyé de mon |get outlook for )"
)
_SAYS_NOTHING = frozenset(["", *"cChHjJkKmMnNpPqQrRtTuUwWxXyYzZ0123456789.,;:!?()[]{}<=+/\\|\"'#%&$@~^`"])
"""Characters that none of the lines looked for here begins with, unless a colon ends it."""
_TARGET = re.compile(r" ?<(?:https?|mailto|tel):[^>\s]*>")


def reply_text(text: str) -> str:
    """The text without quoted history, and without the signature below it."""
    lines = text.split("\n")[:_MAX_LINES]
    kept: list[str] = []
    introduced = 0
    for index, line in enumerate(lines):
        stripped = line.strip()
        if index >= introduced and stripped[:1] in _SAYS_NOTHING and not stripped.endswith(":"):
            kept.append(line.rstrip())
            continue
        if _ORIGINAL.match(stripped) or _SIGNATURE.match(line) or _starts_forwarded_header(lines, index):
            break
        if index < introduced or stripped.startswith(">") or _SENT_FROM.match(stripped):
            continue
        length = _attribution(lines, index, stripped)
        introduced = index + length
        if not length:
            kept.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Where quoted history is: quoted lines, the line that introduces them, and all below the head of an original."""
    spans: list[tuple[int, int]] = []
    lines = text.split("\n")
    start = introduced = 0
    for index, line in enumerate(lines):
        stripped = line.strip()
        if index >= _MAX_LINES or _ORIGINAL.match(stripped) or _starts_forwarded_header(lines, index):
            spans.append((start, len(text)))
            break
        if index >= introduced:
            introduced = index + _attribution(lines, index, stripped)
        end = start + len(line)
        if index < introduced or stripped.startswith(">"):
            is_next = bool(spans) and spans[-1][1] + 1 == start
            spans[-1:] = [(spans[-1][0], end)] if is_next else [*spans[-1:], (start, end)]
        start = end + 1
    return spans


def preview_of(text: str) -> str:
    """The first 200 characters of what the mail newly says, on one line; of the whole text when that is nothing."""
    for length in (5, 50, 0):
        candidate = reply_text(text[: MAX_PREVIEW * length]) if length else text[: MAX_PREVIEW * 5]
        shown = " ".join(_TARGET.sub("", candidate).replace(" | ", " ").split())
        if shown:
            return shown if len(shown) <= MAX_PREVIEW else shown[: MAX_PREVIEW - 1].rstrip() + "…"
    return ""


def _attribution(lines: list[str], index: int, stripped: str) -> int:
    """How many lines from here introduce the quote after them: 0, 1, or 2 where a mailer broke the line."""
    if not stripped.endswith(":") and not _ATTRIBUTION_START.match(stripped):
        return 0
    below = [line.strip() for line in lines[index + 1 : index + 5]]
    if len(stripped) <= 400 and _ATTRIBUTION.match(stripped):
        return 1 if _comes_to_a_quote(below) else 0
    if below and _ATTRIBUTION_START.match(stripped) and _ATTRIBUTION.match(f"{stripped} {below[0]}"[:600]):
        return 2 if _comes_to_a_quote(below[1:]) else 0
    return 0


def _comes_to_a_quote(lines: list[str]) -> bool:
    return next((line for line in lines if line), "").startswith(">")


def _starts_forwarded_header(lines: list[str], index: int) -> bool:
    if not _FORWARDED_FIELD.match(lines[index].strip()):
        return False
    following = [line.strip() for line in lines[index + 1 : index + 5]]
    return sum(_FORWARDED_NEXT.match(line) is not None for line in following) >= 2
