"""A text as the rules of redaction read it: plain digits, letters, blanks and dashes, nothing invisible.

Full-width and mathematical forms become the letters they stand for, the digits of every script 0 to 9, every blank a
space and every dash a hyphen; invisible characters and marks that compose with nothing are left out. Each place in it
leads back to the text it was made from.
"""

import unicodedata
from dataclasses import dataclass

Span = tuple[int, int]

_ASCII = bytes(range(128))
_ELSEWHERE = "\ufdd0"
"""Stands for a character that becomes none or several ones; no mirrored text has it."""
_UNSEEN = ("Cc", "Cf", "Cn", "Cs")
_LONGEST_CHARACTER = 32
"""Normalising takes time that grows with the square of how many marks follow each other."""
_MARKS = ("Mn", "Mc", "Me")
_VOWELS_OF_HANGUL = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7fb"))


@dataclass(frozen=True, slots=True)
class Plain:
    """A plain text, and the way back from it.

    places: where each of its characters begins in the original, and at last its end; None where nothing has moved.
    """

    text: str
    places: tuple[int, ...] | None = None

    def original(self, span: Span) -> Span:
        """The same span of the text it was made from."""
        start, end = span
        if self.places is None:
            return span
        return self.places[start], self.places[end] if end == len(self.text) else max(
            self.places[end], self.places[end - 1] + 1
        )


def plain(text: str) -> Plain:
    """A text as rules read it."""
    if text.isascii():
        return Plain(text)
    others = set(text.encode("utf-8", "replace").translate(None, _ASCII).decode("utf-8"))
    changes = {ord(each): becomes for each in others if (becomes := _ONE_FOR_ONE[each]) != each}
    if _ELSEWHERE in changes.values():
        return _piece_by_piece(text)
    return Plain(text.translate(changes) if changes else text)


def whole_characters(text: str, span: Span) -> Span:
    """The span, widened so that no character at its edges composes with one on the other side."""
    start, end = span
    while 0 < start < len(text) and composes(text[start]):
        start -= 1
    while end < len(text) and composes(text[end]):
        end += 1
    return start, end


def composes(character: str) -> bool:
    """Whether a character may become one with the character before it."""
    if character.isascii():
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.category(first) in _MARKS or any(low <= first <= high for low, high in _VOWELS_OF_HANGUL)


def _piece_by_piece(text: str) -> Plain:
    characters: list[str] = []
    places: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and end - start < _LONGEST_CHARACTER and composes(text[end]):
            end += 1
        for character in unicodedata.normalize("NFKC", text[start:end]):
            for each in _plain_character(character):
                characters.append(each)
                places.append(start)
        start = end
    return Plain("".join(characters), (*places, len(text)))


def _plain_character(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category in _UNSEEN or category in _MARKS:
        return ""
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    if category == "Zs":
        return " "
    if category in ("Zl", "Zp"):
        return "\n"
    if category == "Pd" or character == "\u2212":
        return "-"
    return unicodedata.normalize("NFKC", character)


class _OneForOne(dict[str, str]):
    """What each character becomes where it becomes one, worked out once for each character met."""

    def __missing__(self, character: str) -> str:
        alone = "" if composes(character) else unicodedata.normalize("NFKC", character)
        becomes = "".join(map(_plain_character, alone))
        self[character] = found = becomes if len(becomes) == 1 else _ELSEWHERE
        return found


_ONE_FOR_ONE = _OneForOne()
