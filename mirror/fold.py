"""One folding of text for the index and for patterns, so that both sides agree on what is equal.

fold_keeping_separators() defines equality: a pattern is found where its folded form is a substring of the folded text.
It casefolds, takes compatibility forms apart (`ﬁ` is `fi`, `①` is `1`, full width is plain, a no-break space is a
blank) and drops the accents of Latin, Greek and Cyrillic: every combining mark of the blocks in _ACCENTS. The marks of
other scripts carry meaning and stay (`が` is not `か`; Thai, Arabic, Hebrew and Indic signs), and so do letters that
Unicode does not take apart (`ø`, `ł`, `æ`).

fold() maps that text, character by character, to what the index holds, so that whatever is a substring of the one is a
run of word parts of the other. A word is a run of letters, digits and marks. The characters of scripts written without
blanks (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) and symbols outside ASCII (emoji, currencies) are words of their
own. A word of more than LONGEST_WORD characters is replaced by LONG_WORD: the index takes no longer ones.
"""

import json
import re
import unicodedata
from functools import lru_cache

FOLD_VERSION = 1

LONGEST_WORD = 500
LONG_WORD = "\ue000"
"""Stands for every word that is too long; private use, so that no folded text contains it by itself."""

_ACCENTS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_TOO_LONG = re.compile(f"[^ ]{{{LONGEST_WORD + 1},}}")
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3040, 0x31FF),  # kana, Bopomofo, Hangul compatibility
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_UNSPACED_RUN = re.compile("[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in _UNSPACED) + "]+")
_ASCII_WORDS = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 0x20 for code in range(128)) + bytes(
    range(128, 256)
)


def fold(text: str) -> str:
    """Text as the index holds it: words of equal letters, separated by blanks."""
    words = fold_whole(text)
    return _TOO_LONG.sub(LONG_WORD, words) if _may_have_too_long(words) else words


def _may_have_too_long(words: str) -> bool:
    # A word that is too long covers, of all blocks of half its length, one from end to end.
    half = LONGEST_WORD // 2
    return any(words.find(" ", at, at + half) < 0 for at in range(0, len(words) - half, half))


