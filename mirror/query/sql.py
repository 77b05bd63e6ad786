"""Conditions of a query as SQL over `message` joined to `content` and `body`: the exact test, row by row.

Every fragment is made of constants; what a query says is always bound. Fragments are never NULL, so that NOT is plain.
The functions that fragments use are registered by register().
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from mirror.fold import fold_keeping_separators, has_no_hidden_ascii, holds_folded, people
from mirror.query.like import is_hidden, is_plain, like, like_in_json
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
Tests = str | list["Tests"]
"""A folded pattern, or ["and", …], ["or", …], ["not", …] of such."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of SQL and the values bound to its question marks."""

    sql: str
    values: tuple[Value, ...] = ()


TRUE = Fragment("1")
FALSE = Fragment("0")

_COLUMNS: dict[Field, str] = {
    "subject": "content.subject",
    "from": "content.sender",
    "to": "content.recipient",
    "cc": "content.cc",
    "bcc": "content.bcc",
    "body": "body.text",
}
_HOLDS: dict[Field, str] = {
    field: f"{'holds' if field in ('subject', 'body') else 'people_hold'}({column}, ?)"
    for field, column in _COLUMNS.items()
}
_LIKE: dict[Field, str] = {
    field: f"iif({is_plain(column)}, {column} LIKE ? ESCAPE '\\', {_HOLDS[field]})"
    if field in ("subject", "body")
    else f"(({column} LIKE ? ESCAPE '\\' OR {is_hidden(column)}) AND {_HOLDS[field]})"
    for field, column in _COLUMNS.items()
}
_HEADERS_MAY = f"(body.headers LIKE ? ESCAPE '\\' OR {is_hidden('body.headers')})"
Stored = Literal["text", "lines", "envelope"]
"""Where patterns are looked for: the body, the header lines, or the subject and the people."""
_SUPPOSING_PLAIN: dict[str, tuple[str, Stored]] = {
    is_plain("body.text"): ("(body.text IS NOT NULL)", "text"),
    is_hidden("body.headers"): ("0", "lines"),
    is_plain("content.subject"): ("1", "envelope"),
    **{is_hidden(_COLUMNS[field]): ("0", "envelope") for field in ("from", "to", "cc", "bcc")},
}
_BODY_LIKE = "body.text LIKE ? ESCAPE '\\'"
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
_FIRST_DAY = date(1970, 1, 1).toordinal()


def register(connection: sqlite3.Connection) -> None:
    """Give a connection the functions that fragments use. A pattern is passed folded."""
    connection.create_function("holds", 2, _holds, deterministic=True)
    connection.create_function("people_hold", 2, _people_hold, deterministic=True)
    connection.create_function("lines_hold", 2, _lines_hold, deterministic=True)
    connection.create_function("body_is", 2, _body_is, deterministic=True)
    connection.create_function("header_holds", 3, _header_holds, deterministic=True)
    connection.create_function("keyword", 2, _keyword, deterministic=True)


def exact(node: Node) -> Fragment:
    """The condition as a test of one row, equal to evaluate() of its message."""
    match node:
        case All(nodes):
            return joined("AND", _together(All, nodes))
        case Any(nodes):
            return joined("OR", _together(Any, nodes))
        case Not(inner):
            return opposite(exact(inner))
        case Contains(field, pattern):
            return _contains(field, fold_keeping_separators(pattern))
        case HeaderContains(name, pattern):
            folded = fold_keeping_separators(pattern)
            if is_unfindable(name + folded):
                return FALSE
            return _in_headers(Fragment("header_holds(body.headers, ?, ?)", (name.lower(), folded)), folded)
        case TextContains(pattern):
            folded = fold_keeping_separators(pattern)
            return joined("OR", [*(_contains(field, folded) for field in _COLUMNS), line_has(pattern)])
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


def line_has(pattern: str) -> Fragment:
    """The test whether a header line has a pattern."""
    folded = fold_keeping_separators(pattern)
    if is_unfindable(folded) or not folded:
        return TRUE if not folded else FALSE
    return _in_headers(Fragment("lines_hold(body.headers, ?)", (folded,)), folded)


# Nothing in a mirror has a NUL; in a pattern it would end the string where SQLite hands it to a function.
_NUL = "\0"


def _contains(field: Field, folded: str) -> Fragment:
    if is_unfindable(folded):
        return FALSE
    if not folded:
        return TRUE
    asked = like(folded) if field in ("subject", "body") else like_in_json(folded)
    return Fragment(_HOLDS[field], (folded,)) if asked is None else Fragment(_LIKE[field], (asked, folded))


def _in_headers(test: Fragment, folded: str) -> Fragment:
    """A test of the headers, of those only that may have the folded pattern."""
    asked = like_in_json(folded)
    return test if asked is None else Fragment(f"({_HEADERS_MAY} AND {test.sql})", (asked, *test.values))


def _together(kind: type[All] | type[Any], nodes: Sequence[Node]) -> list[Fragment]:
    """Conditions as fragments, those of bodies last and as one, so that a body is read and folded once for them all."""
    together = set(nodes)
    if any(isinstance(each, Not) and each.node in together for each in together):
        return [FALSE if kind is All else TRUE]
    if kind is All and _is_impossible(nodes):
        return [FALSE]
    of_body = [tests for each in nodes if (tests := _tests(each)) is not None]
    if len(of_body) < 2:
        return [exact(each) for each in nodes]
    others = [exact(each) for each in nodes if _tests(each) is None]
    return [*others, _body(["and" if kind is All else "or", *of_body])]


