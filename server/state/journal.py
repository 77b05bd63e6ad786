"""The send journal in `state.db`: what was to be sent, and what became of it.

sending -> sent | refused | uncertain. A line is written before its server is called, and again before the final dot of
the mail: of a process that died, a line without that second mark was certainly not sent, one with it is uncertain.
While a mail is on its way its process holds a shared lock, so that the others can tell its line from a dead one.
"""

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from server.state.file import StateFile, StateUnavailable

Outcome = Literal["sending", "sent", "refused", "uncertain"]
CopyState = Literal["", "owed", "stored", "by_provider", "failed", "none"]
"""What became of the copy in Sent: "" while the mail itself is not known to be sent, owed until it was tried."""
HOUR = 3_600.0
REFUSALS_PER_HOUR = 20
"""Mails of a profile that a server may refuse in an hour before no more are tried."""
_ABANDONED = 7_200.0
_KEPT = 90 * 86_400.0


class TooManySends(RuntimeError):
    """The profile's sends of the last hour are used up. seconds: until the next one fits."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"hourly limit of sends reached, next one in {seconds:.0f} s")
        self.seconds = seconds


class TooManyRefusals(TooManySends):
    """The mail server has refused as many mails of the last hour as one token may try: addresses are not probed."""


class KeyUsed(ValueError):
    """The idempotency key belongs to another mail."""


@dataclass
class StillSending(RuntimeError):
    """A mail with this idempotency key is on its way at this moment."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A mail as it is journalled. mail: its bytes as they belong into Sent. draft: digest of what the client wrote."""

    user: str
    provider: str
    profile: str
    token: str
    message_id: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()
    mail: bytes = b""
    key: str | None = None
    draft: bytes = b""


@dataclass(frozen=True, slots=True)
class Submission:
    """One line of the send journal. handed_over: when the mail's final dot was about to be written.

    id: the microsecond in which it was begun, so that no line of a restored file is taken for one of this process.
    """

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
    handed_over: float | None
    copy: CopyState
    key: str | None


_COLUMNS = (
    "id, user, provider, profile, token, message_id, sender, recipients, state, reason, created, settled, handed_over,"
    " copy, key"
)

_BY_KEY = f"SELECT {_COLUMNS}, draft FROM submission WHERE user = ? AND provider = ? AND profile = ? AND key = ?"  # noqa: S608 - our own columns


