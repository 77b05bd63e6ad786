"""Patterns that people write into the configuration, on RE2: their time is linear in the text, whatever they say.

The only import of re2. A pattern that cannot be used is refused when the configuration is loaded, with the reason.
Several patterns are searched as one alternation, not as an RE2 set: a set that runs out of memory answers "no match",
where a single expression falls back to a slower way and stays right.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any

import re2
from pydantic import AfterValidator, StringConstraints

MAX_CHARS = 500
MAX_MEMORY = 1 << 20
"""Bytes that one pattern may take, compiled."""
_ALL_MEMORY = 64 << 20
_ANCHORS = ("^", "$", "\\A", "\\z")

Span = tuple[int, int]


class PatternRefused(ValueError):
    """RE2 cannot use the pattern, or it would match everywhere."""


def check_pattern(text: str) -> str:
    """The pattern, when it can be used. Raises PatternRefused with the reason."""
    if any(ord(character) < 0x20 and character != "\t" for character in text):
        raise PatternRefused("a pattern is one line: write \\n for a line end")
    if "\\Q" in text:
        raise PatternRefused("\\Q is not taken: escape each special character by itself")
    compiled = _compiled(text, MAX_MEMORY, ignore_case=False)
    if compiled.fullmatch(b"") is not None:
        raise PatternRefused("the pattern matches an empty text, so it would match everywhere: make it ask for more")
    return text


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CHARS), AfterValidator(check_pattern)]
"""A pattern as the configuration has it."""


class Patterns:
    """Several patterns over one text. is_anchored: whether one asks where the text begins or ends."""

    def __init__(self, patterns: Sequence[str], *, ignore_case: bool = False) -> None:
        self._each = [_compiled(pattern, MAX_MEMORY, ignore_case=ignore_case) for pattern in patterns]
        self._any = _compiled("|".join(f"(?:{each})" for each in patterns), _ALL_MEMORY, ignore_case=ignore_case)
        self.is_anchored = any(anchor in pattern for pattern in patterns for anchor in _ANCHORS)

    def found_in(self, text: str) -> bool:
        """Whether any of the patterns matches somewhere, in one pass."""
        return self._any.search(text.encode("utf-8", "replace")) is not None

    def first_in(self, text: str) -> int | None:
        """Which is the first of the patterns that matches somewhere."""
        encoded = text.encode("utf-8", "replace")
        if self._any.search(encoded) is None:
            return None
        return next(index for index, each in enumerate(self._each) if each.search(encoded) is not None)

    def spans(self, index: int, text: str) -> Iterator[Span]:
        """Where one of the patterns matches, in characters, leaving out where it matches nothing."""
        encoded = text.encode("utf-8", "replace")
        is_ascii = len(encoded) == len(text)
        bytes_before = characters_before = 0
        for match in self._each[index].finditer(encoded):
            start, end = match.span()
            if start == end:
                continue
            if is_ascii:
                yield start, end
                continue
            characters_before += len(encoded[bytes_before:start].decode("utf-8"))
            bytes_before = end
            length = len(encoded[start:end].decode("utf-8"))
            yield characters_before, characters_before + length
            characters_before += length


@lru_cache(maxsize=256)
def _compiled(pattern: str, max_memory: int, *, ignore_case: bool) -> Any:  # re2 has no types
    options = re2.Options()
    options.max_mem = max_memory
    options.log_errors = False
    # Without groups a match is found by RE2's automata alone.
    options.never_capture = True
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        reason = exc.args[0] if exc.args else ""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternRefused(f"RE2 does not take the pattern: {text}") from None