def _is_impossible(nodes: Sequence[Node]) -> bool:
    """Whether a condition wants a pattern away that is part of one which another condition wants there."""
    wanted = _patterns(nodes)
    unwanted = _patterns([each.node for each in nodes if isinstance(each, Not)])
    return any(away in pattern for field in unwanted for away in unwanted[field] for pattern in wanted.get(field, ()))


def _patterns(nodes: Sequence[Node]) -> dict[Field, set[str]]:
    """The folded patterns of these conditions, by field."""
    found: dict[Field, set[str]] = {}
    for each in nodes:
        if isinstance(each, Contains):
            found.setdefault(each.field, set()).add(fold_keeping_separators(each.pattern))
    return found


def _body(tests: Tests) -> Fragment:
    """Conditions of the body, by LIKE where every pattern and the text are ASCII."""
    called = Fragment("body_is(body.text, ?)", (json.dumps(tests),))
    alike = _likes(tests)
    if alike is None:
        return called
    sql = f"iif({is_plain('body.text')}, {alike.sql}, {called.sql})"
    return Fragment(sql, (*alike.values, *called.values))


def _likes(tests: Tests) -> Fragment | None:
    if isinstance(tests, str):
        asked = like(tests)
        return None if asked is None else Fragment(_BODY_LIKE, (asked,))
    word, *parts = tests
    found = [_likes(each) for each in parts]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    if word == "not":
        return opposite(known[0])
    return joined("AND" if word == "and" else "OR", known)


def _tests(node: Node) -> Tests | None:
    """Conditions of the body alone as lists, None for others and for those that no text decides."""
    match node:
        case Contains("body", pattern):
            folded = fold_keeping_separators(pattern)
            return folded if folded and not is_unfindable(folded) else None
        case Not(inner):
            return None if (tests := _tests(inner)) is None else ["not", tests]
        case All(nodes) | Any(nodes) if nodes:
            parts = [_tests(each) for each in nodes]
            known = [each for each in parts if each is not None]
            return ["and" if isinstance(node, All) else "or", *known] if len(known) == len(parts) else None
        case _:
            return None


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


def reads_text(fragment: Fragment) -> bool:
    """Whether a test looks for something in texts, people or header lines: it takes many times as long as any other."""
    return "hold" in fragment.sql


def supposing_plain(fragment: Fragment) -> tuple[Fragment, set[Stored]]:
    """The same test where everything is taken to be ASCII, and where it is wrong about what is not."""
    sql, stored = fragment.sql, set[Stored]()
    for test, (supposed, where) in _SUPPOSING_PLAIN.items():
        if test in sql:
            sql = sql.replace(test, supposed)
            stored.add(where)
    return Fragment(sql, fragment.values), stored


def _holds(text: str | None, folded_pattern: str) -> bool:
    return holds(text, folded_pattern)


@lru_cache(maxsize=8192)
def _folded_people(addresses: str) -> str:
    return fold_keeping_separators(people(addresses))


def _people_hold(addresses: str, folded_pattern: str) -> bool:
    return folded_pattern in _folded_people(addresses)


_OTHERWISE_IN_JSON = re.compile(r'[\x00-\x1f\x7f:"\\]')


def _pairs(headers: str | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in json.loads(headers)) if headers else ()


def _lines_hold(headers: str | None, folded_pattern: str) -> bool:
    return _may_be_in(headers, folded_pattern) and lines_hold(_pairs(headers), folded_pattern)


def _header_holds(headers: str | None, lower_name: str, folded_pattern: str) -> bool:
    return _may_be_in(headers, folded_pattern) and header_holds(_pairs(headers), lower_name, folded_pattern)


def _may_be_in(headers: str | None, folded_pattern: str) -> bool:
    """False where no header can have the pattern, by the headers as they are stored.

    JSON writes a value as it is but for quotes, backslashes and control characters, and a line has a colon and a blank
    more between name and value.
    """
    if headers is None:
        return False
    stored = folded_pattern.removeprefix(" ")
    return _OTHERWISE_IN_JSON.search(stored) is not None or holds_folded(headers, stored)


def _body_is(text: str | None, tests: str) -> bool:
    lowered = (text or "").lower()
    # The tests are ASCII when their JSON has no escapes.
    is_enough = "\\u" not in tests and has_no_hidden_ascii(lowered)
    return _is(_parsed(tests), lowered if is_enough else fold_keeping_separators(text or ""))


def _is(tests: Tests, folded: str) -> bool:
    if isinstance(tests, str):
        return tests in folded
    word, *parts = tests
    if word == "not":
        return not _is(parts[0], folded)
    return (all if word == "and" else any)(_is(each, folded) for each in parts)


@lru_cache(maxsize=64)
def _parsed(tests: str) -> Tests:
    parsed: Tests = json.loads(tests)
    return parsed


def _keyword(flags: str, lower_keyword: str) -> bool:
    return any(each.lower() == lower_keyword for each in json.loads(flags))
