"""A piece of a message's text around what a query found in it."""

from collections.abc import Iterator

from mirror.fold import fold_keeping_separators
from mirror.query.tree import All, Any, Contains, Node, TextContains

_BEFORE = 30


def snippet(text: str, node: Node | None, length: int) -> str:
    """About so many characters of a text on one line: around the first pattern that it has, else its beginning."""
    at = min((place for pattern in patterns(node) if (place := _place(text, pattern)) >= 0), default=0)
    start = max(0, at - _BEFORE)
    if start:
        start = text.find(" ", start, at) + 1 or start
    piece = " ".join(text[start : start + 2 * length].split())
    shown = piece if len(piece) <= length else piece[: length - 1].rstrip() + "…"
    return "…" + shown if start else shown


def patterns(node: Node | None) -> Iterator[str]:
    """What a message's text has to have, or may have, to match."""
    match node:
        case All(nodes) | Any(nodes):
            for each in nodes:
                yield from patterns(each)
        case Contains("body", pattern) | TextContains(pattern):
            yield pattern
        case _:
            return


def _place(text: str, pattern: str) -> int:
    """Where a pattern stands in a text, about: folding may have made what is before it longer or shorter."""
    place = text.lower().find(pattern.lower())
    return place if place >= 0 else fold_keeping_separators(text).find(fold_keeping_separators(pattern))
