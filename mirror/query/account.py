"""How an account is: what it uses, has fetched and still lacks, and what stands in its way."""

import json
import sqlite3
import time
from datetime import UTC, datetime

from mirror.mirrored import AccountState, Quarantined
from mirror.pace import done_by, utc_day
from mirror.query import lines


def account(connection: sqlite3.Connection) -> AccountState:
    """The account of a mirror."""
    rung, distrusted, began, ended, error, fetched_on, fetched, ever, daily, rate, throttled, refused = (
        connection.execute(_MIRROR).fetchone()
    )
    (pending,) = connection.execute(_PENDING).fetchone()
    now = time.time()
    today = fetched if fetched_on == utc_day(now) else 0
    broken = {name: why for name, (until, why) in json.loads(distrusted).items() if until > now}
    return AccountState(
        rung=" ".join(word for word in rung.split() if word not in broken) or ("IMAP4rev1" if rung else ""),
        distrusted=broken,
        pass_ended=_moment(ended),
        is_passing=began > ended,
        error=error,
        throttled_until=_moment(throttled if throttled > now else 0),
        logins_refused=refused,
        bytes_today=today,
        bytes_total=ever,
        daily_bytes=daily,
        bytes_pending=pending,
        done_by=done_by(pending, rate, daily=daily, today=today, now=datetime.now(UTC)),
        lines_indexed=lines.is_whole(connection),
    )


def quarantined(connection: sqlite3.Connection, folder_id: int, limit: int) -> list[Quarantined]:
    """The messages of a folder that could not be fetched or read, those tried next first."""
    rows = connection.execute(_QUARANTINED, (folder_id, limit))
    return [Quarantined(uid, size, reason, datetime.fromtimestamp(at, UTC)) for uid, size, reason, at in rows]


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


_MIRROR = """
    SELECT rung, distrusted, pass_began_at, pass_ended_at, error, fetched_on, fetched, fetched_ever, daily_bytes,
        fetch_rate, throttled_until, logins_refused
    FROM mirror
    """
_PENDING = """
    SELECT coalesce(sum(size), 0) FROM content
    WHERE state < 2 AND id >= (SELECT mirrored_from FROM mirror) AND orphaned_at IS NULL
    """
_QUARANTINED = """
    SELECT message.uid, content.size, attempt.reason, attempt.next_try
    FROM attempt CROSS JOIN message ON message.content = attempt.content
    JOIN content ON content.id = attempt.content
    WHERE message.folder = ? AND (attempt.crashes >= 2 OR attempt.failures >= 3)
    ORDER BY attempt.next_try, message.uid LIMIT ?
    """
