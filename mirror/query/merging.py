"""Merges of the full-text index, put off while a backlog is written.

FTS5 merges what each transaction wrote into fewer, longer runs; done along with a backlog, the same text is merged
several times. Put off, it is merged once, in short steps, when everything can be found already. The setting is in the
mirror's file: whoever opens a file that a backlog was cut in finds the merges still to do. FTS5 has numbers for 2,000
runs, and says that the disk is full when it needs one more: a long backlog is merged along the way (Between).

New words are put aside meanwhile (mirror.query.fresh_words): there are none when merging goes on as usual.
"""

import sqlite3
from collections.abc import Iterator

from mirror.query.fresh_words import take_in

_SET = {
    "fts": "INSERT INTO fts (fts, rank) VALUES (?, ?)",
    "word_trigram": "INSERT INTO word_trigram (word_trigram, rank) VALUES (?, ?)",
    "line": "INSERT INTO line (line, rank) VALUES (?, ?)",
}
_RUNS = (
    "SELECT count(DISTINCT segid) FROM fts_idx",
    "SELECT count(DISTINCT segid) FROM word_trigram_idx",
    "SELECT count(DISTINCT segid) FROM line_idx",
)
MANY_RUNS = 500
"""Runs that a backlog leaves before it is merged along the way."""
_MOST_RUNS = 1_000
"""Runs of one length that FTS5 merges at once, however long that takes."""
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
        connection.execute(statement, ("crisismerge", _MOST_RUNS))


def steps(connection: sqlite3.Connection) -> Iterator[None]:
    """Do what was put off; yields after each step, for the caller to commit. Then merging goes on as usual."""
    yield from take_in(connection)
    yield from _merges(connection)
    for statement in _SET.values():
        connection.execute(statement, ("automerge", 4))
        connection.execute(statement, ("crisismerge", 16))
    yield


class Between:
    """Merges along with a long backlog, so that it never leaves more runs than FTS5 has numbers for."""

    def __init__(self) -> None:
        self._runs = 0
        self._under_way: Iterator[None] | None = None

    def begin(self, connection: sqlite3.Connection) -> None:
        """A backlog begins, or goes on in a file that has runs of it."""
        self._runs = max(connection.execute(count).fetchone()[0] for count in _RUNS)

    def is_due(self) -> bool:
        """Whether a step of merging follows the transaction of the backlog that ended now."""
        self._runs += 1
        return self._under_way is not None or self._runs > MANY_RUNS

    def step(self, connection: sqlite3.Connection) -> None:
        """Merge a little, within the caller's transaction."""
        if self._under_way is None:
            self._under_way, self._runs = _merges(connection), 0
        if next(self._under_way, connection) is connection:
            self._under_way = None


def _merges(connection: sqlite3.Connection) -> Iterator[None]:
    for statement in _SET.values():
        merged = 2
        while merged > 1:  # FTS5 says by the number of changes whether anything was left to merge
            before = connection.total_changes
            connection.execute(statement, ("merge", _PAGES))
            merged = connection.total_changes - before
            yield
