"""One page of one query: which messages, in which order, by which way through the mirror.

Three ways lead to the messages of a folder, newest first: a walk of the folder (dense hits, small folders), the index
(sparse hits), and a list of ids. The cheaper by estimate is taken; a walk that finds less than estimated hands over to
the index where it stands. Contents without text are not in the index and are walked beside it, by content_pending.
Each way tests exactly what evaluate() says, so the choice is never visible in an answer.
"""

import json
import sqlite3
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import islice

from mirror.query import costs, order, ways
from mirror.query.costs import Scope
from mirror.query.lacking import Lacking
from mirror.query.lexicon import Lexicon
from mirror.query.order import Position
from mirror.query.plan import Planner
from mirror.query.progress import OutOfTime, Progress
from mirror.query.proposal import Asked, Proposal
from mirror.query.span import HIGHEST, Span, span_of
from mirror.query.sql import FALSE, TRUE, Fragment, Stored, exact, supposing_plain
from mirror.query.tree import (
    All,
    Contains,
    HeaderContains,
    Node,
    OneOf,
    Sorter,
    TextContains,
    conditions,
    shallow,
)
from mirror.query.ways import Walk, narrowest

Pair = tuple[int, int]
"""A content's id and a message's id."""


class Search:
    """One filter over one folder."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        scope: Scope,
        node: Node | None,
        progress: Progress,
        lexicon: Lexicon,
    ) -> None:
        self._connection = connection
        self._scope = scope
        node = None if node is None else shallow(node)
        self._node = node
        self._progress = progress
        self._exact = TRUE if node is None else exact(node)
        self._planner = Planner(connection, scope.total, lexicon)
        self._test = costs.TEST
        self._asks_for_text = any(
            isinstance(each, Contains | HeaderContains | TextContains) for each in conditions(node)
        )
        self._together = node.nodes if isinstance(node, All) else () if node is None else (node,)

    def newest_first(self, after: Position | None, limit: int) -> Iterator[Pair]:
        """Messages that match, in default order, after a position. limit: about how many will be taken.

        Raises OutOfTime when the time is up, after the messages found until then.
        """
        bound = (HIGHEST, 0) if after is None else (int(after[-2]), int(after[-1]))
        self._progress.begin(bound[0])
        content, group = HIGHEST, set[Pair]()
        try:
            for pair in self._by_content(bound[0], limit):
                if pair[0] != content:
                    yield from sorted((each for each in group if each < bound), reverse=True)
                    content, group = pair[0], set()
                group.add(pair)
        except sqlite3.OperationalError:
            if not self._progress.is_over():
                raise
            if content > self._progress.tested_above:
                yield from sorted((each for each in group if each < bound), reverse=True)
            raise OutOfTime((self._progress.tested_above + 1, 0)) from None
        yield from sorted((each for each in group if each < bound), reverse=True)

    def sorted_positions(self, sorters: tuple[Sorter, ...], after: Position | None, limit: int) -> list[Position]:
        """The first `limit` matches after a position, as positions in the order of the sorters."""
        start = order.rest(sorters, after)
        found: list[Position] = []
        for way in self._sorted_ways(sorters, limit):
            statement = (
                *("SELECT", order.columns(sorters), "message.content, message.id", way.sql, "AND", start.sql),
                *("ORDER BY", order.order_by(sorters), "LIMIT ?"),
            )
            values = (*way.values, *start.values, limit)
            self._progress.executing(" ".join(statement), values)
            found.extend(self._connection.execute(" ".join(statement), values))
        return order.arranged(sorters, list(dict.fromkeys(found)))[:limit]

    def _sorted_ways(self, sorters: tuple[Sorter, ...], limit: int) -> list[Fragment]:
        if self._exact == FALSE:
            return []
        if (ids := self._ids()) is not None:
            return [self._ids_way(ways.ALL_IDS, ids)]
        span, outside = span_of(self._connection, self._together, HIGHEST)
        proposal = self._planner.propose(self._node)
        by_index = HIGHEST if proposal is None else costs.index(self._scope, proposal, HIGHEST, self._test)
        walk = self._walk(limit)
        by_walk = walk.messages * (costs.PROBE if self._node is None else costs.TEST)
        hits = min(self._scope.total if proposal is None else proposal.hits, walk.messages)
        by_key = costs.key(self._scope, hits, limit, len(sorters))
        if proposal is not None and by_index <= min(by_walk, by_key):
            asked = ((ways.INDEX, proposal.text), (ways.LINES, proposal.lines))
            found = [_index_way(self._scope, span, tables, each) for tables, each in asked if each is not None]
            found.append(self._way(_walk_of(ways.PENDING), span))
        elif by_key < by_walk and not outside:
            return [self._way(_walk_of(ways.BY_KEY[sorters[0].key]), span)]
        else:
            found = [self._way(walk, span)]
        return [*found, self._ids_way(ways.CONTENTS, outside)] if outside else found

    def _by_content(self, high: int, limit: int) -> Iterator[Pair]:
        if self._exact == FALSE:
            return
        if (ids := self._ids()) is not None:
            yield from reversed(self._all(self._ids_way(ways.ALL_IDS, ids)))
            return
        span, outside = span_of(self._connection, self._together, high)
        exceptions = self._all(self._ids_way(ways.CONTENTS, outside)) if outside else []
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
        walk = self._walk(limit)
        if not self._asks_for_text or walk.messages <= _FEW:
            yield from self._run(self._way(walk, span), walk.by)
            return
        count, total = 0 if any(map(_is_telling, self._together)) else _GLIMPSE, 0
        while count and span.low <= span.high:
            low, found, began = self._boundary(span, count), 0, time.perf_counter()
            for pair in self._run(self._way(walk, Span(low, span.high)), walk.by):
                found += 1
                yield pair
            span = Span(span.low, low - 1)
            self._progress.begin(span.high)
            total += found
            self._test = max(costs.TEST, (time.perf_counter() - began) / count)
            is_dense = found * _DENSE >= count
            is_soon = is_dense and (limit - total) * count / found * self._test < _PATIENCE
            count = 4 * count if is_soon else 0
        if span.low > span.high:
            return
        lacking = self._planner.lacking(self._together)
        proposal = self._planner.propose(self._node)
        if lacking is not None and costs.is_sooner(self._scope, lacking, proposal, limit, self._test):
            yield from self._lacking(span, lacking)
        elif proposal is None:
            yield from self._untold(walk, span, limit - total)
        else:
            yield from self._told(walk, span, limit, proposal)

    def _told(self, walk: Walk, span: Span, limit: int, proposal: Proposal) -> Iterator[Pair]:
        """What matches where the index proposes contents."""
        if costs.is_no_help(self._scope, proposal, walk.messages):
            yield from self._walked(walk, span)
            return
        if count := costs.walk_first(self._scope, proposal, walk.messages, limit, self._test):
            low = self._boundary(span, count)
            yield from self._walked(walk, Span(low, span.high))
            span = Span(span.low, low - 1)
            self._progress.begin(span.high)
        if span.low <= span.high:
            yield from self._by_index(span, proposal, limit)

    def _untold(self, walk: Walk, span: Span, wanted: int) -> Iterator[Pair]:
        """What matches where the index cannot tell quickly.

        The walk goes on as long as it will have found all that is wanted before long, as far as it can tell from what
        it has found. Then the index is asked at length.
        """
        count, walked, found = _ENOUGH_TO_TELL, 0, 0
        while True:
            low = self._boundary(span, count)
            for pair in self._walked(walk, Span(low, span.high)):
                found += 1
                yield pair
            span = Span(span.low, low - 1)
            self._progress.begin(span.high)
            if span.low > span.high:
                return
            walked += count
            missing = min(walk.messages, max(1, wanted - found) * walked / found) if found else walk.messages
            if costs.is_worth_asking(self._scope, missing):
                break
            count = int(missing) + _ENOUGH_TO_TELL
        self._planner.is_thorough = True
        proposal = self._planner.propose(self._node)
        if proposal is not None and costs.stretch(self._scope, proposal, missing) < missing * costs.STEP:
            yield from self._by_index(span, proposal, wanted - found)
        elif barred := self._planner.barred(self._together):
            yield from self._not_barred(span, barred)
        else:
            yield from self._walked(walk, span)

    def _by_index(self, span: Span, proposal: Proposal, limit: int) -> Iterator[Pair]:
        """What matches among the contents that the index proposes, and among those without text.

        A stretch at a time where both indexes propose: one of them may have nothing but what the test refuses, down
        to the oldest message, when the other has had the page full long since.
        """
        count = self._stretch(proposal, limit)
        while span.low <= span.high:
            stretch = Span(self._boundary(span, count) if count else span.low, span.high)
            by_text = self._proposed(stretch, ways.INDEX, proposal.text, "fts.rowid")
            by_lines = self._proposed(stretch, ways.LINES, proposal.lines, "line.rowid")
            pending = self._run(self._way(_walk_of(ways.PENDING), stretch), "content.id")
            yield from self._merged(self._progress.together(by_text, by_lines, pending))
            span, count = Span(span.low, stretch.low - 1), 4 * count
            self._progress.begin(span.high)

    def _lacking(self, span: Span, lacking: Lacking) -> Iterator[Pair]:
        """What matches among the contents that lack a word, and among those without text."""
        values = (self._scope.folder, lacking.word, lacking.pairs, lacking.pairs, span.low, span.high)
        way = Fragment(" AND ".join((ways.LACKING, self._exact.sql)), (*values, *self._exact.values))
        pending = self._run(self._way(_walk_of(ways.PENDING), span), "content.id")
        yield from self._merged(self._progress.together(self._run(way, "lacking.content"), iter(()), pending))

    def _proposed(self, span: Span, tables: str, asked: Asked | None, by: str) -> Iterator[Pair]:
        if asked is None:
            return
        if asked.contents is None:
            yield from self._run(_index_way(self._scope, span, tables, asked), by)
            return
        ids = [content for content in asked.contents if span.low <= content <= span.high]
        test = " AND ".join((ways.CONTENTS, asked.rest.sql))
        for pair in reversed(self._all(Fragment(test, (json.dumps(ids), self._scope.folder, *asked.rest.values)))):
            self._progress.reach_lines(pair[0])
            yield pair

    def _stretch(self, proposal: Proposal, limit: int) -> int:
        """How many messages to begin with when the index is asked; 0 for all of them."""
        if proposal.text is None or proposal.lines is None or proposal.lines.contents is not None:
            return 0
        count = int(2 * limit * self._scope.total / max(1.0, proposal.text.hits)) + _ENOUGH_TO_TELL
        return count if count * _WORTH_COUNTING < self._scope.messages else 0

    def _walked(self, walk: Walk, span: Span) -> Iterator[Pair]:
        """What a walk of a span finds: if it is long, what is beyond ASCII is tested apart from all others."""
        is_most = self._scope.messages * _SHARE_WORTH_PARTING >= self._scope.total
        quick, stored = supposing_plain(self._exact)
        if walk.tables != ways.WALK or not is_most or not stored:
            yield from self._run(self._way(walk, span), walk.by)
            return
        low = self._boundary(span, _ENOUGH_TO_TELL)
        yield from self._run(self._way(walk, Span(low, span.high)), walk.by)
        count, span = min(_PARTED_AT_ONCE, 3 * _ENOUGH_TO_TELL), Span(span.low, low - 1)
        self._progress.begin(span.high)
        while span.low <= span.high:
            low = self._boundary(span, count)
            for pair in self._parted(Span(low, span.high), quick, stored):
                self._progress.begin(pair[0])
                yield pair
            span = Span(span.low, low - 1)
            self._progress.passed(span.high, count, self._scope.messages)
            count = min(_PARTED_AT_ONCE, 3 * count)

    def _parted(self, span: Span, quick: Fragment, stored: set[Stored]) -> Iterator[Pair]:
        """What matches in a span, newest first: SQLite alone tests what is ASCII, as most of it is."""
        beyond = {
            content
            for where in sorted(stored)
            for (content,) in self._connection.execute(ways.BEYOND_ASCII[where], (span.low, span.high))
        }
        untested = sorted(beyond)
        values = (self._scope.folder, span.low, span.high, *self._exact.values)
        for pair in self._run(Fragment(" AND ".join((ways.UNCOUNTED, quick.sql)), values)):
            if pair[0] not in beyond:
                yield from self._tested(untested, pair[0])
                yield pair
        yield from self._tested(untested, span.low - 1)

    def _tested(self, untested: list[int], above: int) -> Iterator[Pair]:
        """What matches among contents above an id, newest first, some at a time; they are taken from the list."""
        while untested and untested[-1] > above:
            start = max(bisect(untested, above), len(untested) - _TESTED_TOGETHER)
            some = untested[start:]
            del untested[start:]
            yield from reversed(self._all(self._ids_way(ways.CONTENTS, some)))

    def _not_barred(self, span: Span, barred: str) -> Iterator[Pair]:
        """What matches among the contents that the index does not rule out, those without text included."""
        while span.low <= span.high:
            low = self._boundary(span, _PASSED_AT_ONCE)
            values = (self._scope.folder, low, span.high, barred, low, span.high)
            self._progress.executing(ways.NOT_BARRED, values)
            contents = self._connection.execute(ways.NOT_BARRED, values)
            while chunk := [content for (content,) in islice(contents, _TESTED_AT_ONCE)]:
                yield from reversed(self._all(self._ids_way(ways.CONTENTS, chunk)))
                self._progress.begin(chunk[-1] - 1)
            span = Span(span.low, low - 1)
            self._progress.begin(span.high)

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

    def _walk(self, limit: int) -> Walk:
        return narrowest(
            self._connection, self._scope.folder, self._scope.messages, self._together, _COUNTED_PER_ROW * limit
        )

    def _boundary(self, span: Span, count: int) -> int:
        """The content id that the count-th message of a span has, newest first, or the span's low end."""
        row = self._connection.execute(ways.NTH, (self._scope.folder, span.low, span.high, count)).fetchone()
        return span.low if row is None else int(row[0])

    def _ids(self) -> list[int] | None:
        for each in self._together:
            if isinstance(each, OneOf):
                return sorted(each.ids)
        return None

    def _run(self, way: Fragment, by: str = "message.content") -> Iterator[Pair]:
        statement = (ways.PAIRS, way.sql, "ORDER BY", by, "DESC")
        return self._progress.rows(" ".join(statement), way.values)

    def _all(self, way: Fragment) -> list[Pair]:
        """Every row of a way, in ascending order."""
        return sorted(self._connection.execute(" ".join(("SELECT message.content, message.id", way.sql)), way.values))

    def _way(self, walk: Walk, span: Span) -> Fragment:
        values = (self._scope.folder, *walk.values, span.low, span.high, *self._exact.values)
        return Fragment(" AND ".join((walk.tables, self._exact.sql)), values)

    def _ids_way(self, tables: str, ids: list[int]) -> Fragment:
        return Fragment(
            " AND ".join((tables, self._exact.sql)), (json.dumps(ids), self._scope.folder, *self._exact.values)
        )


