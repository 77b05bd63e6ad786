"""Conditions of a query as SQL over `message` joined to `content` and `body`: the exact test, row by row.

Every fragment is made of constants; what a query says is always bound. Fragments are never NULL, so that NOT is plain.
The functions that fragments use are registered by register().
"""

import json
import sqlite3
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

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
    "OR people_hold(content.cc, ?1) OR people_hold(content.bcc, ?1) OR holds(body.text, ?1) OR lines_hold(body.headers, ?1))"
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
            return joined(" AND ", [exact(each) for each in nodes], TRUE)
        case Any(nodes):
            return joined(" OR ", [exact(each) for each in nodes], FALSE)
        case Not(inner):
            fragment = exact(inner)
            return Fragment("NOT (" + fragment.sql + ")", fragment.values)
        case Contains(field, pattern):
            folded = fold_keeping_separators(pattern)
            return Fragment(_COLUMNS[field], (folded,)) if folded else TRUE
        case HeaderContains(name, pattern):
            return Fragment("header_holds(body.headers, ?, ?)", (name.lower(), fold_keeping_separators(pattern)))
        case TextContains(pattern):
            folded = fold_keeping_separators(pattern)
            return Fragment(_TEXT, (folded,) * 7) if folded else TRUE
        case Sent(relation, day, or_received):
            fragment = Fragment(_SENT[relation], (day.toordinal() - _FIRST_DAY,))
            return fragment if or_received else joined(" AND ", [Fragment("content.sent IS NOT NULL"), fragment], TRUE)
        case Received(relation, day):
            moment = (day.toordinal() - _FIRST_DAY) * 86_400
            return Fragment(_RECEIVED[relation], (moment,) * (2 if relation == "=" else 1))
        case ReceivedAt(relation, moment):
            return Fragment(_RECEIVED_AT[relation], (moment,))
        case Flagged(flag) if flag in SYSTEM_FLAGS.values():
            return Fragment("instr(message.flags, ?) > 0", (json.dumps(flag),))
        case Flagged(flag):
            return Fragment("keyword(message.flags, ?)", (flag.lower(),))
        case Size(relation, octets):
            return Fragment(_SIZE[relation], (octets,))
        case OneOf(ids):
            return Fragment("message.id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(ids)),))
        case Positions():
            raise LookupError("positions have a meaning within a folder only; a Reader replaces them")


def joined(operator: str, fragments: list[Fragment], empty: Fragment) -> Fragment:
    """Fragments joined by an operator within parentheses."""
    if len(fragments) <= 1:
        return fragments[0] if fragments else empty
    return Fragment(
        "(" + operator.join(each.sql for each in fragments) + ")",
        tuple(value for each in fragments for value in each.values),
    )


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
    return lines_hold(_pairs(headers), folded_pattern)


def _header_holds(headers: str | None, lower_name: str, folded_pattern: str) -> bool:
    return header_holds(_pairs(headers), lower_name, folded_pattern)


def _keyword(flags: str, lower_keyword: str) -> bool:
    return any(each.lower() == lower_keyword for each in json.loads(flags))
