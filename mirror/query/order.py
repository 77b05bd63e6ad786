"""Sort orders: their keys in SQL and of a message, and where a page goes on.

A key compares stored text as UTF-8, which is the order of Python's strings. After the keys, newest first: by content
id, then by message id, so that every order is total and a page can start after any row.
"""

from collections.abc import Sequence

from mirror.envelope import base_subject
from mirror.fold import fold_keeping_separators
from mirror.message import Address
from mirror.mirrored import MirroredMessage
from mirror.query.sql import TRUE, Fragment, joined
from mirror.query.tree import Sorter, SortKey, seconds

Key = str | int
Position = tuple[Key, ...]
"""Where a page ended: the values of the sort keys, then the content's and the message's id."""

KEY_BYTES = 64

_EXPRESSIONS: dict[SortKey, str] = {
    "date": "coalesce(content.sent, content.internaldate)",
    "subject": "content.subject_key",
    "from": "content.from_key",
    "to": "content.to_key",
}


def columns(order: Sequence[Sorter]) -> str:
    """The keys as a list of result columns, each with a comma after it."""
    return "".join(_EXPRESSIONS[sorter.key] + ", " for sorter in order)


def order_by(order: Sequence[Sorter]) -> str:
    """The whole order, for ORDER BY."""
    directions = (" DESC, ", " ASC, ")
    return (
        "".join(_EXPRESSIONS[each.key] + directions[not each.descending] for each in order)
        + "content.id DESC, message.id DESC"
    )


def rest(order: Sequence[Sorter], after: Position | None) -> Fragment:
    """What comes after a position, as a condition."""
    if after is None:
        return TRUE
    fragment = Fragment("(content.id, message.id) < (?, ?)", after[-2:])
    for sorter, value in zip(reversed(order), reversed(after[:-2]), strict=True):
        expression = _EXPRESSIONS[sorter.key]
        beyond = Fragment(expression + (" < ?" if sorter.descending else " > ?"), (value,))
        same = joined("AND", (Fragment(expression + " = ?", (value,)), fragment))
        # The first of these by itself is what an index can begin at.
        at_or_beyond = Fragment(expression + (" <= ?" if sorter.descending else " >= ?"), (value,))
        fragment = joined("AND", (at_or_beyond, joined("OR", (beyond, same))))
    return fragment


def keys(order: Sequence[Sorter], message: MirroredMessage) -> Position:
    """The position of a message in an order, from what the message shows."""
    return (*(_key(sorter.key, message) for sorter in order), message.content, message.id)


def is_after(order: Sequence[Sorter], position: Position, after: Position) -> bool:
    """Whether a position comes after another one."""
    for sorter, value, bound in zip(order, position, after, strict=False):
        if value != bound:
            return (value < bound) == sorter.descending  # type: ignore[operator]  # both are keys of one sorter
    return position[-2:] < after[-2:]


def arranged(order: Sequence[Sorter], positions: list[Position]) -> list[Position]:
    """Positions in their order."""
    positions.sort(key=lambda position: position[-2:], reverse=True)
    for index in reversed(range(len(order))):
        positions.sort(key=lambda position: position[index], reverse=order[index].descending)
    return positions


def _key(key: SortKey, message: MirroredMessage) -> Key:
    match key:
        case "date":
            return seconds(message.date or message.internaldate)
        case "subject":
            return _cut(base_subject(message.subject))
        case "from":
            return _cut(_shown(message.from_))
        case "to":
            return _cut(_shown(message.to))


def _shown(addresses: tuple[Address, ...]) -> str:
    return addresses[0].name or addresses[0].address if addresses else ""


def _cut(text: str) -> str:
    return fold_keeping_separators(text).encode("utf-8")[:KEY_BYTES].decode("utf-8", "ignore")
