"""Substring tests that SQLite makes by itself, without calling back for each row.

LIKE folds ASCII as fold_keeping_separators() does, so that on a text of nothing but ASCII it is the same test for a
pattern of ASCII. A text is ASCII when it has as many characters as octets; one with a NUL has
fewer, and is left to the callback, as is everything that LIKE takes otherwise.
"""

from mirror.fold import LONGEST_WORD

_LONGEST = LONGEST_WORD
"""Characters of a pattern for LIKE: it takes no more than 50,000 octets, escapes included, by SQLite's default."""
_WILD = str.maketrans({"%": "\\%", "_": "\\_", "\\": "\\\\"})
_ARE_AS_STORED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789 !#$%&'()*+-./;=?@^_`{|}~")
"""ASCII that JSON neither escapes nor puts between values, and no address list or header line puts there."""


def is_plain(column: str) -> str:
    """SQL: whether a column's text is nothing but ASCII. Never NULL."""
    return f"(length({column}) IS length(CAST({column} AS BLOB)) AND {column} IS NOT NULL)"


def is_hidden(column: str) -> str:
    """SQL: whether values in a column of JSON may have an ASCII pattern although LIKE does not find it there."""
    return f"(NOT {is_plain(column)} OR instr({column}, '\\u') > 0)"


def like(folded_pattern: str) -> str | None:
    """What to ask of LIKE … ESCAPE '\\' for a folded pattern, None where LIKE cannot tell."""
    if not folded_pattern or not folded_pattern.isascii() or len(folded_pattern) > _LONGEST:
        return None
    return "%" + folded_pattern.translate(_WILD) + "%"


def like_in_json(folded_pattern: str) -> str | None:
    """The same for lists of values that are stored as JSON, where a pattern can only be within one value."""
    is_within = _ARE_AS_STORED.issuperset(folded_pattern) and folded_pattern.strip(" ") == folded_pattern
    return like(folded_pattern) if is_within else None