def _walk_of(tables: str) -> Walk:
    return Walk(tables, (), "", 0)


def _is_telling(node: Node) -> bool:
    """Whether a condition looks for something that the index finds at once."""
    pattern = node.pattern if isinstance(node, Contains | TextContains | HeaderContains) else ""
    return any(len(word) >= _TELLING and word.isalpha() for word in pattern.split())


def _index_way(scope: Scope, span: Span, tables: str, asked: Asked) -> Fragment:
    return Fragment(
        " AND ".join((tables, asked.rest.sql)), (scope.folder, asked.match, span.low, span.high, *asked.rest.values)
    )


_GLIMPSE = 8
"""Messages to walk before anything is looked up: many words are in so many mails that the page is full by then."""
_TELLING = 4
"""So many letters in a row are in few words, and looked up sooner than eight texts are tested."""
_DENSE, _PATIENCE = 16, 1e-3
"""As long as one of so many messages matches, and the page will be full within so many seconds, the walk goes on."""
_ENOUGH_TO_TELL = 500
"""Messages to walk before it is told whether to go on, where the index cannot answer quickly."""
_PASSED_AT_ONCE, _TESTED_AT_ONCE = 10_000, 200
"""Messages that one statement passes to find those that the index does not rule out, and of these that one tests."""
_SHARE_WORTH_PARTING, _PARTED_AT_ONCE, _TESTED_TOGETHER = 4, 5_000, 50
"""One in so many contents is in a folder whose walk tests texts beyond ASCII apart, of so many messages at a time; of
these texts so many are tested before the next hit is given out."""
_WORTH_COUNTING = 8
"""A stretch that is more of a folder than one in so many is not worth finding where it ends."""
_COUNTED_PER_ROW = 100
_FEW = 100
"""A walk of so few messages is not worth asking the index."""
