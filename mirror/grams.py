"""What the index holds of header lines: pieces of their words, three characters long.

Header lines are full of words that nobody else has (identifiers, seals), so they have no table of words. Of a word of
four characters and more, the first three are held, and every three that begin two characters later. So, whatever four
characters stand in a word, three of them are held: the first or the last three. Which, depends on where in the word
they stand, so that a pattern is asked for in two ways, but for what surely begins a word. A character that is a word by
itself is held as it is; of words that are in nearly every mail nothing is. Lines that have a pattern have all that
asked_of() names in one way; lines that have these may lack the pattern.
"""

from collections.abc import Iterable

from mirror.fold import fold_whole, is_unspaced

_SIZE, _STEP = 3, 2
_IN_EVERY_MAIL = frozenset("""
    received from with esmtps smtp message date subject mime version content type text plain html charset boundary
    multipart alternative transfer encoding quoted printable base64 return path delivered reply references sender
    dkim signature sha256 relaxed authentication results header spf pass domain arc seal google mail list unsubscribe
    """.split())  # fmt: skip  # noqa: SIM905 - shorter to read
_MOST_ASKED = 12
"""More pieces of a pattern rule hardly anything more out."""


def grams_of(text: str) -> list[str]:
    """The pieces to hold of a text, each once."""
    words = set(fold_whole(text).split()) - _IN_EVERY_MAIL
    return list(
        dict.fromkeys(
            [word[at : at + _SIZE] for word in words if len(word) > _SIZE for at in range(0, len(word) - 2, _STEP)]
            + [word for word in words if len(word) == 1 and not word.isascii()]
        )
    )


def lines_text(headers: Iterable[tuple[str, str]]) -> str:
    """Header lines as conditions read them, one below the other."""
    return "\n".join([f"{name}: {value}" for name, value in headers])


def asked_of(pattern: str) -> list[list[str]]:
    """The ways to ask for a pattern: every text that has it, has all the pieces of one; none where it is too short."""
    folded = fold_whole(pattern)
    pieces = folded.split()
    first = pieces.pop(0) if pieces and not folded.startswith(" ") else ""
    begun = [gram for word in pieces for gram in _begun(word)]
    ways = [_cut(first, start) + begun for start in range(_STEP)] if len(first) > _SIZE else [_begun(first) + begun]
    return [_few(list(dict.fromkeys(way))) for way in ways] if all(ways) else []


def _begun(word: str) -> list[str]:
    """The pieces of a word that this one is, or begins; of a part of one, if it is a single character."""
    if len(word) > _SIZE:
        return _cut(word, 0)
    return [word] if len(word) == 1 and is_unspaced(word) else []


def _cut(word: str, start: int) -> list[str]:
    """The pieces of whatever word has this one in it, from one of its characters on; none of a word that many have."""
    if any(word in each for each in _IN_EVERY_MAIL):
        return []
    return [word[at : at + _SIZE] for at in range(start, len(word) - 2, _STEP)]


def _few(grams: list[str]) -> list[str]:
    return grams[:: -(-len(grams) // _MOST_ASKED)]
