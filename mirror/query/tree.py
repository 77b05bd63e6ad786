"""The syntax tree that both query languages are parsed into, and what it means.

evaluate() is the definition of right: pure, naive Python over one message. Whatever index or SQL a Reader uses, its
answer equals a scan with evaluate().
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from mirror.errors import QueryError
from mirror.fold import fold_keeping_separators, holds_folded
from mirror.message import Address
from mirror.mirrored import MirroredMessage

MAX_CONDITIONS = 200
MAX_NESTING = 50
MAX_CHARACTERS = 65_536

SYSTEM_FLAGS = {flag.lower(): flag for flag in ("\\Answered", "\\Deleted", "\\Draft", "\\Flagged", "\\Seen")}

Field = Literal["subject", "from", "to", "cc", "bcc", "body"]
Relation = Literal["<", "=", ">", ">="]
SortKey = Literal["date", "from", "to", "subject"]


@dataclass(frozen=True, slots=True)
class All:
    """Every one of the conditions holds; without any, every message matches."""

    nodes: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Any:
    """At least one of the conditions holds; without any, no message matches."""

    nodes: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    node: "Node"


@dataclass(frozen=True, slots=True)
class Contains:
    """A field has the pattern as a substring, both folded. Addresses are searched as `name <address>, …`."""

    field: Field
    pattern: str


@dataclass(frozen=True, slots=True)
class HeaderContains:
    """A header of this name (in any case) has the pattern in its value; "" asks that the header exists."""

    name: str
    pattern: str


@dataclass(frozen=True, slots=True)
class TextContains:
    """The pattern is in the subject, an address, the text, or any header line (`Name: value`)."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The day written in the Date header. A missing Date counts as INTERNALDATE's day, or as no match."""

    relation: Relation
    day: date
    or_received: bool


@dataclass(frozen=True, slots=True)
class Received:
    """The day of INTERNALDATE, in its own zone."""

    relation: Relation
    day: date


@dataclass(frozen=True, slots=True)
class ReceivedAt:
    """The moment of INTERNALDATE, in seconds since 1970 UTC."""

    relation: Relation
    moment: int


@dataclass(frozen=True, slots=True)
class Flagged:
    r"""A system flag (canonical, `\Seen`) or a keyword (in any case) is set."""

    flag: str


@dataclass(frozen=True, slots=True)
class Size:
    """The octets of the message are more, or fewer."""

    relation: Relation
    octets: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """The message is one of these, by its id in the mirror."""

    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Positions:
    """The message is at one of these positions (from 1, in uid order; None is the last) among those that are visible.

    A Reader replaces it by OneOf before anything is evaluated.
    """

    ranges: tuple[tuple[int | None, int | None], ...]


Node = (
    All
    | Any
    | Not
    | Contains
    | HeaderContains
    | TextContains
    | Sent
    | Received
    | ReceivedAt
    | Flagged
    | Size
    | OneOf
    | Positions
)


@dataclass(frozen=True, slots=True)
class Sorter:
    """One sort key. date: the moment of the Date header, else INTERNALDATE; the others compare folded text."""

    key: SortKey
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What to find (None: everything) and in which order (none: newest received first)."""

    filter: Node | None = None
    order: tuple[Sorter, ...] = ()


def evaluate(node: Node, message: MirroredMessage) -> bool:
    """Whether a message, with its text and headers loaded where they are mirrored, matches."""
    match node:
        case All(nodes):
            return all(evaluate(each, message) for each in nodes)
        case Any(nodes):
            return any(evaluate(each, message) for each in nodes)
        case Not(negated):
            return not evaluate(negated, message)
        case Contains(field, pattern):
            return holds(searchable(field, message), fold_keeping_separators(pattern))
        case HeaderContains(name, pattern):
            return header_holds(message.headers or (), name.lower(), fold_keeping_separators(pattern))
        case TextContains(pattern):
            folded = fold_keeping_separators(pattern)
            return any(holds(searchable(field, message), folded) for field in _FIELDS) or lines_hold(
                message.headers or (), folded
            )
        case Sent(relation, day, or_received):
            if message.date is None and not or_received:
                return False
            return compare(relation, (message.date or message.internaldate).date().toordinal(), day.toordinal())
        case Received(relation, day):
            return compare(relation, message.internaldate.date().toordinal(), day.toordinal())
        case ReceivedAt(relation, moment):
            return compare(relation, seconds(message.internaldate), moment)
        case Flagged(flag):
            return any(flag.lower() == each.lower() for each in message.flags)
        case Size(relation, octets):
            return compare(relation, message.size, octets)
        case OneOf(ids):
            return message.id in ids
        case Positions():
            raise LookupError("positions have a meaning within a folder only; a Reader replaces them")


def holds(text: str | None, folded_pattern: str) -> bool:
    """Whether a text has a folded pattern as a substring."""
    return not is_unfindable(folded_pattern) and holds_folded(text or "", folded_pattern)


def is_unfindable(pattern: str) -> bool:
    """Whether nothing can match: no mail has a NUL or noncharacter, and views put these where they left text out."""
    return _UNFINDABLE.search(pattern) is not None


def header_holds(headers: tuple[tuple[str, str], ...], lower_name: str, folded_pattern: str) -> bool:
    """Whether a header of that name has a folded pattern in its value."""
    return any(name.lower() == lower_name and holds(value, folded_pattern) for name, value in headers)


def lines_hold(headers: tuple[tuple[str, str], ...], folded_pattern: str) -> bool:
    """Whether a header line has a folded pattern in its name or value."""
    return any(holds(f"{name}: {value}", folded_pattern) for name, value in headers)


def searchable(field: Field, message: MirroredMessage) -> str | None:
    """The text of a message that a field's conditions search."""
    match field:
        case "subject":
            return message.subject
        case "body":
            return message.text
        case "from":
            return _people(message.from_)
        case "to":
            return _people(message.to)
        case "cc":
            return _people(message.cc)
        case "bcc":
            return _people(message.bcc)