def fold_whole(text: str) -> str:
    """The same, with words of any length."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_WORDS).decode("ascii")
    changes: list[tuple[str, str]] = []
    for character in _others(text):
        words = _WORDS_ALONE[character]
        if words is None:
            return _words(fold_keeping_separators(text))
        if words != character:
            changes.append((character, words))
    return _spaced(text, changes)


def fold_keeping_separators(text: str) -> str:
    """Text as substrings are compared: casefolded, compatibility forms, accents dropped, separators kept."""
    if text.isascii():
        return text.lower()
    # lower() first changes no result, for any character (tested), and is the fast way to fold the ASCII part.
    lowered = text.lower()
    changes: list[tuple[str, str]] = []
    for character in _others(lowered):
        folded = _ALONE[character]
        if folded is None:
            # No composition reaches over the border between ASCII and other characters: the marks that would are
            # dropped.
            return _NOT_ASCII.sub(_fold_match, lowered)
        if folded != character:
            changes.append((character, folded))
    return _replaced(lowered, changes)


def holds_folded(text: str, folded_pattern: str) -> bool:
    """Whether the folded text has a folded pattern as a substring."""
    if folded_pattern.isascii():
        # Folding leaves what is ASCII after lower(), so that what is there already need not be folded to be found.
        lowered = text.lower()
        if folded_pattern in lowered:
            return True
        if has_no_hidden_ascii(lowered):
            return False
    elif _stays(folded_pattern):
        lowered = text.lower()
        at = lowered.find(folded_pattern)
        after = lowered[at + len(folded_pattern) : at + len(folded_pattern) + 1]
        if at >= 0 and (after.isascii() or _ALONE[after] is not None):
            return True
    return folded_pattern in fold_keeping_separators(text)


@lru_cache(maxsize=256)
def _stays(pattern: str) -> bool:
    """Whether folding leaves a pattern as it is within any text, but for what the character after it may do to it."""
    return all(each.isascii() or _ALONE[each] == each for each in pattern)


def has_no_hidden_ascii(lowered: str) -> bool:
    """Whether folding puts no ASCII in the place of any character of a text that is in lower case.

    What is ASCII in the folded text stands in this one as it is, then.
    """
    if lowered.isascii() or not lowered.encode("utf-8", "surrogatepass").translate(None, _QUIET_OCTETS):
        return True
    others = _without_ascii(lowered)
    if _LOUD.search(others) is None or _SILENT.issuperset(others):
        return True
    for character in set(others) - _SILENT:
        folded = _ALONE[character]
        if folded is None or not folded or any(each.isascii() for each in folded):
            return False
        if len(_SILENT) < _MOST_KNOWN:
            _SILENT.add(character)
    return True


def _others(text: str) -> set[str]:
    """The distinct characters of a text that are not ASCII."""
    return set(_without_ascii(text))


def _without_ascii(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _replaced(text: str, changes: list[tuple[str, str]]) -> str:
    """The text with single characters replaced by what none of the changes changes again."""
    if len(changes) > _MOST_REPLACED:
        return text.translate({ord(character): folded for character, folded in changes})
    for character, folded in changes:
        text = text.replace(character, folded)
    return text


def _words(folded: str) -> str:
    """Folded text with its separators as blanks, and blanks around each character that is a word by itself."""
    return _spaced(folded, [(each, _WORDS[each]) for each in _others(folded) if _WORDS[each] != each])


def _spaced(text: str, changes: list[tuple[str, str]]) -> str:
    """The text with single characters replaced, and of ASCII the separators by blanks and capitals by small letters."""
    spaced = text.encode("utf-8", "surrogatepass").translate(_ASCII_WORDS).decode("utf-8", "surrogatepass")
    if len(changes) > _FEW_REPLACED:
        spaced = _UNSPACED_RUN.sub(_apart, spaced)
        changes = [change for change in changes if change[1] != f" {change[0]} " or not _UNSPACED_RUN.match(change[0])]
    # A character that gets blanks around it may also come, with its blanks, in the place of another.
    return _replaced(spaced, sorted(changes, key=_brings_others))


def _apart(run: re.Match[str]) -> str:
    return f" {' '.join(run[0])} "


def _brings_others(change: tuple[str, str]) -> bool:
    return change[0] not in change[1]


def is_unspaced(character: str) -> bool:
    """Whether a folded character is a word of its own in the index."""
    code = ord(character)
    if code < 0x80 or character == LONG_WORD:
        return False
    return any(low <= code <= high for low, high in _UNSPACED) or unicodedata.category(character)[0] == "S"


def people(addresses: str) -> str:
    """The searchable text of a stored address list (JSON `[[name, address], …]`)."""
    return ", ".join(f"{name} <{address}>" if name else address for name, address in json.loads(addresses))


class _Words(dict[str, str]):
    """What a folded character becomes in the index, worked out once for each character met."""

    def __missing__(self, character: str) -> str:
        if is_unspaced(character):
            word = f" {character} "
        elif character.isalnum() or unicodedata.category(character)[0] == "M":
            word = character
        else:
            word = " "
        if len(self) < _MOST_KNOWN:
            self[character] = word
        return word


_WORDS = _Words()


class _Alone(dict[str, str | None]):
    """What a lower-case character becomes whatever stands beside it, or None where that depends on its neighbours."""

    def __missing__(self, character: str) -> str | None:
        folded = _fold_run(character)
        stands_alone = all(map(_composes_with_nothing, folded)) and all(_fold_run(each) == each for each in folded)
        if len(self) < _MOST_KNOWN:
            self[character] = folded if stands_alone else None
        return folded if stands_alone else None


def _composes_with_nothing(character: str) -> bool:
    """Whether normalisation never joins a character to the one before it: it is no mark and no part of a syllable."""
    is_jamo = any(low <= ord(character) <= high for low, high in _JAMO)
    return unicodedata.category(character)[0] != "M" and not is_jamo


_ALONE = _Alone()


class _WordsAlone(dict[str, str | None]):
    """What a character becomes in the index whatever stands beside it, or None where that depends on its neighbours."""

    def __missing__(self, character: str) -> str | None:
        folded = _ALONE[character]
        words = None if folded is None else _words(folded)
        if len(self) < _MOST_KNOWN:
            self[character] = words
        return words


_WORDS_ALONE = _WordsAlone()
_SILENT: set[str] = set()
"""Characters met that folding keeps, or replaces by others without ASCII, whatever stands beside them."""
QUIET = (
    "\u0386-\u0482\u048a-\u0590\u05c8-\u060f\u061b-\u064a\u0660-\u066f\u0671-\u06d5\u0904-\u0939\u0e4f-\u0eb0"
    "\u109e-\u10ff\u2190-\u2245\u24eb-\u2a73\u3001-\u3029\u3030-\u3098\u309d-\u3130\u3400-\ua66e\uac00-\ud7a3"
    "\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff"
)
"""The scripts and signs that most mail not in Latin letters has, of which the same is known before they are met."""
_QUIET_OCTETS = bytes((*range(0xC0), *range(0xE4, 0xEA), 0xEB, 0xEC))
"""What UTF-8 makes of ASCII, Han and Hangul: U+4000 to U+9FFF and U+B000 to U+CFFF, all of them within these."""
_LOUD = re.compile(f"[^{QUIET}]")
_JAMO = ((0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF))
_MOST_REPLACED = 32
_FEW_REPLACED = 8
_MOST_KNOWN = 50_000
"""Characters remembered; more are in no mail that wants to be read."""
_ASCII = bytes(range(128))


def _fold_run(run: str) -> str:
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", run).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed))


_fold_short_run = lru_cache(maxsize=4096)(_fold_run)


def _fold_match(match: re.Match[str]) -> str:
    run = match[0]
    return _fold_short_run(run) if len(run) <= 4 else _fold_run(run)
