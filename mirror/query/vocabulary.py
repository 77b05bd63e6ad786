"""Words that are surely in the table of words: what one writer has just put there need not be looked for again."""

import sqlite3
from collections.abc import Collection

_MOST = 100_000
"""Words held in memory. The first ones met are the most frequent ones."""


class Vocabulary:
    """The words that this writer knows the table to have.

    It holds as long as nobody takes words away: another connection's commit makes it forget, and whoever takes words
    away or rolls back over this connection calls forget().
    """

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._version = -1

    def fresh(self, connection: sqlite3.Connection, words: set[str]) -> list[str]:
        """Those of the words that the table may lack, in order. Within the transaction that adds them."""
        version = int(connection.execute("PRAGMA data_version").fetchone()[0])
        if version != self._version:
            self._words.clear()
            self._version = version
        return sorted(words - self._words)

    def hold(self, words: Collection[str]) -> None:
        """These are in the table now."""
        if len(self._words) < _MOST:
            self._words.update(words)

    def forget(self) -> None:
        """Nothing is sure any more."""
        self._words.clear()
