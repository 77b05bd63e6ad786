"""What the index holds of header lines: pieces of their words, three characters long.

Header lines are full of words that nobody else has (identifiers, seals), so they have no table of words. A word of four
characters and more is cut at every character, and of each two neighbours one is held, which nearly halves them: the one
that is not in every mail, or else the greater. So, whatever four characters stand in a word, one of their two pieces is
held, and it is known which. A character that is a word by itself is held as it is. Lines that have a pattern have all
that asked_of() names; lines that have these may lack the pattern.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, pairwise

from mirror.fold import fold_whole, is_unspaced

_SIZE = 3
_IN_EVERY_MAIL = """
    received from with esmtps smtp message date subject mime version content type text plain html charset boundary
    multipart alternative transfer encoding quoted printable base64 return path delivered reply references sender
    dkim signature sha256 relaxed authentication results header spf pass domain arc seal google mail list unsubscribe
    """
_MOST_ASKED = 12
"""More pieces of a pattern rule hardly anything more out."""


def grams_of(text: str) -> list[str]:
    """The pieces to hold of a text, each once."""
    words = dict.fromkeys(fold_whole(text).split())
    return list(dict.fromkeys(chain.from_iterable(map(_of_word, words))))


def lines_text(headers: Iterable[tuple[str, str]]) -> str:
    """Header lines as conditions read them, one below the other."""
    return "\n".join([f"{name}: {value}" for name, value in headers])


def asked_of(pattern: str) -> list[str]:
    """Pieces that every text has which has a pattern; none when it is too short to say."""
    asked = list(dict.fromkeys(gram for piece in fold_whole(pattern).split() for gram in _of_part(piece)))
    return asked[:: -(-len(asked) // _MOST_ASKED)] if asked else []


def _of_part(piece: str) -> tuple[str, ...]:
    """The pieces that a word has which a piece of a pattern is in."""
    return _of_word(piece) if len(piece) > _SIZE or (len(piece) == 1 and is_unspaced(piece)) else ()


@lru_cache(maxsize=16_384)
def _of_word(word: str) -> tuple[str, ...]:
    if len(word) <= _SIZE:
        return (word,) if len(word) == 1 and not word.isascii() else ()
    grams = _cut(word)
    return tuple(
        [one if other in _COMMON or (one > other and one not in _COMMON) else other for one, other in pairwise(grams)]
    )


def _cut(word: str) -> list[str]:
    return [word[start : start + _SIZE] for start in range(len(word) - _SIZE + 1)]


_COMMON = frozenset(gram for word in _IN_EVERY_MAIL.split() for gram in _cut(word))
