"""Which migrations an SQLite file has had, read without changing it."""

import sqlite3

from sqlite_utils import Migrations

from mirror.migrating import names_of


def unknown_migrations(db: sqlite3.Connection, set_name: str, known: Migrations) -> str:
    """Names of migrations that this program does not know: a newer one wrote the file. "" when there are none."""
    try:
        rows = db.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = ?", (set_name,)).fetchall()
    except sqlite3.OperationalError:
        return ""
    return ", ".join(sorted({name for (name,) in rows} - names_of(known)))
