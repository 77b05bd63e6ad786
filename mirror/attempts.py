"""Attempts to read a content that may fail or crash: recorded before they start, so that a crash is remembered."""

import sqlite3
import time
from collections.abc import Iterable, Sequence

from mirror.database import transaction

_RETRY_AFTER = (3_600.0, 6 * 3_600.0, 24 * 3_600.0, 7 * 24 * 3_600.0)


class Attempts:
    """The `attempt` table of one mirror. A row goes when its content's text is stored."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def begin(self, content_ids: Iterable[int], *, alone: bool = False, few: bool = False) -> None:
        """Parsing of these contents is about to start; what is still marked after a crash is suspect."""
        running = 2 if alone else 4 if few else 1
        with transaction(self._connection) as db:
            db.executemany(
                "INSERT INTO attempt (content, running) VALUES (?, ?)"
                " ON CONFLICT (content) DO UPDATE SET running = excluded.running",
                [(content, running) for content in content_ids],
            )

    def adopt_interrupted(self) -> int:
        """Parses that an earlier worker did not survive: one alone counts as a crash, others are tried by fewer."""
        with transaction(self._connection) as db:
            cursor = db.execute(
                "UPDATE attempt SET crashes = crashes + (running = 2), running = iif(running = 1, 3, 5),"
                " reason = 'parsing was interrupted' WHERE running IN (1, 2, 4)"
            )
        return cursor.rowcount

    def forgive(self) -> None:
        """The parsers failed on everything: nothing of it is held against what was under way."""
        self._connection.execute(
            "UPDATE attempt SET running = CASE running WHEN 1 THEN 0 WHEN 4 THEN 3 ELSE 5 END"
            " WHERE running IN (1, 2, 4)"
        )

    def crashed(self, content_id: int, reason: str) -> int:
        """One more crash of the parser on this content. Returns how many there were."""
        row = self._connection.execute(
            "INSERT INTO attempt (content, crashes, reason) VALUES (?, 1, ?) ON CONFLICT (content)"
            " DO UPDATE SET crashes = crashes + 1, running = 0, reason = excluded.reason RETURNING crashes",
            (content_id, reason),
        ).fetchone()
        return int(row[0])

    def suspects(self, content_ids: Sequence[int]) -> dict[int, int | None]:
        """Crashes so far of those among these contents that are to be parsed alone; None: among few will do."""
        found: dict[int, int | None] = {}
        for content in content_ids:
            row = self._connection.execute(
                "SELECT crashes, running FROM attempt WHERE content = ? AND (crashes > 0 OR running IN (3, 5))",
                (content,),
            ).fetchone()
            if row is not None:
                found[content] = None if row[0] == 0 and row[1] == 3 else int(row[0])
        return found

    def quarantine(self, content_id: int, reason: str) -> None:
        """A content that nothing can be made of: tried again in a day, shown in `status` until then."""
        self._connection.execute(
            "INSERT INTO attempt (content, crashes, failures, reason, next_try) VALUES (?, 2, 5, ?, ?)"
            " ON CONFLICT (content) DO UPDATE SET crashes = crashes + 1, failures = 5, running = 0,"
            " reason = excluded.reason,"
            " next_try = excluded.next_try",
            (content_id, reason, time.time() + _RETRY_AFTER[2]),
        )

    def put_off(self, content_id: int, reason: str) -> None:
        """A content that could not be fetched: tried again at once twice, then after 1 h, 6 h, 24 h, weekly."""
        with transaction(self._connection) as db:
            row = db.execute("SELECT failures FROM attempt WHERE content = ?", (content_id,)).fetchone()
            failures = (row[0] if row else 0) + 1
            wait = 0.0 if failures < 3 else _RETRY_AFTER[min(failures - 3, len(_RETRY_AFTER) - 1)]
            db.execute(
                "INSERT INTO attempt (content, failures, reason, next_try) VALUES (?, ?, ?, ?) ON CONFLICT (content)"
                " DO UPDATE SET failures = excluded.failures, reason = excluded.reason, next_try = excluded.next_try",
                (content_id, failures, reason, time.time() + wait if wait else 0),
            )
