"""`state.db`: whether it is whole and of this program, and whether it knows tokens of what is gone."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from config.identity import Settings
from server.amounts import counted
from server.doctor.finding import Finding, fail, ok, warn
from server.doctor.schema import unknown_migrations
from server.state.schema import migrations


def check_state(settings: Settings) -> Iterator[Finding]:
    """Read only; a file that is not there yet is no fault."""
    path: Path = settings.server.data_dir / "state.db"
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            if unknown := unknown_migrations(db, "state", migrations):
                yield fail("state-too-new", path, f"written by a newer postmirror ({unknown})", "upgrade the program")
                return
            said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
            tokens = db.execute(
                "SELECT name, user, profile FROM token WHERE name NOT IN (SELECT name FROM revocation)"
            ).fetchall()
    except sqlite3.DatabaseError as exc:
        said, tokens = str(exc), []
    if said != "ok":
        yield fail(
            "state-damaged",
            path,
            f"SQLite reports damage: {said[:200]}",
            "stop postmirror and restore it from a backup",
        )
        return
    lost = [name for name, user, profile in tokens if user not in settings.users or profile not in settings.profiles]
    if lost:
        yield warn(
            "token-lost",
            path,
            f"token {lost[0]}: its user or profile is not in the configuration, so it is refused",
            f"postmirror token revoke {lost[0]}, or put them back",
        )
    else:
        yield ok("state", path, f"whole; {counted(len(tokens), 'token')} issued")
