"""One page of one query: which messages, in which order, by which way through the mirror.

Three ways lead to the messages of a folder, newest first: a walk of the folder (dense hits, small folders), the index
(sparse hits), and a list of ids. The cheaper by estimate is taken; a walk that finds less than estimated hands over to
the index where it stands. Contents without text are not in the index and are walked beside it, by content_pending.
Each way tests exactly what evaluate() says, so the choice is never visible in an answer.
"""

import heapq
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from mirror.query import order
from mirror.query.order import Position
from mirror.query.plan import Proposal, propose
from mirror.query.progress import OutOfTime, Progress
from mirror.query.sql import FALSE, TRUE, Fragment, exact
from mirror.query.tree import All, Node, OneOf, Received, ReceivedAt, Sorter
from mirror.schema import SPILL_BITS

Pair = tuple[int, int]
"""A content's id and a message's id."""

_LOWEST = -(2**62)
_HIGHEST = 2**62
_ID_EPOCH = 946_684_800
_FIRST_DAY = 719_163


@dataclass(frozen=True, slots=True)
class Span:
    """Content ids from low to high, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The folder that is searched, and about how many messages it and the mirror have."""

    folder: int
    messages: int
    total: int


def newest_first(
    connection: sqlite3.Connection,
    scope: Scope,
    node: Node | None,
    after: Position | None,
    limit: int,
    progress: Progress,
) -> Iterator[Pair]:
    """Messages that match, in default order, after a position. limit: about how many will be taken.

    Raises OutOfTime when the time is up, after the messages found until then.
    """
    span = _span(connection, node, _HIGHEST if after is None else int(after[-2]))
    progress.begin(span.high)
    bound = (_HIGHEST, 0) if after is None else (int(after[-2]), int(after[-1]))
    group: list[Pair] = []
    try:
        for pair in _streams(connection, scope, node, span, limit, progress):
            if group and group[0][0] != pair[0]:
                yield from sorted((each for each in group if each < bound), reverse=True)
                group = []
            group.append(pair)
    except sqlite3.OperationalError as exc:
        if not progress.is_over():
            raise
        if group and group[0][0] > progress.tested_above:
            yield from sorted((each for each in group if each < bound), reverse=True)
        raise OutOfTime((progress.tested_above + 1, 0)) from exc
    yield from sorted((each for each in group if each < bound), reverse=True)


def sorted_positions(
    connection: sqlite3.Connection,
    scope: Scope,
    node: Node | None,
    sorters: tuple[Sorter, ...],
    after: Position | None,
    limit: int,
) -> list[Position]:
    """The first `limit` matches after a position, as positions in the order of the sorters."""
    if node is not None and exact(node) == FALSE:
        return []
    span = _span(connection, node, _HIGHEST)
    proposal = propose(connection, node)
    start = order.rest(sorters, after)
    ways = [_by_walk(scope, span, node)]
    if (ids := _ids(node)) is not None:
        ways = [_by_ids(scope, span, node, ids)]
    elif proposal is not None and _index_cost(scope, proposal, _HIGHEST) < scope.messages * _TEST:
        ways = [_by_index(scope, span, proposal), _by_pending(scope, span, node)]
    found: list[Position] = []
    for way in ways:
        found.extend(
            connection.execute(
                " ".join(
                    (
                        "SELECT",
                        order.columns(sorters),
                        "message.content, message.id",
                        way.sql,
                        "AND",
                        start.sql,
                        "ORDER BY",
                        order.order_by(sorters),
                        "LIMIT ?",
                    )
                ),
                (*way.values, *start.values, limit),
            )
        )
    return order.arranged(sorters, found)[:limit]


def content_moment(content: int) -> datetime:
    """The minute of INTERNALDATE that a content id stands for."""
    return datetime.fromtimestamp((content >> SPILL_BITS) * 60 + _ID_EPOCH, UTC)


def _streams(
    connection: sqlite3.Connection, scope: Scope, node: Node | None, span: Span, limit: int, progress: Progress
) -> Iterator[Pair]:
    if node is not None and exact(node) == FALSE:
        return
    ids = _ids(node)
    if ids is not None:
        yield from _run(connection, _by_ids(scope, span, node, ids))
        return
    proposal = propose(connection, node)
    if proposal is not None:
        walked = _walk_first(scope, proposal, limit)
        if walked:
            low = _boundary(connection, scope, span, walked)
            yield from _run(connection, _by_walk(scope, Span(low, span.high), node))
            span = Span(span.low, low - 1)
            progress.begin(span.high)
        if span.low <= span.high:
            yield from heapq.merge(
                *progress.both(
                    _run(connection, _by_index(scope, span, proposal), "fts.rowid"),
                    _run(connection, _by_pending(scope, span, node), "content.id"),
                ),
                reverse=True,
            )
        return
    yield from _run(connection, _by_walk(scope, span, node))


