"""Characters that nobody sees: taken out of every string of a mail before anyone reads or indexes it.

Gone: the tag block, zero-width and bidirectional controls, soft hyphen, grapheme joiner, Hangul and Khmer fillers,
variation selectors, interlinear and musical format characters, C0 and C1 controls, noncharacters. A joiner stays where
a script needs it: between emoji, and after a letter of an Arabic, Indic or South-East Asian script.
"""

import re
from collections import Counter

Findings = Counter[str]
"""What was taken out or looked odd: name of the finding -> how often. Informs, does not decide."""

_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n\r")
_ODD = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_EMOJI = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_JOINED_SCRIPTS = "\u0600-\u08ff\u0900-\u0dff\u0e80-\u109f\u1780-\u17ff\u1800-\u18af\ua840-\ua87f\ua980-\ua9df"
_NEEDED_JOINER = re.compile(f"(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])|(?<=[{_JOINED_SCRIPTS}])[\u200c\u200d]")
_LINE_BREAKS = {"\u2028": "\n", "\u2029": "\n\n"}
_UNCOUNTED = re.compile("[\x00-\x1f\x7f-\x9f\ufe0e\ufe0f\ufeff\u2028\u2029\ud800-\udfff]")


def visible(text: str, findings: Findings) -> str:
    """The text without its invisible characters; how many went is counted as `invisible_chars`."""
    if text.isascii():
        # Deleted from bytes: a pattern needs ten times as long for a text without any.
        return text if text.isprintable() else text.encode("ascii").translate(None, _CONTROLS).decode("ascii")
    if not _ODD.search(text):
        return text
    text = text.replace("\ufe0f", "").replace("\ufe0e", "")
    needed = {match.start() for match in _NEEDED_JOINER.finditer(text)}
    gone = 0

    def shown(match: re.Match[str]) -> str:
        nonlocal gone
        character = match[0]
        if match.start() in needed:
            return character
        if not _UNCOUNTED.match(character):
            gone += 1
        if "\ud800" <= character <= "\udfff":
            return "\ufffd"
        return _LINE_BREAKS.get(character, "")

    text = _ODD.sub(shown, text)
    if gone:
        findings["invisible_chars"] += gone
    return text


def one_line(text: str, limit: int, findings: Findings) -> str:
    """The visible text on one line, cut at `limit` characters."""
    return " ".join(visible(text[: limit * 8], findings).split())[:limit].rstrip()
