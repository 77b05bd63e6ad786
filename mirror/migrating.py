"""Bringing an SQLite file to the newest schema, whoever opens it first."""

import sqlite3
from collections.abc import Callable, Collection

from sqlite_utils import Database, Migrations


def migrate_file(
    connection: sqlite3.Connection, migrations: Migrations, too_new: Callable[[Collection[str]], Exception]
) -> None:
    """Apply what the file lacks, in one transaction.

    too_new: the error to raise when a newer program wrote the file, from the names of the migrations it knows more.
    """
    if not _lacks_any(connection, migrations, too_new):
        return
    # Two processes may open a new file at once: the second waits here, and then has nothing to do.
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _lacks_any(connection, migrations, too_new):
            migrations.apply(Database(connection))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def names_of(migrations: Migrations) -> frozenset[str]:
    """The names of all migrations of a set."""
    return frozenset(migration.name for migration in migrations.pending(Database(memory=True)))


def _lacks_any(
    connection: sqlite3.Connection, migrations: Migrations, too_new: Callable[[Collection[str]], Exception]
) -> bool:
    known = names_of(migrations)
    applied = {migration.name for migration in migrations.applied(Database(connection))}
    if unknown := applied - known:
        raise too_new(unknown)
    return bool(known - applied)