def compare(relation: Relation, value: int, bound: int) -> bool:
    """Whether value stands in that relation to bound."""
    match relation:
        case "<":
            return value < bound
        case "=":
            return value == bound
        case ">":
            return value > bound
        case ">=":
            return value >= bound


def seconds(moment: datetime) -> int:
    """A moment as whole seconds since 1970 UTC."""
    return int((moment.astimezone(UTC) - _EPOCH).total_seconds() // 1)


def shallow(node: Node) -> Node:
    """The same condition as SQLite's parsers can read it, whose stacks are a hundred symbols high.

    Of a deep tree: negations stand before leaves alone, nothing is in its own kind, and the deepest part comes first.
    """
    return node if _depth(node) <= _PLAINLY_READ else _shallow(node, is_wanted=True)


def _depth(node: Node) -> int:
    match node:
        case All(nodes) | Any(nodes):
            return 1 + max(map(_depth, nodes), default=0)
        case Not(inner):
            return 1 + _depth(inner)
        case _:
            return 0


def _shallow(node: Node, *, is_wanted: bool) -> Node:
    match node:
        case Not(inner):
            return _shallow(inner, is_wanted=not is_wanted)
        case All(nodes) | Any(nodes):
            kind = All if isinstance(node, All) == is_wanted else Any
            found: list[Node] = []
            for each in nodes:
                part = _shallow(each, is_wanted=is_wanted)
                found += part.nodes if isinstance(part, All | Any) and isinstance(part, kind) else (part,)
            return kind(tuple(sorted(found, key=_depth, reverse=True)))
        case _:
            return node if is_wanted else Not(node)


def negated(node: Node) -> Node:
    """The opposite of a condition, without piling up negations."""
    return node.node if isinstance(node, Not) else Not(node)


def conditions(node: Node | None) -> "Iterator[Node]":
    """Every node of a tree."""
    stack = [] if node is None else [node]
    while stack:
        current = stack.pop()
        yield current
        match current:
            case All(nodes) | Any(nodes):
                stack.extend(nodes)
            case Not(inner):
                stack.append(inner)


def replace_nodes(node: Node, replaced: Callable[[Node], Node]) -> Node:
    """The tree with each of its leaves replaced."""
    match node:
        case All(nodes):
            return All(tuple(replace_nodes(each, replaced) for each in nodes))
        case Any(nodes):
            return Any(tuple(replace_nodes(each, replaced) for each in nodes))
        case Not(inner):
            return negated(replace_nodes(inner, replaced))
        case _:
            return replaced(node)


class Budget:
    """How much a parser may still take in of one query: conditions and nesting."""

    def __init__(self, text: str, example: str) -> None:
        self._example = example
        self._conditions = 0
        self._depth = 0
        if len(text) > MAX_CHARACTERS:
            raise QueryError(MAX_CHARACTERS, f"a query of at most {MAX_CHARACTERS} characters", example)

    def condition(self, position: int) -> None:
        """Count one condition. Raises QueryError when there are too many."""
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise QueryError(position, f"at most {MAX_CONDITIONS} conditions in one query", self._example)

    def enter(self, position: int) -> None:
        """Go one level down. Raises QueryError when that is too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise QueryError(position, f"at most {MAX_NESTING} levels of nesting", self._example)

    def leave(self) -> None:
        """Go back up one level."""
        self._depth -= 1


_PLAINLY_READ = 8
"""Levels of nesting that take nothing of the parsers' stacks worth counting."""
_UNFINDABLE = re.compile("[\x00\ufdd0-\ufdef]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS: tuple[Field, ...] = ("subject", "from", "to", "cc", "bcc", "body")


def _people(addresses: tuple[Address, ...]) -> str:
    return ", ".join(f"{each.name} <{each.address}>" if each.name else each.address for each in addresses)
