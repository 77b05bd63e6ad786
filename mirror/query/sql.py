"""Conditions of a query as SQL over `message` joined to `content` and `body`: the exact test, row by row.

Every fragment is made of constants; what a query says is always bound. Fragments are never NULL, so that NOT is plain.
The functions that fragments use are registered by register().
"""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from mirror.fold import fold_keeping_separators, people
from mirror.query.tree import (
    SYSTEM_FLAGS,
    All,
    Any,
    Contains,
    Field,
    Flagged,
    HeaderContains,
    Node,
    Not,
    OneOf,
    Positions,
    Received,
    ReceivedAt,
    Relation,
    Sent,
    Size,
    TextContains,
    header_holds,
    holds,
    is_unfindable,
    lines_hold,
)

Value = str | int


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of SQL and the values bound to its question marks."""

    sql: str
    values: tuple[Value, ...] = ()


TRUE = Fragment("1")
FALSE = Fragment("0")

_COLUMNS: dict[Field, str] = {
    "subject": "holds(content.subject, ?)",
    "from": "people_hold(content.sender, ?)",
    "to": "people_hold(content.recipient, ?)",
    "cc": "people_hold(content.cc, ?)",
    "bcc": "people_hold(content.bcc, ?)",
    "body": "holds(body.text, ?)",
}
_SENT: dict[Relation, str] = {
    "<": "content.sent_day < ?",
    "=": "content.sent_day = ?",
    ">": "content.sent_day > ?",
    ">=": "content.sent_day >= ?",
}
_RECEIVED: dict[Relation, str] = {
    "<": "content.internaldate + 60 * content.internaldate_zone < ?",
    "=": "content.internaldate + 60 * content.internaldate_zone BETWEEN ? AND ? + 86399",
    ">": "content.internaldate + 60 * content.internaldate_zone >= ? + 86400",
    ">=": "content.internaldate + 60 * content.internaldate_zone >= ?",
}
_RECEIVED_AT: dict[Relation, str] = {
    "<": "content.internaldate < ?",
    "=": "content.internaldate = ?",
    ">": "content.internaldate > ?",
    ">=": "content.internaldate >= ?",
}
_SIZE: dict[Relation, str] = {
    "<": "content.size < ?",
    "=": "content.size = ?",
    ">": "content.size > ?",
    ">=": "content.size >= ?",
}
_TEXT = (
    "(holds(content.subject, ?1) OR people_hold(content.sender, ?1) OR people_hold(content.recipient, ?1) "
    "OR people_hold(content.cc, ?1) OR people_hold(content.bcc, ?1) OR holds(body.text, ?1) "
    "OR lines_hold(body.headers, ?1))"
).replace("?1", "?")
_FIRST_DAY = date(1970, 1, 1).toordinal()


def register(connection: sqlite3.Connection) -> None:
    """Give a connection the functions that fragments use. A pattern is passed folded."""
    connection.create_function("holds", 2, _holds, deterministic=True)
    connection.create_function("people_hold", 2, _people_hold, deterministic=True)
    connection.create_function("lines_hold", 2, _lines_hold, deterministic=True)
    connection.create_function("header_holds", 3, _header_holds, deterministic=True)
    connection.create_function("keyword", 2, _keyword, deterministic=True)


def exact(node: Node) -> Fragment:
    """The condition as a test of one row, equal to evaluate() of its message."""
    match node:
        case All(nodes):
            return joined("AND", map(exact, nodes))
        case Any(nodes):
            return joined("OR", map(exact, nodes))
        case Not(inner):
            return opposite(exact(inner))
        case Contains(field, pattern):
            folded = fold_keeping_separators(pattern)
            return _contains(_COLUMNS[field], 1, folded)
        case HeaderContains(name, pattern):
            folded = fold_keeping_separators(pattern)
            if is_unfindable(name + folded):
                return FALSE
            return Fragment("header_holds(body.headers, ?, ?)", (name.lower(), folded))
        case TextContains(pattern):
            return _contains(_TEXT, 7, fold_keeping_separators(pattern))
        case Sent(relation, day, or_received):
            fragment = Fragment(_SENT[relation], (day.toordinal() - _FIRST_DAY,))
            return fragment if or_received else joined("AND", (Fragment("content.sent IS NOT NULL"), fragment))
        case Received(relation, day):
            moment = (day.toordinal() - _FIRST_DAY) * 86_400
            return Fragment(_RECEIVED[relation], (moment,) * (2 if relation == "=" else 1))
        case ReceivedAt(relation, moment):
            return Fragment(_RECEIVED_AT[relation], (moment,))
        case Flagged(flag) if flag in SYSTEM_FLAGS.values():
            return Fragment("instr(message.flags, ?) > 0", (json.dumps(flag),))
        case Flagged(flag):
            return FALSE if _NUL in flag else Fragment("keyword(message.flags, ?)", (flag.lower(),))
        case Size(relation, octets):
            return Fragment(_SIZE[relation], (octets,))
        case OneOf(ids):
            return Fragment("message.id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(ids)),))
        case Positions():
            raise LookupError("positions have a meaning within a folder only; a Reader replaces them")


# Nothing in a mirror has a NUL; in a pattern it would end the string where SQLite hands it to a function.
_NUL = "\0"


def _contains(test: str, places: int, folded: str) -> Fragment:
    if is_unfindable(folded):
        return FALSE
    return Fragment(test, (folded,) * places) if folded else TRUE


def joined(operator: Literal["AND", "OR"], fragments: Iterable[Fragment]) -> Fragment:
    """Fragments joined within parentheses; a constant among them decides or goes away.

    SQLite finds no plan for a constantly false statement that names a partial index.
    """
    neutral, deciding = (TRUE, FALSE) if operator == "AND" else (FALSE, TRUE)
    kept = [each for each in fragments if each != neutral]
    if deciding in kept:
        return deciding
    if len(kept) <= 1:
        return kept[0] if kept else neutral
    return Fragment(
        "(" + f" {operator} ".join(each.sql for each in kept) + ")",
        tuple(value for each in kept for value in each.values),
    )


def opposite(fragment: Fragment) -> Fragment:
    """The fragment negated."""
    if fragment in (TRUE, FALSE):
        return FALSE if fragment == TRUE else TRUE
    return Fragment("NOT (" + fragment.sql + ")", fragment.values)


def _holds(text: str | None, folded_pattern: str) -> bool:
    return holds(text, folded_pattern)


@lru_cache(maxsize=8192)
def _folded_people(addresses: str) -> str:
    return fold_keeping_separators(people(addresses))


def _people_hold(addresses: str, folded_pattern: str) -> bool:
    return folded_pattern in _folded_people(addresses)


def _pairs(headers: str | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in json.loads(headers)) if headers else ()


def _lines_hold(headers: str | None, folded_pattern: str) -> bool:
    # Where JSON escapes nothing and the pattern cannot reach from a name into its value, no line has what the whole
    # does not have.
    is_plain = headers is not None and "\\" not in headers and ":" not in folded_pattern and '"' not in folded_pattern
    if headers is not None and is_plain and folded_pattern not in fold_keeping_separators(headers):
        return False
    return lines_hold(_pairs(headers), folded_pattern)


def _header_holds(headers: str | None, lower_name: str, folded_pattern: str) -> bool:
    return header_holds(_pairs(headers), lower_name, folded_pattern)


def _keyword(flags: str, lower_keyword: str) -> bool:
    return any(each.lower() == lower_keyword for each in json.loads(flags))
