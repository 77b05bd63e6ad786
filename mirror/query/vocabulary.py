"""Words that are surely known to the index: what one writer has just put there need not be looked for again."""

import sqlite3
from collections.abc import Collection, Iterable
from itertools import filterfalse

from mirror.terms import Terms

_MOST = 100_000
"""Words held in memory. The first ones met are the most frequent ones."""


class Vocabulary:
    """The words that this writer knows the table to have, or to be put aside for it.

    It holds as long as nobody takes words away: another connection's commit makes it forget, and whoever takes words
    away or rolls back over this connection calls forget().
    """

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._version = -1

    def fresh(self, connection: sqlite3.Connection, contents: Iterable[Terms]) -> list[str]:
        """Words of the contents that the table may lack, in order. Within the transaction that adds them."""
        version = int(connection.execute("PRAGMA data_version").fetchone()[0])
        if version != self._version:
            self._words.clear()
            self._version = version
        found: set[str] = set()
        for terms in contents:
            found.update(filterfalse(self._words.__contains__, terms.words))
        return sorted(found)

    def hold(self, words: Collection[str]) -> None:
        """These are in the table now, or put aside for it."""
        if len(self._words) < _MOST:
            self._words.update(words)

    def forget(self) -> None:
        """Nothing is sure any more."""
        self._words.clear()
