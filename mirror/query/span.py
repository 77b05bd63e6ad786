"""Which content ids may match by the dates that a filter asks for.

An id is at least its minute's first one. It may be higher, when minutes before it were full: by as much as
content_spill says at most. The day of a Date header is near the received one, or content_skewed has it.
"""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime

from mirror.query import ways
from mirror.query.tree import Any, Node, Received, ReceivedAt, Sent
from mirror.schema import SPILL_BITS

LOWEST, HIGHEST = -(2**62), 2**62
_ID_EPOCH = 946_684_800
_FIRST_DAY = 719_163
_MOST_SKEWED = 2_000
_DAY = 86_400
_LAST_SECOND = 253_402_300_799
_LONG_AGO, _FAR_AHEAD = -(2**40), 2**40


@dataclass(frozen=True, slots=True)
class Span:
    """Content ids from low to high, both included."""

    low: int
    high: int


def content_moment(content: int) -> datetime:
    """The minute of INTERNALDATE that a content id stands for, the last that there is for one beyond it."""
    return datetime.fromtimestamp(min((content >> SPILL_BITS) * 60 + _ID_EPOCH, _LAST_SECOND), UTC)


def span_of(connection: sqlite3.Connection, together: tuple[Node, ...], high: int) -> tuple[Span, list[int]]:
    """The ids, none above `high`, that conditions which hold together admit, and the ids outside that they do."""
    moments = [moments for each in together if (moments := _moments(each)) is not None]
    full = _ids_between(connection, moments, high)
    days = [days for each in together if (days := _sent_days(each)) is not None]
    if not days:
        return full, []
    first, last = max(day for day, _ in days), min(day for _, day in days)
    skewed = connection.execute(ways.SKEWED, (first, last, full.low, full.high, _MOST_SKEWED)).fetchall()
    if len(skewed) == _MOST_SKEWED:
        return full, []
    near = (first * _DAY - 4 * _DAY, last * _DAY + 5 * _DAY)
    span = _ids_between(connection, [*moments, near], high)
    return span, [content for (content,) in skewed if not span.low <= content <= span.high]


def _ids_between(connection: sqlite3.Connection, moments: list[tuple[int, int]], high: int) -> Span:
    if not moments:
        return Span(LOWEST, high)
    spilled = connection.execute(ways.MOST_SPILLED).fetchone()[0] or 0
    earliest, latest = max(moment for moment, _ in moments), min(moment for _, moment in moments)
    # Beyond an open end there are no dates: nothing may be said of it but that it is open.
    return Span(
        LOWEST if earliest == _LONG_AGO else max(LOWEST, (earliest - _ID_EPOCH) // 60 << SPILL_BITS),
        high if latest == _FAR_AHEAD else min(high, ((latest - _ID_EPOCH) // 60 + spilled + 2) << SPILL_BITS),
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
