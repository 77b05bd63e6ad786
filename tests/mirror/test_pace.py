"""When a backlog is fetched, by the rate that was measured and the limit of a day."""

from datetime import UTC, datetime, timedelta

import pytest

from mirror.pace import done_by, utc_day

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("octets", "rate", "daily", "today", "expected"),
    [
        (0, 0, 0, 0, NOON),
        (1_000, 0, 0, 0, None),
        (1_000, 0, 1_000, 1_000, MIDNIGHT + timedelta(days=1)),
        (3_600, 1, 0, 0, NOON + timedelta(hours=1)),
        (3_600, 1, 10_000, 6_400, NOON + timedelta(hours=1)),
        (3_601, 1, 10_000, 6_400, MIDNIGHT + timedelta(seconds=1)),
        (25_000, 10, 10_000, 10_000, MIDNIGHT + timedelta(days=2, seconds=500)),
        (25_000, 10, 10_000, 12_000, MIDNIGHT + timedelta(days=2, seconds=500)),
        # The line is slower than the limit: half a day is left of this one.
        (43_200 + 86_400 + 10, 1, 10**9, 10**9 - 43_200, MIDNIGHT + timedelta(days=1, seconds=10)),
    ],
)
def test_backlog_is_done_by(octets: int, rate: float, daily: int, today: int, expected: datetime | None) -> None:
    assert done_by(octets, rate, daily=daily, today=today, now=NOON) == expected


def test_absurd_rate_has_an_end_all_the_same() -> None:
    assert done_by(10**15, 0.001, daily=1, today=0, now=NOON) == MIDNIGHT + timedelta(days=3_650)


def test_day_begins_at_midnight_in_utc() -> None:
    assert utc_day(MIDNIGHT.timestamp()) == utc_day(MIDNIGHT.timestamp() - 1) + 1
