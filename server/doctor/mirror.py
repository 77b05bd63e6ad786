"""One mirror: whether its file is whole, how its last pass ended, and its bytes of the day."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from config.identity import Settings
from config.provider import Provider
from mirror.database import connect
from mirror.errors import MirrorAbsent, MirrorCorrupt
from mirror.lock import Lock
from mirror.mirrored import AccountState
from mirror.query.reader import Reader
from mirror.schema import migrations
from server.doctor.finding import Finding, fail, ok, warn
from server.doctor.schema import unknown_migrations

LONGEST_CHECK = 20.0
"""Seconds for the check of one file."""
_STALE = timedelta(hours=1)


def check_mirror(folder: Path, provider: Provider, about: str) -> Iterator[Finding]:
    """Of the mirror in this folder."""
    for path in sorted(folder.glob("mirror.damaged-*.db")):
        yield warn(
            "mirror-set-aside",
            about,
            f"{path.name} was found damaged and set aside; the mirror was built anew",
            f"check disk and memory of this machine; the file goes by itself after a week, or: rm {path}",
        )
    path = folder / "mirror.db"
    if not path.exists():
        yield ok("mirror", about, "not mirrored yet: postmirror sync or serve begins")
        return
    rebuild = f"stop postmirror, mv {folder} {folder}.damaged, start it: the mirror is built again from upstream"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            if unknown := unknown_migrations(db, "mirror", migrations):
                yield fail("mirror-too-new", about, f"written by a newer postmirror ({unknown})", "upgrade the program")
                return
            problem, is_whole = _quick_check(db)
        problem = problem or _index_problem(folder)
        if not problem:
            with Reader(path) as reader:
                yield from _account(reader.account(), provider, about)
    except MirrorAbsent:
        yield ok("mirror", about, "of an older version: the next pass brings it up to date")
        return
    except (sqlite3.DatabaseError, MirrorCorrupt) as exc:
        problem = str(exc)
    if problem:
        yield fail("mirror-damaged", about, f"{path.name}: {problem}", rebuild)
    else:
        yield ok("mirror", about, "whole" if is_whole else f"no damage found in {LONGEST_CHECK:.0f} s")


def check_strangers(settings: Settings) -> Iterator[Finding]:
    """Mirrors of mailboxes that the configuration no longer has."""
    known = {settings.mirror_dir(user, name) for user, name, _ in settings.identities()}
    for folder in sorted((settings.server.data_dir / "mirrors").glob("*/*")):
        if folder.is_dir() and folder not in known:
            name = f"{folder.parent.name}/{folder.name}"
            yield warn(
                "mirror-orphan",
                name,
                "a mirror is kept of a mailbox that the configuration no longer has",
                f"postmirror forget {name}, or put the mailbox back",
            )


def _quick_check(db: sqlite3.Connection) -> tuple[str, bool]:
    """(what is wrong, whether the whole file was looked at)."""
    end = time.monotonic() + LONGEST_CHECK
    db.set_progress_handler(lambda: time.monotonic() > end, 100_000)
    try:
        said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as exc:
        if "interrupted" in str(exc):
            return "", False
        raise
    return "" if said == "ok" else said.replace("\n", " ")[:200], True


def _index_problem(folder: Path) -> str:
    """What FTS5 finds wrong in its index. Looked for only while nobody keeps the mirror: the check writes-locks it."""
    lock = Lock(folder / "lock")
    if not lock.acquire():
        return ""
    try:
        with closing(connect(folder / "mirror.db")) as db:
            end = time.monotonic() + LONGEST_CHECK
            db.set_progress_handler(lambda: time.monotonic() > end, 100_000)
            db.execute("INSERT INTO fts (fts, rank) VALUES ('integrity-check', 0)")
            db.execute("INSERT INTO line (line, rank) VALUES ('integrity-check', 0)")
    except sqlite3.OperationalError as exc:
        return "" if "interrupted" in str(exc) or "locked" in str(exc) else f"the index cannot be read: {exc}"
    except sqlite3.DatabaseError as exc:
        return f"the index is damaged: {exc}"
    finally:
        lock.release()
    return ""


def _account(account: AccountState, provider: Provider, about: str) -> Iterator[Finding]:
    if account.error:
        yield warn("pass-failed", about, f"the last pass failed: {account.error}", "postmirror sync tries it now")
    elif account.pass_ended is not None:
        age = datetime.now(UTC) - account.pass_ended
        if age > max(_STALE, 10 * provider.sync.interval) and not account.is_passing:
            yield warn(
                "mirror-old",
                about,
                f"the last pass ended {age.total_seconds() / 3_600:.1f} hours ago",
                "keep postmirror serve running, or run postmirror sync",
            )
    if account.daily_bytes and account.bytes_today >= account.daily_bytes and account.bytes_pending:
        yield warn(
            "budget-used",
            about,
            f"the {account.daily_bytes // 1_000_000} MB of this day are used up,"
            f" {account.bytes_pending // 1_000_000} MB are still to come",
            "wait: it goes on at midnight UTC; sync.daily_bytes is the limit",
        )
    elif account.daily_bytes:
        yield ok(
            "budget", about, f"{account.bytes_today // 1_000_000} of {account.daily_bytes // 1_000_000} MB of this day"
        )
