"""Pages of a folder: what matches, or what a profile sees of what matches for it."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Protocol

from mirror.errors import QueryTooSlow
from mirror.mirrored import MirroredMessage
from mirror.query import order, ways
from mirror.query.costs import Scope
from mirror.query.lexicon import Lexicon
from mirror.query.order import Position
from mirror.query.plan import superset
from mirror.query.progress import OutOfTime, Progress
from mirror.query.search import Search
from mirror.query.span import HIGHEST, content_moment
from mirror.query.tree import All, Node, Query, ReceivedAt, evaluate

View = Callable[[MirroredMessage], MirroredMessage | None]
"""What a profile sees of a message, or None. Its argument has text and headers where they are mirrored.

A view is pure. It may drop fields and delete spans of text; whatever it puts in their place must be no text that a
pattern could find. It leaves id, content, internaldate and size as they are, and adds nothing.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of one folder in the order of the query.

    after: where the next page starts, None when there is none; it may be the place of a message that a view hides, so
    a client gets it sealed. searched_back_to: None, or the INTERNALDATE down to which the mirror was searched when the
    time for one call ran out; `after` goes on from there. With a view it is the date of a message that the view shows,
    or None where it showed none on the way: a date that could be a hidden message's is never given. is_cut: whether the
    time ran out.
    """

    messages: list[MirroredMessage]
    after: Position | None
    searched_back_to: datetime | None = None
    is_cut: bool = False


class Loader(Protocol):
    """Loads messages by their positions, with all that conditions read where asked."""

    def __call__(self, scope: Scope, positions: Sequence[Position], *, with_all: bool = False) -> list[MirroredMessage]:
        """The messages that are still there, in this order."""


class Searching:
    """Searches of one folder within the time that `progress` has."""

    def __init__(
        self, connection: sqlite3.Connection, progress: Progress, scope: Scope, load: Loader, lexicon: Lexicon
    ) -> None:
        self._connection = connection
        self._lexicon = lexicon
        self._progress = progress
        self._scope = scope
        self._load = load

    def page(self, query: Query, after: Position | None, limit: int) -> Page:
        """The next messages that match."""
        if query.order:
            positions = self._sorted_positions(query, query.filter, after, limit + 1)
            return self._page_of(positions, limit)
        if query.filter is None:
            bound = (HIGHEST, 0) if after is None else after
            values = (self._scope.folder, bound[-2], *bound[-2:], limit + 1)
            newest: list[Position] = self._connection.execute(ways.NEWEST, values).fetchall()
            return self._page_of(newest, limit)
        found: list[Position] = []
        cut: Position | None = None
        try:
            for pair in self._search(query.filter).newest_first(after, limit):
                found.append(pair)
                if len(found) > limit:
                    break
        except OutOfTime as exc:
            cut = exc.position
        if len(found) > limit:
            return self._page_of(found, limit)
        return _newest_page(self._load(self._scope, found), after, limit, cut)

    def _page_of(self, found: list[Position], limit: int) -> Page:
        """The messages at these positions, of which there may be one more than a page holds."""
        return Page(self._load(self._scope, found[:limit]), found[limit - 1] if len(found) > limit else None)

    def page_of_view(
        self, query: Query, after: Position | None, limit: int, view: View, since: datetime | None, *, is_whole: bool
    ) -> Page:
        """The next messages that match as the view shows them."""
        if query.order:
            viewed = self._sorted_whole if is_whole else self._sorted_viewed
            return viewed(query, after, limit, view, since)
        found: list[MirroredMessage] = []
        cut: Position | None = None
        back_to: datetime | None = None
        try:
            for message in self._viewed(query.filter, after, limit, view, since, is_whole=is_whole):
                found.append(message)
                if len(found) > limit:
                    break
        except OutOfTime as exc:
            cut, back_to = exc.position, exc.shown_back_to
        page = _newest_page(found, after, limit, cut)
        return page if page.searched_back_to is None else replace(page, searched_back_to=back_to)

    def _sorted_whole(
        self, query: Query, after: Position | None, limit: int, view: View, since: datetime | None
    ) -> Page:
        condition = _not_before(since, query.filter)
        found: list[tuple[Position, MirroredMessage]] = []
        size = limit + 1
        while len(found) <= limit:
            positions = self._sorted_positions(query, condition, after, size)
            for position, message in zip(positions, self._load(self._scope, positions), strict=True):
                if (shown := view(message)) is not None:
                    found.append((position, shown))
            if len(positions) < size:
                break
            after, size = positions[-1], min(2 * size, _MOST_SORTED)
        return Page([shown for _, shown in found[:limit]], found[limit - 1][0] if len(found) > limit else None)

    def _sorted_viewed(
        self, query: Query, after: Position | None, limit: int, view: View, since: datetime | None
    ) -> Page:
        shown: dict[Position, MirroredMessage] = {}
        try:
            for message in self._viewed(query.filter, None, self._scope.messages, view, since, is_whole=False):
                position = order.keys(query.order, message)
                if after is None or order.is_after(query.order, position, after):
                    shown[position] = message
        except OutOfTime:
            raise QueryTooSlow from None
        found = order.arranged(query.order, list(shown))
        return Page([shown[each] for each in found[:limit]], found[limit - 1] if len(found) > limit else None)

    def _viewed(
        self,
        node: Node | None,
        after: Position | None,
        limit: int,
        view: View,
        since: datetime | None,
        *,
        is_whole: bool,
    ) -> Iterator[MirroredMessage]:
        """What a profile sees of the messages that match for it, newest first."""
        condition = node if is_whole or node is None else superset(node)
        proposed = self._search(_not_before(since, condition)).newest_first(after, limit)
        cut: tuple[int, int] | None = None
        shown_back_to: datetime | None = None
        size, given = limit + 1, 0
        while cut is None:
            batch: list[Position] = []
            try:
                for pair in islice(proposed, size):
                    batch.append(pair)
            except OutOfTime as exc:
                cut = exc.position
            for message in self._load(self._scope, batch, with_all=not is_whole):
                shown = view(message)
                if shown is None:
                    continue
                shown_back_to = shown.internaldate
                if is_whole or node is None or evaluate(node, shown):
                    given += 1
                    yield shown
            if cut is None and len(batch) < size:
                return
            if cut is None and self._progress.is_over():
                cut = (int(batch[-1][0]), int(batch[-1][1]))
            size = min(_BATCH, max(_LEAST, 2 * (limit + 1 - given))) if given else _BATCH
        raise OutOfTime(cut, shown_back_to)

    def _sorted_positions(
        self, query: Query, condition: Node | None, after: Position | None, limit: int
    ) -> list[Position]:
        try:
            return self._search(condition).sorted_positions(query.order, after, limit)
        except sqlite3.OperationalError:
            if not self._progress.is_over():
                raise
            raise QueryTooSlow from None

    def _search(self, node: Node | None) -> Search:
        return Search(self._connection, self._scope, node, self._progress, self._lexicon)


def _newest_page(found: list[MirroredMessage], after: Position | None, limit: int, cut: Position | None) -> Page:
    if len(found) > limit:
        last = found[limit - 1]
        return Page(found[:limit], (last.content, last.id))
    if cut is None:
        return Page(found, None)
    if cut >= (after or _BEFORE_ALL):
        raise QueryTooSlow
    return Page(found, cut, content_moment(int(cut[0])), is_cut=True)


def _not_before(since: datetime | None, condition: Node | None) -> Node | None:
    """The condition, for nothing older."""
    if since is None:
        return condition
    others = condition.nodes if isinstance(condition, All) else () if condition is None else (condition,)
    return All((*others, ReceivedAt(">=", int(since.timestamp()))))


_BATCH, _LEAST = 64, 8
_MOST_SORTED = 4_096
_BEFORE_ALL: Position = (2**62, 0)
