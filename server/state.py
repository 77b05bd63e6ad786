"""`data_dir/state.db`: tokens, revocations and the send journal. Small, precious, on the disk before a call returns."""

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from config.identity import Token
from server.state_schema import migrate
from server.unusable import FileUnusable

Outcome = Literal["sending", "sent", "refused", "uncertain"]
SECRET_PREFIX = "pm_"  # noqa: S105 - the public start of every secret, for secret scanners
HOUR = 3_600.0
_ABANDONED = 900.0
_KEPT = 90 * 86_400.0


class StateUnavailable(FileUnusable):
    """`state.db` cannot be read or written now: locked for too long, damaged, gone, or the disk is full."""


class TokenExists(ValueError):
    """A token of that name is known already."""


class TokenUnknown(LookupError):
    """No token of that name is known."""


class TooManySends(RuntimeError):
    """The profile's sends of the last hour are used up. seconds: until the next one fits."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"hourly limit of sends reached, next one in {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token as `token list` shows it. Times are seconds since 1970, None for never."""

    name: str
    user: str
    provider: str | None
    profile: str
    created: float
    last_used: float | None
    revoked: float | None


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


def digest(secret: str) -> str:
    """What is stored of a token's secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class State:
    """The open `state.db`. Safe to share between threads; each call is one transaction.

    Every call raises StateUnavailable when the file cannot be used.
    """

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path = data_dir / "state.db"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._file = path.stat().st_ino
        # Two connections: a request that only wants its token checked must not wait for a writer's fsync.
        with self._usable():
            self._write_lock, self._writes = threading.Lock(), _connect(path)
            migrate(self._writes)
            self._read_lock, self._reads = threading.Lock(), _connect(path)

    def close(self) -> None:
        """Close the file; the object is of no use afterwards."""
        with self._write_lock, self._read_lock:
            self._reads.close()
            self._writes.close()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        # A revocation goes into the file that has the name: what is open must be that file.
        try:
            is_open = self._path.stat().st_ino == self._file
        except OSError:
            is_open = False
        if not is_open:
            raise StateUnavailable(f"{self._path} was removed or replaced while it was open: start postmirror again")
        try:
            yield
        except sqlite3.Error as exc:
            raise StateUnavailable(f"{self._path} cannot be used: {exc}") from exc

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._usable():
            self._writes.execute("BEGIN IMMEDIATE")
            try:
                yield self._writes
                self._writes.execute("COMMIT")
            except BaseException:
                # A full disk ends the transaction by itself; a lock that refuses the commit does not.
                if self._writes.in_transaction:
                    self._writes.execute("ROLLBACK")
                raise

    def _select(self, statement: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        with self._read_lock, self._usable():
            return self._reads.execute(statement, values).fetchall()

    def issue_token(
        self,
        user: str,
        profile: str,
        *,
        provider: str | None = None,
        name: str | None = None,
        taken: Collection[str] = (),
    ) -> tuple[str, str]:
        """(name, secret) of a new token; the secret is stored nowhere and cannot be shown again.

        taken: names that the configuration file uses. Raises TokenExists for a name in use, revoked ones included.
        """
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)
        chosen = name or f"{user}-{profile}-{secrets.token_hex(3)}"
        if chosen in taken:
            raise TokenExists(f"the configuration file has a token {chosen!r} already: choose another --name")
        Token(name=chosen, sha256=digest(secret), user=user, provider=provider, profile=profile)
        with self._writing() as db:
            if db.execute(
                "SELECT 1 FROM token WHERE name = ? UNION ALL SELECT 1 FROM revocation WHERE name = ?", (chosen, chosen)
            ).fetchone():
                raise TokenExists(f"there is or was a token {chosen!r} already: choose another --name")
            db.execute(
                "INSERT INTO token (name, sha256, user, provider, profile, created) VALUES (?, ?, ?, ?, ?, ?)",
                (chosen, digest(secret), user, provider, profile, time.time()),
            )
        return chosen, secret

    def revoke(self, name: str, *, configured: Collection[str] = ()) -> None:
        """From the next request on, that token counts no more, wherever it was written down.

        configured: names that the configuration file uses. Raises TokenUnknown for a name nobody knows.
        """
        with self._writing() as db:
            if name not in configured and not db.execute("SELECT 1 FROM token WHERE name = ?", (name,)).fetchone():
                raise TokenUnknown(f"there is no token {name!r}")
            db.execute(
                "INSERT INTO revocation (name, at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, time.time())
            )

    def tokens(self) -> list[IssuedToken]:
        """Every token issued here, oldest first, revoked ones included."""
        rows = self._select(
            "SELECT token.name, user, provider, profile, created, last_used, revocation.at FROM token "
            "LEFT JOIN revocation ON revocation.name = token.name ORDER BY created, token.name"
        )
        return [IssuedToken(*row) for row in rows]

    def revoked(self) -> dict[str, float]:
        """When each revoked token was revoked, by name."""
        return dict(self._select("SELECT name, at FROM revocation"))

    def find_token(self, sha256: str, configured: Sequence[Token]) -> Token | None:
        """The token with that digest, issued here or configured, unless it is revoked.

        The index is over digests: what its timing tells does not help to find a secret. The comparison that decides
        takes the same time for every digest.
        """
        found: Token | None = None
        for token in configured:
            if hmac.compare_digest(token.sha256, sha256):
                found = token
        for row in self._select("SELECT name, sha256, user, provider, profile FROM token WHERE sha256 = ?", (sha256,)):
            if hmac.compare_digest(row[1], sha256):
                found = Token(name=row[0], sha256=row[1], user=row[2], provider=row[3], profile=row[4])
        if found is None or self._select("SELECT 1 FROM revocation WHERE name = ?", (found.name,)):
            return None
        return found

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


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _abandon(db: sqlite3.Connection) -> int:
    now = time.time()
    return db.execute(
        "UPDATE submission SET state = 'uncertain', reason = 'the program ended while it was sending', settled = ?"
        " WHERE state = 'sending' AND created < ?",
        (now, now - _ABANDONED),
    ).rowcount
