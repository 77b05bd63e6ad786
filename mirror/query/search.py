"""One page of one query: which messages, in which order, by which way through the mirror.

Three ways lead to the messages of a folder, newest first: a walk of the folder (dense hits, small folders), the index
(sparse hits), and a list of ids. The cheaper by estimate is taken; a walk that finds less than estimated hands over to
the index where it stands. Contents without text are not in the index and are walked beside it, by content_pending.
Each way tests exactly what evaluate() says, so the choice is never visible in an answer.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from mirror.query import order
from mirror.query.order import Position
from mirror.query.plan import Planner, Proposal
from mirror.query.progress import OutOfTime, Progress
from mirror.query.sql import FALSE, TRUE, Fragment, exact
from mirror.query.tree import (
    All,
    Any,
    Contains,
    Flagged,
    Node,
    Not,
    OneOf,
    Received,
    ReceivedAt,
    Sent,
    Sorter,
    SortKey,
    conditions,
)
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


def content_moment(content: int) -> datetime:
    """The minute of INTERNALDATE that a content id stands for."""
    return datetime.fromtimestamp((content >> SPILL_BITS) * 60 + _ID_EPOCH, UTC)


class Search:
    """One filter over one folder."""

    def __init__(self, connection: sqlite3.Connection, scope: Scope, node: Node | None, progress: Progress) -> None:
        self._connection = connection
        self._scope = scope
        self._node = node
        self._progress = progress
        self._exact = TRUE if node is None else exact(node)
        self._asks_for_text = any(isinstance(each, Contains) for each in conditions(node))
        self._together = node.nodes if isinstance(node, All) else () if node is None else (node,)

    def newest_first(self, after: Position | None, limit: int) -> Iterator[Pair]:
        """Messages that match, in default order, after a position. limit: about how many will be taken.

        Raises OutOfTime when the time is up, after the messages found until then.
        """
        bound = (_HIGHEST, 0) if after is None else (int(after[-2]), int(after[-1]))
        self._progress.begin(bound[0])
        group: list[Pair] = []
        try:
            for pair in self._by_content(bound[0], limit):
                if group and group[0][0] != pair[0]:
                    yield from sorted((each for each in group if each < bound), reverse=True)
                    group = []
                group.append(pair)
        except sqlite3.OperationalError:
            if not self._progress.is_over():
                raise
            if group and group[0][0] > self._progress.tested_above:
                yield from sorted((each for each in group if each < bound), reverse=True)
            raise OutOfTime((self._progress.tested_above + 1, 0)) from None
        yield from sorted((each for each in group if each < bound), reverse=True)

    def sorted_positions(self, sorters: tuple[Sorter, ...], after: Position | None, limit: int) -> list[Position]:
        """The first `limit` matches after a position, as positions in the order of the sorters."""
        start = order.rest(sorters, after)
        found: list[Position] = []
        for way in self._sorted_ways(sorters[0], limit):
            statement = (
                *("SELECT", order.columns(sorters), "message.content, message.id", way.sql, "AND", start.sql),
                *("ORDER BY", order.order_by(sorters), "LIMIT ?"),
            )
            found.extend(self._connection.execute(" ".join(statement), (*way.values, *start.values, limit)))
        return order.arranged(sorters, found)[:limit]

    def _sorted_ways(self, first: Sorter, limit: int) -> list[Fragment]:
        if self._exact == FALSE:
            return []
        if (ids := self._ids()) is not None:
            return [self._ids_way(_ALL_IDS, ids)]
        span, outside = self._span(_HIGHEST)
        proposal = Planner(self._connection, self._scope.total).propose(self._node)
        by_index = _HIGHEST if proposal is None else self._index_cost(proposal, _HIGHEST)
        by_walk = self._scope.messages * (_PROBE if self._node is None else _TEST)
        if proposal is not None and by_index <= min(by_walk, self._key_cost(proposal.hits, limit)):
            ways = [_index_way(self._scope, span, proposal), self._way(_PENDING, span)]
        elif self._key_cost(self._scope.total if proposal is None else proposal.hits, limit) < by_walk and not outside:
            return [self._way(_BY_KEY[first.key], span)]
        else:
            ways = [self._way(_WALK, span)]
        return [*ways, self._ids_way(_CONTENTS, outside)] if outside else ways

    def _key_cost(self, hits: float, limit: int) -> float:
        """Seconds to walk an index of the first sort key until so many are found."""
        total = max(1, self._scope.total)
        share = max(1, self._scope.messages) / total
        return limit * total / max(1.0, hits) / share * (_PROBE + _TEST)

    def _by_content(self, high: int, limit: int) -> Iterator[Pair]:
        if self._exact == FALSE:
            return
        if (ids := self._ids()) is not None:
            yield from reversed(self._all(self._ids_way(_ALL_IDS, ids)))
            return
        span, outside = self._span(high)
        exceptions = self._all(self._ids_way(_CONTENTS, outside)) if outside else []
        try:
            for pair in self._in_span(span, limit):
                while exceptions and exceptions[-1][0] > pair[0]:
                    yield exceptions.pop()
                yield pair
        except sqlite3.OperationalError:
            while exceptions and exceptions[-1][0] > self._progress.tested_above:
                yield exceptions.pop()
            raise
        while exceptions:
            yield exceptions.pop()

    def _in_span(self, span: Span, limit: int) -> Iterator[Pair]:
        self._progress.begin(span.high)
        walk, messages = self._walk(limit)
        if not self._asks_for_text:
            yield from self._run(self._way(walk, span))
            return
        count = _GLIMPSE
        while count and span.low <= span.high:
            low, found = self._boundary(span, count), 0
            for pair in self._run(self._way(walk, Span(low, span.high))):
                found += 1
                yield pair
            span = Span(span.low, low - 1)
            self._progress.begin(span.high)
            count = 4 * count if found * _DENSE >= count else 0
        if span.low > span.high:
            return
        proposal = Planner(self._connection, self._scope.total).propose(self._node)
        count = _ENOUGH_TO_TELL if proposal is None else self._walk_first(proposal, messages, limit)
        if count:
            low = self._boundary(span, count)
            yield from self._run(self._way(walk, Span(low, span.high)))
            span = Span(span.low, low - 1)
            self._progress.begin(span.high)
        if span.low > span.high:
            return
        if proposal is None:
            proposal = Planner(self._connection, self._scope.total, thorough=True).propose(self._node)
        if proposal is None:
            yield from self._run(self._way(walk, span))
        else:
            by_index = self._run(_index_way(self._scope, span, proposal), "fts.rowid")
            pending = self._run(self._way(_PENDING, span), "content.id")
            yield from self._merged(self._progress.both(by_index, pending))

    def _merged(self, streams: Sequence[Iterator[Pair]]) -> Iterator[Pair]:
        """The rows of streams, highest content first; what others had ready is not lost when one is interrupted."""
        ready: dict[int, Pair] = {}
        try:
            for index, stream in enumerate(streams):
                ready.update((index, pair) for pair in islice(stream, 1))
            while ready:
                first = max(ready, key=lambda index: ready[index][0])
                yield ready.pop(first)
                ready.update((first, pair) for pair in islice(streams[first], 1))
        except sqlite3.OperationalError:
            yield from sorted((pair for pair in ready.values() if pair[0] > self._progress.tested_above), reverse=True)
            raise

    def _walk(self, limit: int) -> tuple[str, int]:
        """The narrowest walk of the folder, and about how many messages it meets."""
        for each in self._together:
            if each in _FLAG_WALKS:
                (count,) = self._connection.execute(_FLAG_COUNTS[each], (self._scope.folder, 100 * limit)).fetchone()
                return _FLAG_WALKS[each], count if count < 100 * limit else self._scope.messages
        return _WALK, self._scope.messages

    def _walk_first(self, proposal: Proposal, messages: int, limit: int) -> int:
        """How many messages to walk before the index is asked: 0 where the index is cheaper from the start."""
        expected = min(messages, int(limit * self._scope.total / max(1.0, proposal.hits)) + 1)
        if expected * _TEST > self._index_cost(proposal, limit):
            return 0
        return 4 * expected + 100

    def _index_cost(self, proposal: Proposal, limit: int) -> float:
        examined = min(proposal.hits, limit * self._scope.total / max(1, self._scope.messages) + 1)
        return proposal.words * _SEEK + examined * (_PROBE if proposal.rest == TRUE else _TEST)

    def _boundary(self, span: Span, count: int) -> int:
        """The content id that the count-th message of a span has, newest first, or the span's low end."""
        row = self._connection.execute(_NTH, (self._scope.folder, span.low, span.high, count)).fetchone()
        return span.low if row is None else int(row[0])

    def _span(self, high: int) -> tuple[Span, list[int]]:
        """Content ids that may match by the dates that the filter asks for, and what matches outside of them.

        An id is at least its minute's first one. It may be higher, when minutes before it were full: by as much as
        content_spill says at most. The day of a Date header is near the received one, or content_skewed has it.
        """
        moments = [moments for each in self._together if (moments := _moments(each)) is not None]
        full = self._ids_between(moments, high)
        days = [days for each in self._together if (days := _sent_days(each)) is not None]
        if not days:
            return full, []
        first, last = max(day for day, _ in days), min(day for _, day in days)
        skewed = self._connection.execute(_SKEWED, (first, last, full.low, full.high, _MOST_SKEWED)).fetchall()
        if len(skewed) == _MOST_SKEWED:
            return full, []
        near = (first * _DAY - 4 * _DAY, last * _DAY + 5 * _DAY)
        span = self._ids_between([*moments, near], high)
        return span, [content for (content,) in skewed if not span.low <= content <= span.high]

    def _ids_between(self, moments: list[tuple[int, int]], high: int) -> Span:
        if not moments:
            return Span(_LOWEST, high)
        spilled = self._connection.execute(_MOST_SPILLED).fetchone()[0] or 0
        earliest, latest = max(moment for moment, _ in moments), min(moment for _, moment in moments)
        return Span(
            max(_LOWEST, (earliest - _ID_EPOCH) // 60 << SPILL_BITS),
            min(high, ((latest - _ID_EPOCH) // 60 + spilled + 2) << SPILL_BITS),
        )

    def _ids(self) -> list[int] | None:
        for each in self._together:
            if isinstance(each, OneOf):
                return sorted(each.ids)
        return None

    def _run(self, way: Fragment, by: str = "message.content") -> Iterator[Pair]:
        statement = (_PAIRS, way.sql, "ORDER BY", by, "DESC")
        return self._progress.rows(" ".join(statement), way.values)

    def _all(self, way: Fragment) -> list[Pair]:
        """Every row of a way, in ascending order."""
        return sorted(self._connection.execute(" ".join(("SELECT message.content, message.id", way.sql)), way.values))

    def _way(self, tables: str, span: Span) -> Fragment:
        return Fragment(
            " AND ".join((tables, self._exact.sql)), (self._scope.folder, span.low, span.high, *self._exact.values)
        )

    def _ids_way(self, tables: str, ids: list[int]) -> Fragment:
        return Fragment(
            " AND ".join((tables, self._exact.sql)), (json.dumps(ids), self._scope.folder, *self._exact.values)
        )


def _index_way(scope: Scope, span: Span, proposal: Proposal) -> Fragment:
    return Fragment(
        " AND ".join((_INDEX, proposal.rest.sql)),
        (scope.folder, proposal.match, span.low, span.high, *proposal.rest.values),
    )


def _moments(node: Node) -> tuple[int, int] | None:
    """The earliest and latest INTERNALDATE, in seconds, that a condition admits; days are wide enough for any zone."""
    match node:
        case Received(relation, day):
            moment, slack = (day.toordinal() - _FIRST_DAY) * _DAY, _DAY
        case ReceivedAt(relation, moment):
            slack = 0
        case _:
            return None
    return (
        _LONG_AGO if relation == "<" else moment - slack,
        moment + 2 * slack if relation in ("<", "=") else _FAR_AHEAD,
    )


def _sent_days(node: Node) -> tuple[int, int] | None:
    """The first and last day since 1970 that a condition admits in a Date header, or there and in INTERNALDATE."""
    match node:
        case Sent(relation, day):
            pass
        case Any((Sent(relation, day), Received(other_relation, other_day))) if (relation, day) == (
            other_relation,
            other_day,
        ):
            pass
        case _:
            return None
    number = day.toordinal() - _FIRST_DAY
    first = {"<": _LONG_AGO // _DAY, "=": number, ">": number + 1, ">=": number}[relation]
    last = {"<": number - 1, "=": number, ">": _FAR_AHEAD // _DAY, ">=": _FAR_AHEAD // _DAY}[relation]
    return first, last


_SEEK, _PROBE, _TEST = 30e-6, 2e-6, 8e-6
"""Seconds to look a word up in the index, to see whether a folder has a content, and to test a content's text."""
_GLIMPSE = 8
"""Messages to walk before anything is looked up: many words are in so many mails that the page is full by then."""
_DENSE = 16
"""As long as one of so many messages matches, the walk goes on."""
_ENOUGH_TO_TELL = 500
"""Messages to walk before what the index cannot answer quickly is looked up there after all."""
_MOST_SKEWED = 2_000
_DAY = 86_400
_LONG_AGO, _FAR_AHEAD = -(2**40), 2**40

_PAIRS = "SELECT message.content, message.id, produced(?, message.content, message.id)"
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
_ALL_IDS = """
    FROM json_each(?) AS asked
    CROSS JOIN message ON message.id = asked.value
    CROSS JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND content.state >= 1
    """
_CONTENTS = """
    FROM json_each(?) AS asked
    CROSS JOIN content ON content.id = asked.value
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +content.id
    LEFT JOIN body ON body.content = content.id
    WHERE content.state >= 1
    """
_BY_SUBJECT = """
    FROM content INDEXED BY content_by_subject
    CROSS JOIN message INDEXED BY message_walk ON message.folder = ? AND message.content = +content.id
    LEFT JOIN body ON body.content = content.id
    WHERE content.id BETWEEN ? AND ? AND content.state >= 1
    """
_BY_KEY: dict[SortKey, str] = {
    key: _BY_SUBJECT.replace("content_by_subject", f"content_by_{key}") for key in ("subject", "from", "to", "date")
}
_WALK_FLAGGED = """
    FROM message INDEXED BY message_flagged
    CROSS JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND message.content BETWEEN ? AND ? AND reached(message.content) AND content.state >= 1
        AND instr(message.flags, '"\\\\Flagged"') > 0
    """
_COUNT_FLAGGED = """
    SELECT count(*) FROM (
        SELECT 1 FROM message INDEXED BY message_flagged
        WHERE folder = ? AND instr(flags, '"\\\\Flagged"') > 0 LIMIT ?
    )
    """


def _for_flag(statement: str, flag: str) -> str:
    return statement.replace("message_flagged", f"message_{flag.lower()}").replace("Flagged", flag)


def _for_unseen(statement: str) -> str:
    return statement.replace("message_flagged", "message_unseen").replace("Flagged\"') > 0", "Seen\"') = 0")


_FLAGS = ("Flagged", "Answered", "Deleted", "Draft")
_FLAG_WALKS: dict[Node, str] = {
    Not(Flagged("\\Seen")): _for_unseen(_WALK_FLAGGED),
    **{Flagged("\\" + flag): _for_flag(_WALK_FLAGGED, flag) for flag in _FLAGS},
}
_FLAG_COUNTS: dict[Node, str] = {
    Not(Flagged("\\Seen")): _for_unseen(_COUNT_FLAGGED),
    **{Flagged("\\" + flag): _for_flag(_COUNT_FLAGGED, flag) for flag in _FLAGS},
}
_SKEWED = """
    SELECT id FROM content INDEXED BY content_skewed
    WHERE abs(sent_day - (internaldate + 60 * internaldate_zone) / 86400) > 2
        AND sent_day BETWEEN ? AND ? AND id BETWEEN ? AND ? LIMIT ?
    """
_NTH = """
    SELECT content FROM message INDEXED BY message_walk WHERE folder = ? AND content BETWEEN ? AND ?
    ORDER BY content DESC LIMIT 1 OFFSET ?
    """
_MOST_SPILLED = """
    SELECT max((id >> 3) - (internaldate - 946684800) / 60) FROM content
    WHERE (id >> 3) > (internaldate - 946684800) / 60
    """