class Journal(StateFile):
    """The journal's lines."""

    @contextmanager
    def sending(self) -> Iterator[None]:
        """What a process holds from before a line is begun until it is settled."""
        descriptor = self._open_lock()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self) -> int:
        try:
            return os.open(self._path.with_name("sending.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise StateUnavailable(f"{self._path.parent} cannot be written: {exc}") from exc

    def begin_submission(self, entry: Entry, per_hour: int) -> int | Submission:
        """Journal a mail before its server is called: the new line's id, or the earlier line with this key.

        Counted against the profile's limit in the same transaction, so that two sends at once cannot both be the last
        one allowed. Refused mails have a limit of their own, and a refused mail's key may be used again. Raises
        TooManySends, TooManyRefusals, KeyUsed and StillSending.
        """
        now = time.time()
        owner = (entry.user, entry.provider, entry.profile)
        with self._writing() as db:
            if entry.key is not None and (earlier := _earlier(db, owner, entry)) is not None:
                return earlier
            # A clock that was ahead for a while must not count against a profile for as long as it was ahead.
            db.execute("UPDATE submission SET created = ?1 WHERE created > ?1", (now,))
            _check_hour(db, _COUNTED, owner, per_hour, TooManySends)
            _check_hour(db, _REFUSED, owner, REFUSALS_PER_HOUR, TooManyRefusals)
            db.execute(
                "DELETE FROM submission WHERE created < ? AND state NOT IN ('uncertain', 'sending') AND copy <> 'owed'",
                (now - _KEPT,),
            )
            line = db.execute(
                "INSERT INTO submission (id, user, provider, profile, token, message_id, sender, recipients, mail, "
                "state, created, key, draft) VALUES ((SELECT max(?, coalesce(max(id) + 1, 0)) FROM submission), "
                "?, ?, ?, ?, ?, ?, ?, ?, 'sending', ?, ?, ?) RETURNING id",
                (
                    int(now * 1_000_000), *owner, entry.token, entry.message_id, entry.sender,
                    json.dumps(entry.recipients), entry.mail, now, entry.key, entry.draft,
                ),
            ).fetchone()  # fmt: skip
        return int(line[0])

    def recent_submissions(self, user: str, provider: str) -> list[float]:
        """How many seconds ago each mail of the last hour was begun for a mailbox, oldest first; refused ones left out.

        A clock that was set back leaves lines of the future: they count as of now.
        """
        now = time.time()
        rows = self._select(
            "SELECT created FROM submission WHERE user = ? AND provider = ? AND created > ? AND state <> 'refused' "
            "ORDER BY created",
            (user, provider, int(now - HOUR)),
        )
        return [max(now - row[0], 0.0) for row in rows]

    def earlier_submission(self, entry: Entry) -> Submission | None:
        """The line with this entry's key, None when it has none that counts. Raises KeyUsed and StillSending."""
        owner = (entry.user, entry.provider, entry.profile)
        rows = [] if entry.key is None else self._select(_BY_KEY, (*owner, entry.key))
        return _same_draft(rows[0], entry) if rows else None

    def hand_over(self, line: int) -> None:
        """Mark that the final dot is written next. Raises StateUnavailable when the line is not open any more."""
        with self._writing() as db:
            marked = db.execute(
                "UPDATE submission SET handed_over = ? WHERE id = ? AND state = 'sending'", (time.time(), line)
            ).rowcount
        if not marked:
            raise StateUnavailable(f"line {line} of the journal was given up while its mail was being sent")

    def settle_submission(
        self, line: int, state: Literal["sent", "refused", "uncertain"], reason: str = "", copy: CopyState = ""
    ) -> None:
        """Write down how it ended. The bytes are kept while the outcome is open or a copy of them is owed."""
        with self._writing() as db:
            settled = db.execute(
                "UPDATE submission SET state = ?1, reason = ?2, settled = ?3, copy = ?4,"
                " mail = iif(?1 = 'uncertain' OR ?4 = 'owed', mail, NULL) WHERE id = ?5",
                (state, reason, time.time(), copy, line),
            ).rowcount
        if not settled:
            raise StateUnavailable(f"line {line} is not in the journal any more: an older file was put in its place")
        self._cut_log()

    def settle_by_hand(self, message_id: str, *, is_sent: bool) -> bool:
        """Close an uncertain mail as an operator says; False when there is none with this Message-ID."""
        reason = "an operator says that it was sent" if is_sent else "an operator says that it was not sent"
        with self._writing() as db:
            settled = db.execute(
                "UPDATE submission SET state = ?1, reason = ?2, settled = ?3, copy = ?4, mail = NULL"
                " WHERE message_id = ?5 AND state = 'uncertain'",
                ("sent" if is_sent else "refused", reason, time.time(), "none" if is_sent else "", message_id),
            ).rowcount
        self._cut_log()
        return settled > 0

    def settle_copy(self, line: int, copy: CopyState, reason: str = "") -> None:
        """Write down what became of the copy in Sent."""
        with self._writing() as db:
            db.execute(
                "UPDATE submission SET copy = ?1, reason = ?2, mail = iif(?1 = 'owed', mail, NULL) WHERE id = ?3",
                (copy, reason, line),
            )
        self._cut_log()

    def mail_of(self, line: int) -> bytes | None:
        """The bytes of a mail that are still kept."""
        rows = self._select("SELECT mail FROM submission WHERE id = ?", (line,))
        return rows[0][0] if rows else None

    def recover(self) -> int:
        """Settle the lines of processes that died while they were sending; returns how many there were."""
        if not self._select("SELECT 1 FROM submission WHERE state = 'sending' LIMIT 1"):
            return 0
        descriptor = self._open_lock()
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                age = 0.0
            except BlockingIOError:
                # Somebody is sending. No send takes this long.
                age = _ABANDONED
            with self._writing() as db:
                return _abandon(db, age)
        finally:
            os.close(descriptor)

    def submissions(self) -> list[Submission]:
        """The send journal, newest first."""
        return [_submission(row) for row in self._select(f"SELECT {_COLUMNS} FROM submission ORDER BY id DESC")]  # noqa: S608 - our own columns

    def unsettled(self) -> list[Submission]:
        """The lines whose outcome is uncertain or whose copy in Sent is owed, oldest first."""
        where = "WHERE state = 'uncertain' OR copy = 'owed' ORDER BY id"
        return [_submission(row) for row in self._select(f"SELECT {_COLUMNS} FROM submission {where}")]  # noqa: S608 - our own columns


_COUNTED = (
    "SELECT created FROM submission WHERE user = ? AND provider = ? AND profile = ? AND created > ? "
    "AND state <> 'refused' ORDER BY created DESC LIMIT ?"
)
_REFUSED = (
    "SELECT created FROM submission WHERE user = ? AND provider = ? AND profile = ? AND created > ? "
    "AND state = 'refused' AND reason IN ('RecipientsRefused', 'SubmissionRefused') ORDER BY created DESC LIMIT ?"
)


def _check_hour(
    db: sqlite3.Connection, lines: str, owner: tuple[str, str, str], most: int, error: type[TooManySends]
) -> None:
    """Raises the error when the last hour has as many of these lines already."""
    now = time.time()
    recent = [row[0] for row in db.execute(lines, (*owner, now - HOUR, max(most, 1)))]
    if len(recent) >= most:
        raise error(recent[-1] + HOUR - now if recent else HOUR)


def _earlier(db: sqlite3.Connection, owner: tuple[str, str, str], entry: Entry) -> Submission | None:
    row = db.execute(_BY_KEY, (*owner, entry.key)).fetchone()
    if row is None:
        return None
    earlier = _same_draft(row, entry)
    if earlier is None:
        db.execute("UPDATE submission SET key = NULL WHERE id = ?", (row[0],))
    return earlier


def _same_draft(row: tuple[Any, ...], entry: Entry) -> Submission | None:
    """The line in a row of _BY_KEY; None when nobody received that mail, so that it may be tried again."""
    if row[-1] != entry.draft:
        raise KeyUsed(entry.key)
    earlier = _submission(row[:-1])
    if earlier.state == "sending":
        raise StillSending(earlier.message_id)
    return None if earlier.state == "refused" else earlier


def _submission(row: tuple[Any, ...]) -> Submission:
    return Submission(*(*row[:7], tuple(json.loads(row[7])), *row[8:]))


def _abandon(db: sqlite3.Connection, age: float) -> int:
    now = time.time()
    return db.execute(
        "UPDATE submission SET settled = ?1, state = iif(handed_over IS NULL, 'refused', 'uncertain'),"
        " mail = iif(handed_over IS NULL, NULL, mail),"
        " reason = iif(handed_over IS NULL, 'the program ended before the mail was handed over',"
        " 'the program ended while it waited for the server''s answer') WHERE state = 'sending' AND created <= ?2",
        (now, now - age),
    ).rowcount
