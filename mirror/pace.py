"""How much an account may fetch in a day, and when a backlog is fetched at that pace."""

from datetime import UTC, datetime, timedelta

_DAY = 86_400
_LONGEST = 3_650.0 * _DAY


def utc_day(seconds: float) -> int:
    """The day of a time, both since 1970: days begin at midnight in UTC."""
    return int(seconds // _DAY)


def done_by(octets: int, rate: float, *, daily: int, today: int, now: datetime) -> datetime | None:
    """When so many octets will have been fetched; None when that cannot be told.

    rate: octets a second, 0 when it is not known: then the limit alone tells. daily: how many a day are allowed, 0 for
    any number; today: how many were fetched today.
    """
    if octets <= 0:
        return now
    rate = rate or float(daily)
    if rate <= 0:
        return None
    now = now.astimezone(UTC)
    if not daily or octets <= max(0, daily - today):
        return now + timedelta(seconds=min(octets / rate, _LONGEST))
    octets -= max(0, min(daily - today, int(rate * _until_midnight(now))))
    a_day = min(daily, int(rate * _DAY)) or 1
    days, rest = divmod(octets, a_day)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return midnight + timedelta(seconds=min(days * _DAY + rest / rate, _LONGEST))


def _until_midnight(now: datetime) -> float:
    return _DAY - (now - now.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
