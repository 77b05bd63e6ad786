"""`data_dir/state.db`: tokens and revocations, and the send journal (server.journal). Small and precious."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from config.identity import Token
from server.journal import Journal, KeyUsed, StillSending, Submission, TooManySends
from server.state_file import StateUnavailable

__all__ = [
    "IssuedToken", "KeyUsed", "State", "StateUnavailable", "StillSending", "Submission", "TokenExists", "TokenUnknown",
    "TooManySends", "digest",
]  # fmt: skip

SECRET_PREFIX = "pm_"  # noqa: S105 - the public start of every secret, for secret scanners


class TokenExists(ValueError):
    """A token of that name is known already."""


class TokenUnknown(LookupError):
    """No token of that name is known."""


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


def digest(secret: str) -> str:
    """What is stored of a token's secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class State(Journal):
    """The open `state.db`. Safe to share between threads; each call is one transaction.

    Every call raises StateUnavailable when the file cannot be used.
    """

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