def _walk_first(scope: Scope, proposal: Proposal, limit: int) -> int:
    """How many messages to walk before the index is asked: 0 where the index is cheaper from the start."""
    expected = min(scope.messages, limit * scope.total // max(1, proposal.hits) + 1)
    if expected * _TEST > _index_cost(scope, proposal, limit):
        return 0
    return 4 * expected + 100


def _index_cost(scope: Scope, proposal: Proposal, limit: int) -> float:
    examined = min(proposal.hits, limit * scope.total // max(1, scope.messages) + 1)
    return proposal.words * _SEEK + examined * (_PROBE if proposal.rest == TRUE else _TEST)


_SEEK, _PROBE, _TEST = 50e-6, 2e-6, 8e-6
"""Seconds to look a word up in the index, to see whether a folder has a content, and to test a content's text."""


def _boundary(connection: sqlite3.Connection, scope: Scope, span: Span, count: int) -> int:
    """The content id that the count-th message of a span has, newest first, or the span's low end."""
    row = connection.execute(_NTH, (scope.folder, span.low, span.high, count)).fetchone()
    return span.low if row is None else int(row[0])


def _span(connection: sqlite3.Connection, node: Node | None, high: int) -> Span:
    """Content ids that may match, by the moments of INTERNALDATE that the filter asks for.

    An id is at least its minute's first one. It may be higher, when minutes before it were full: by as much as
    content_spill says at most.
    """
    low = _LOWEST
    for each in node.nodes if isinstance(node, All) else () if node is None else (node,):
        earliest, latest = _moments(each)
        if earliest is not None:
            low = max(low, (earliest - _ID_EPOCH) // 60 << SPILL_BITS)
        if latest is not None:
            spilled = connection.execute(_MOST_SPILLED).fetchone()[0] or 0
            high = min(high, ((latest - _ID_EPOCH) // 60 + spilled + 2) << SPILL_BITS)
    return Span(low, high)


def _moments(node: Node) -> tuple[int | None, int | None]:
    """The earliest and latest INTERNALDATE, in seconds, that a condition admits; days are wide enough for any zone."""
    match node:
        case Received(relation, day):
            moment, slack = (day.toordinal() - _FIRST_DAY) * 86_400, 86_400
        case ReceivedAt(relation, moment):
            slack = 0
        case _:
            return None, None
    earliest = None if relation == "<" else moment - slack
    latest = moment + slack + slack if relation in ("<", "=") else None
    return earliest, latest


def _ids(node: Node | None) -> list[int] | None:
    for each in node.nodes if isinstance(node, All) else (node,):
        if isinstance(each, OneOf):
            return sorted(each.ids)
    return None


def _run(connection: sqlite3.Connection, way: Fragment, by: str = "message.content") -> Iterator[Pair]:
    return connection.execute(
        " ".join(("SELECT message.content, message.id", way.sql, "ORDER BY", by, "DESC")), way.values
    )


def _by_walk(scope: Scope, span: Span, node: Node | None) -> Fragment:
    condition = TRUE if node is None else exact(node)
    return Fragment(" AND ".join((_WALK, condition.sql)), (scope.folder, span.low, span.high, *condition.values))


def _by_index(scope: Scope, span: Span, proposal: Proposal) -> Fragment:
    return Fragment(
        " AND ".join((_INDEX, proposal.rest.sql)),
        (scope.folder, proposal.match, span.low, span.high, *proposal.rest.values),
    )


def _by_pending(scope: Scope, span: Span, node: Node | None) -> Fragment:
    condition = TRUE if node is None else exact(node)
    return Fragment(" AND ".join((_PENDING, condition.sql)), (scope.folder, span.low, span.high, *condition.values))


def _by_ids(scope: Scope, span: Span, node: Node | None, ids: list[int]) -> Fragment:
    condition = TRUE if node is None else exact(node)
    return Fragment(
        " AND ".join((_IDS, condition.sql)), (json.dumps(ids), scope.folder, span.low, span.high, *condition.values)
    )


# The plus signs keep SQLite from looking messages up by the range of ids instead of by the id.
_WALK = """
    FROM message INDEXED BY message_walk
    CROSS JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND message.content BETWEEN ? AND ? AND reached(message.content) AND content.state >= 1
    """
_INDEX = """
    FROM fts
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +fts.rowid
    LEFT JOIN content ON content.id = fts.rowid
    LEFT JOIN body ON body.content = fts.rowid
    WHERE fts MATCH ? AND fts.rowid BETWEEN ? AND ? AND reached(fts.rowid)
    """
_PENDING = """
    FROM content INDEXED BY content_pending
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +content.id
    LEFT JOIN body ON body.content = content.id
    WHERE content.state < 2 AND content.state >= 1 AND content.id BETWEEN ? AND ? AND reached_pending(content.id)
    """
_IDS = """
    FROM json_each(?) AS asked
    CROSS JOIN message ON message.id = asked.value
    CROSS JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND message.content BETWEEN ? AND ? AND content.state >= 1
    """
_NTH = """
    SELECT content FROM message INDEXED BY message_walk WHERE folder = ? AND content BETWEEN ? AND ?
    ORDER BY content DESC LIMIT 1 OFFSET ?
    """
_MOST_SPILLED = """
    SELECT max((id >> 3) - (internaldate - 946684800) / 60) FROM content
    WHERE (id >> 3) > (internaldate - 946684800) / 60
    """
