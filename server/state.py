"""`data_dir/state.db`: tokens, revocations and the send journal. Small, precious, on the disk before a call returns."""

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from server.state_file import StateUnavailable
from server.state_tokens import IssuedToken, StoredTokens, TokenExists, TokenRevoked, TokenUnknown, digest

__all__ = [
    "IssuedToken", "State", "StateUnavailable", "Submission", "TokenExists", "TokenRevoked", "TokenUnknown",
    "TooManySends", "digest",
]  # fmt: skip

Outcome = Literal["sending", "sent", "refused", "uncertain"]
HOUR = 3_600.0
_ABANDONED = 900.0
_KEPT = 90 * 86_400.0


class TooManySends(RuntimeError):
    """The profile's sends of the last hour are used up. seconds: until the next one fits."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"hourly limit of sends reached, next one in {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Submission:
    """One line of the send journal."""

    id: int
    user: str
    provider: str
    profile: str
    token: str
    message_id: str
    sender: str
    recipients: tuple[str, ...]
    state: Outcome
    reason: str
    created: float
    settled: float | None


class State(StoredTokens):
    """The open `state.db`. Safe to share between threads; each call is one transaction.

    Every call raises StateUnavailable when the file cannot be used.
    """

    def begin_submission(
        self,
        *,
        user: str,
        provider: str,
        profile: str,
        token: str,
        message_id: str,
        sender: str,
        recipients: Sequence[str],
        mail: bytes,
        per_hour: int,
    ) -> int:
        """Journal a mail before its server is called; returns the line's id.

        Counted against the profile's limit in the same transaction, so that two sends at once cannot both be the last
        one allowed. Refused mails do not count. Raises TooManySends.
        """
        now = time.time()
        with self._writing() as db:
            _abandon(db)
            recent = [
                row[0]
                for row in db.execute(
                    "SELECT created FROM submission WHERE user = ? AND provider = ? AND profile = ? AND created > ? "
                    "AND state <> 'refused' ORDER BY created DESC LIMIT ?",
                    (user, provider, profile, now - HOUR, max(per_hour, 1)),
                )
            ]
            if len(recent) >= per_hour:
                raise TooManySends(recent[-1] + HOUR - now if recent else HOUR)
            db.execute("DELETE FROM submission WHERE created < ? AND state <> 'uncertain'", (now - _KEPT,))
            line = db.execute(
                "INSERT INTO submission (user, provider, profile, token, message_id, sender, recipients, mail, state, "
                "created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'sending', ?) RETURNING id",
                (user, provider, profile, token, message_id, sender, json.dumps(list(recipients)), mail, now),
            ).fetchone()
        return int(line[0])

    def settle_submission(self, line: int, state: Literal["sent", "refused", "uncertain"], reason: str = "") -> None:
        """Write down how it ended. The bytes are kept only while the outcome is open."""
        with self._writing() as db:
            db.execute(
                "UPDATE submission SET state = ?, reason = ?, settled = ?, mail = iif(?1 = 'uncertain', mail, NULL) "
                "WHERE id = ?",
                (state, reason, time.time(), line),
            )

    def recover(self) -> int:
        """Turn sends that a dead process left open into uncertain ones; returns how many there were."""
        with self._writing() as db:
            return _abandon(db)

    def submissions(self) -> list[Submission]:
        """The send journal, newest first."""
        rows = self._select(
            "SELECT id, user, provider, profile, token, message_id, sender, recipients, state, reason, created, settled"
            " FROM submission ORDER BY id DESC"
        )
        return [Submission(*(*row[:7], tuple(json.loads(row[7])), *row[8:])) for row in rows]


def _abandon(db: sqlite3.Connection) -> int:
    now = time.time()
    return db.execute(
        "UPDATE submission SET state = 'uncertain', reason = 'the program ended while it was sending', settled = ?"
        " WHERE state = 'sending' AND created < ?",
        (now, now - _ABANDONED),
    ).rowcount
