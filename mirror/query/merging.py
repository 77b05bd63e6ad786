"""Merges of the full-text index, put off while a backlog is written.

FTS5 merges what each transaction wrote into fewer, longer runs; done along with a backlog, the same text is merged
several times. Put off, it is merged once, in short steps, when everything can be found already. The setting is in the
mirror's file: whoever opens a file that a backlog was cut in finds the merges still to do.
"""

import sqlite3
from collections.abc import Iterator

_SET = {
    "fts": "INSERT INTO fts (fts, rank) VALUES (?, ?)",
    "word_trigram": "INSERT INTO word_trigram (word_trigram, rank) VALUES (?, ?)",
    "line": "INSERT INTO line (line, rank) VALUES (?, ?)",
}
_PAGES = 300
"""Written in one step: some 50 ms."""


def are_put_off(connection: sqlite3.Connection) -> bool:
    """Whether merges are still to be done."""
    row = connection.execute("SELECT v FROM fts_config WHERE k = 'automerge'").fetchone()
    return row is not None and row[0] == 0


def put_off(connection: sqlite3.Connection) -> None:
    """From now on nothing is merged."""
    for statement in _SET.values():
        connection.execute(statement, ("automerge", 0))
        connection.execute(statement, ("crisismerge", 1_999))


def steps(connection: sqlite3.Connection) -> Iterator[None]:
    """Merge what was put off; yields after each step, for the caller to commit. Then merging goes on as usual."""
    for statement in _SET.values():
        merged = 2
        while merged > 1:  # FTS5 says by the number of changes whether anything was left to merge
            before = connection.total_changes
            connection.execute(statement, ("merge", _PAGES))
            merged = connection.total_changes - before
            yield
    for statement in _SET.values():
        connection.execute(statement, ("automerge", 4))
        connection.execute(statement, ("crisismerge", 16))
    yield
