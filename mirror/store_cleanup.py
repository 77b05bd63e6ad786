"""What gone messages leave behind in a mirror's files, and how it goes: the weekly clean-up.

SQLite overwrites what is deleted (secure_delete), but three things outlive it: terms of deleted texts in segments of
the index that have not been merged; copies of cells in the unused middle of pages that were balanced; and old pages in
the log. So the index is merged into one segment, the file is written anew when anything has gone since the last time,
and the log is cut. Searches get faster by it too.

The index is merged in short transactions. Writing the file anew is one long one: readers go on, other writers wait or
are told to come again.
"""

import logging
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from mirror.blobs import Blobs
from mirror.database import transaction, use_memory
from mirror.query.words import forget_unused_words

logger = logging.getLogger(__name__)

EVERY = 7 * 86_400.0
"""Seconds between two clean-ups."""
SET_ASIDE_SECONDS = 7 * 86_400.0
"""How long a damaged file is kept beside the mirror."""
_MERGE_PAGES = 64
_MERGES = {
    "fts": "INSERT INTO fts (fts, rank) VALUES ('merge', ?)",
    "word_trigram": "INSERT INTO word_trigram (word_trigram, rank) VALUES ('merge', ?)",
    "line": "INSERT INTO line (line, rank) VALUES ('merge', ?)",
}


class StoredCleanup:
    """Removes what is gone from the files, for the holder of the lock."""

    _connection: sqlite3.Connection
    path: Path
    blobs: Blobs
    sweep: Callable[..., int]

    def is_cleanup_due(self) -> bool:
        """Whether the last one was a week ago, or somebody asked for one."""
        return self.cleaned_at() <= time.time() - EVERY

    def cleaned_at(self) -> float:
        """When the last clean-up ended."""
        return float(self._connection.execute("SELECT cleaned_at FROM mirror").fetchone()[0])

    def want_cleanup(self) -> None:
        """Ask whoever keeps this mirror for a clean-up after its next pass."""
        self._connection.execute("UPDATE mirror SET cleaned_at = 0")

    def clean_up(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Remove every trace of messages that are gone. False: something stood in the way, try again later."""
        began = time.time()
        self.forget_set_aside()
        self.sweep(before=began)
        self.blobs.sweep(2**63)
        with transaction(self._connection) as db:
            forget_unused_words(db)
        for statement in _MERGES.values():
            if not self._merge(statement, stop):
                return False
        if not self._write_anew() or not self._cut_log():
            return False
        self._connection.execute("UPDATE mirror SET cleaned_at = ?", (time.time(),))
        logger.info("cleaned up", extra={"mirror": self.path.parent.name, "seconds": round(time.time() - began, 2)})
        return True

    def forget_set_aside(self) -> None:
        """A damaged file holds mail that upstream may have lost since: it is kept for a look, not for ever."""
        for path in self.path.parent.glob("mirror.damaged-*.db"):
            if time.time() - path.stat().st_ctime > SET_ASIDE_SECONDS:
                path.unlink()

    def _merge(self, statement: str, stop: Callable[[], bool]) -> bool:
        """Merge one index into a single segment, a few pages a transaction."""
        pages = -_MERGE_PAGES  # a negative number begins a merge of everything (FTS5, 6.8)
        while not stop():
            before = self._connection.total_changes
            with transaction(self._connection) as db:
                db.execute(statement, (pages,))
            if self._connection.total_changes - before < 2:
                return True
            pages = _MERGE_PAGES
        return False

    def _write_anew(self) -> bool:
        swept = self._connection.execute("SELECT swept FROM mirror").fetchone()[0]
        if not swept:
            return True
        size = self.path.stat().st_size
        if shutil.disk_usage(self.path.parent).free < 3 * size:
            logger.warning("clean-up put off: the disk is too full", extra={"mirror": self.path.parent.name})
            return False
        self._connection.execute("UPDATE mirror SET swept = swept - ?", (swept,))
        use_memory(self._connection, is_wanted=False)
        try:
            self._connection.execute("VACUUM")
        except BaseException:
            self._connection.execute("UPDATE mirror SET swept = swept + ?", (swept,))
            raise
        finally:
            use_memory(self._connection)
        return True

    def _cut_log(self) -> bool:
        """Empty the log. False: a reader was in the middle of an answer for longer than writers wait."""
        return not self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
