"""Tokens in `state.db`: those issued here, and what became of any token, wherever it was written down.

A token counts while it is neither revoked nor paused nor expired. A rotated token has its new secret and, until the
overlap ends, the one before.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from config.identity import Token
from server.state.file import StateFile

SECRET_PREFIX = "pm_"  # noqa: S105 - the public start of every secret, for secret scanners
Condition = Literal["valid", "paused", "expired", "revoked"]


class TokenExists(ValueError):
    """A token of that name is known already."""


class TokenUnknown(LookupError):
    """No token of that name is known."""


class TokenRevoked(ValueError):
    """The token was revoked, which is for ever."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token as `token list` shows it. Times are seconds since 1970, None for never.

    created: None for a token of the configuration file. old_secret_until: when the secret before the last rotation
    ends, None when it has ended.
    """

    name: str
    user: str
    provider: str | None
    profile: str
    created: float | None
    expires: float | None
    last_used: float | None
    paused: float | None
    revoked: float | None
    old_secret_until: float | None

    @property
    def condition(self) -> Condition:
        """Whether it counts now, and why not."""
        if self.revoked is not None:
            return "revoked"
        if self.expires is not None and self.expires <= time.time():
            return "expired"
        return "valid" if self.paused is None else "paused"


def digest(secret: str) -> str:
    """What is stored of a token's secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class StoredTokens(StateFile):
    """The tables of tokens."""

    def issue_token(
        self,
        user: str,
        profile: str,
        *,
        provider: str | None = None,
        name: str | None = None,
        configured: Sequence[Token] = (),
        expires: float | None = None,
    ) -> tuple[str, str]:
        """(name, secret) of a new token; the secret is stored nowhere and cannot be shown again.

        configured: the tokens of the configuration file. expires: seconds since 1970. Raises TokenExists for a name in
        use, revoked ones included.
        """
        secret = _new_secret()
        chosen = name or f"{user}-{profile}-{secrets.token_hex(3)}"
        if any(token.name == chosen for token in configured):
            raise TokenExists(f"the configuration file has a token {chosen!r} already: choose another --name")
        Token(name=chosen, sha256=digest(secret), user=user, provider=provider, profile=profile)
        with self._writing() as db:
            if db.execute(
                "SELECT 1 FROM token WHERE name = ?1 UNION ALL SELECT 1 FROM revocation WHERE name = ?1"
                " UNION ALL SELECT 1 FROM secret WHERE name = ?1",
                (chosen,),
            ).fetchone():
                raise TokenExists(f"there is or was a token {chosen!r} already: choose another --name")
            db.execute(
                "INSERT INTO token (name, sha256, user, provider, profile, created, expires)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (chosen, digest(secret), user, provider, profile, time.time(), expires),
            )
        return chosen, secret

    def revoke(self, name: str, *, configured: Sequence[Token] = ()) -> None:
        """From the next request on, that token counts no more, wherever it was written down.

        configured: the tokens of the configuration file. Raises TokenUnknown for a name nobody knows.
        """
        self._must_know(name, configured)
        with self._writing() as db:
            db.execute(
                "INSERT INTO revocation (name, at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, time.time())
            )

    def pause(self, name: str, *, configured: Sequence[Token] = ()) -> None:
        """From the next request on, that token does not count, until it is resumed. Raises TokenUnknown."""
        self._must_know(name, configured)
        with self._writing() as db:
            db.execute("INSERT INTO pause (name, at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, time.time()))

    def resume(self, name: str, *, configured: Sequence[Token] = ()) -> None:
        """A paused token counts again. Raises TokenUnknown, and TokenRevoked for one that never will."""
        self._must_know(name, configured)
        self._must_not_be_revoked(name)
        with self._writing() as db:
            db.execute("DELETE FROM pause WHERE name = ?", (name,))

    def rotate(self, name: str, overlap: float, *, configured: Sequence[Token] = ()) -> str:
        """A new secret for a token; the one before goes on working for overlap seconds.

        Raises TokenUnknown and TokenRevoked.
        """
        self._must_know(name, configured)
        self._must_not_be_revoked(name)
        secret, now = _new_secret(), time.time()
        first = [token.sha256 for token in configured if token.name == name]
        first += [row[0] for row in self._select("SELECT sha256 FROM token WHERE name = ?", (name,))]
        with self._writing() as db:
            db.execute("UPDATE secret SET until = ? WHERE name = ? AND until IS NULL", (now + overlap, name))
            db.executemany(
                "INSERT INTO secret (sha256, name, created, until) VALUES (?, ?, ?, ?) ON CONFLICT (sha256) DO NOTHING",
                [(each, name, now, now + overlap) for each in first],
            )
            db.execute(
                "INSERT INTO secret (sha256, name, created, until) VALUES (?, ?, ?, NULL)", (digest(secret), name, now)
            )
        return secret

    def used(self, name: str) -> None:
        """Write down that a token is used now."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO token_use (name, at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET at = excluded.at",
                (name, time.time()),
            )

    def tokens(self, configured: Iterable[Token] = ()) -> list[IssuedToken]:
        """Every token, those issued here first, oldest first; revoked ones included."""
        rows = self._select("SELECT name, user, provider, profile, created, expires FROM token ORDER BY created, name")
        known = [
            (name, user, provider, profile, created, expires)
            for name, user, provider, profile, created, expires in rows
        ]
        known += [
            (each.name, each.user, each.provider, each.profile, None, each.expires and each.expires.timestamp())
            for each in configured
        ]
        used = dict(self._select("SELECT name, at FROM token_use"))
        paused = dict(self._select("SELECT name, at FROM pause"))
        revoked = self.revoked()
        ends = self._select("SELECT name, max(until) FROM secret WHERE until IS NOT NULL GROUP BY name")
        old = {name: until for name, until in ends if until > time.time()}
        return [
            IssuedToken(*row, used.get(row[0]), paused.get(row[0]), revoked.get(row[0]), old.get(row[0]))
            for row in known
        ]

    def revoked(self) -> dict[str, float]:
        """When each revoked token was revoked, by name."""
        return dict(self._select("SELECT name, at FROM revocation"))

    def find_token(self, sha256: str, configured: Sequence[Token]) -> Token | None:
        """The token with that digest, issued here or configured, if it counts now.

        The index is over digests: what its timing tells does not help to find a secret. The comparison that decides
        takes the same time for every digest.
        """
        found = next((token for token in configured if hmac.compare_digest(token.sha256, sha256)), None)
        for name, stored, until, *identity in self._select(_BY_DIGEST, (sha256,)):
            if not hmac.compare_digest(stored, sha256):
                return None
            if identity[0] is not None:
                found = _token(name, stored, until, *identity)
            elif until is not None and until <= time.time():
                return None
            elif found is None or found.name != name:
                return self.named_token(name, configured)
        return self._if_it_counts(found)

    def named_token(self, name: str, configured: Sequence[Token]) -> Token | None:
        """The token of that name, if it counts now."""
        found = next((token for token in configured if token.name == name), None)
        for row in self._select(_BY_NAME, (name,)):
            found = _token(*row)
        return self._if_it_counts(found)

    def _if_it_counts(self, found: Token | None) -> Token | None:
        if found is None or (found.expires is not None and found.expires <= datetime.now(UTC)):
            return None
        return None if self._select(_STOPPED, (found.name,)) else found

    def _must_know(self, name: str, configured: Sequence[Token]) -> None:
        if not any(token.name == name for token in configured) and not self._select(
            "SELECT 1 FROM token WHERE name = ?", (name,)
        ):
            raise TokenUnknown(f"there is no token {name!r}")

    def _must_not_be_revoked(self, name: str) -> None:
        if self._select("SELECT 1 FROM revocation WHERE name = ?", (name,)):
            raise TokenRevoked(f"the token {name!r} was revoked, which is for ever: make a new one")


_BY_DIGEST = """
    SELECT name, sha256, expires, user, provider, profile FROM token WHERE sha256 = ?1
    UNION ALL SELECT name, sha256, until, NULL, NULL, NULL FROM secret WHERE sha256 = ?1
    """
_BY_NAME = "SELECT name, sha256, expires, user, provider, profile FROM token WHERE name = ?"
_STOPPED = "SELECT 1 FROM revocation WHERE name = ?1 UNION ALL SELECT 1 FROM pause WHERE name = ?1"


def _token(name: str, sha256: str, expires: float | None, user: str, provider: str | None, profile: str) -> Token:
    ends = None if expires is None else datetime.fromtimestamp(expires, UTC)
    return Token(name=name, sha256=sha256, user=user, provider=provider, profile=profile, expires=ends)


def _new_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(32)
