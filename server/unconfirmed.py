"""Changes of a mailbox that no server has confirmed, in `state.db`: another try looks whether this one got anywhere.

Written down before the server is asked and struck out once it has answered, so that it holds over a restart.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from server.state.file import StateFile, StateUnavailable

log = logging.getLogger(__name__)

_KEPT = 86_400.0
_MOST = 20
"""Tries of one change whose Message-IDs are known."""


class Unconfirmed(StateFile):
    """What was asked and not answered."""

    @contextmanager
    def confirming(
        self, user: str, provider: str, change: str, message_id: str = ""
    ) -> Iterator[tuple[str, ...] | None]:
        """Ask a server for a change; the block ends without an error once it is confirmed.

        message_id: what a further try finds a stored mail by. Gives out those of earlier tries of the same change, None
        when there was none within a day. Raises StateUnavailable before the block.
        """
        with self._writing() as db:
            db.execute("DELETE FROM unconfirmed WHERE at < ?", (time.time() - _KEPT,))
            row = db.execute(
                "SELECT message_ids FROM unconfirmed WHERE user = ? AND provider = ? AND change = ?",
                (user, provider, change),
            ).fetchone()
            earlier = None if row is None else tuple(row[0].split())
            known = " ".join(dict.fromkeys([*(earlier or ()), message_id][-_MOST:]))
            db.execute(
                "INSERT OR REPLACE INTO unconfirmed (user, provider, change, message_ids, at) VALUES (?, ?, ?, ?, ?)",
                (user, provider, change, known, time.time()),
            )
        yield earlier
        self._strike(user, provider, change)

    def _strike(self, user: str, provider: str, change: str) -> None:
        try:
            with self._writing() as db:
                db.execute(
                    "DELETE FROM unconfirmed WHERE user = ? AND provider = ? AND change = ?", (user, provider, change)
                )
        except StateUnavailable as exc:
            log.warning("a change is done and could not be struck out (%s): another try looks once more", exc)
