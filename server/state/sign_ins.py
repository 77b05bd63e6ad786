"""Sign-ins in `state.db`: one row for each mailbox, replaced as a whole, so that a kill leaves the old or the new."""

import time
from dataclasses import dataclass

from server.state.file import StateFile


@dataclass(frozen=True, slots=True)
class SignIn:
    """What is known of one sign-in without opening its seal. Times are seconds since 1970; see server.state.schema."""

    user: str
    provider: str
    sealed: bytes
    sealed_next: bytes | None
    signed_in: float
    expires: float
    refresh_expires: float | None = None
    renewing: float | None = None
    fault: str = ""
    reason: str = ""


class StoredSignIns(StateFile):
    """The table of sign-ins."""

    def sign_in(self, user: str, provider: str) -> SignIn | None:
        """The sign-in of a mailbox."""
        rows = self._select(f"{_ALL} WHERE user = ? AND provider = ?", (user, provider))
        return SignIn(*rows[0]) if rows else None

    def sign_ins(self) -> list[SignIn]:
        """Every sign-in."""
        return [SignIn(*row) for row in self._select(f"{_ALL} ORDER BY user, provider")]

    def put_sign_in(
        self, user: str, provider: str, sealed: bytes, expires: float, refresh_expires: float | None
    ) -> None:
        """Somebody has signed in now; what was there before goes in the same moment."""
        with self._writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO sign_in (user, provider, sealed, signed_in, expires, refresh_expires)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (user, provider, sealed, time.time(), expires, refresh_expires),
            )

    def end_renewal(self, renewed: SignIn, sealed: bytes, expires: float, refresh_expires: float | None) -> None:
        """New tokens take the place of the old, unless the sign-in has been forgotten or made anew meanwhile."""
        with self._writing() as db:
            db.execute(
                "UPDATE sign_in SET sealed = ?, expires = ?, refresh_expires = ?, sealed_next = NULL, renewing = NULL,"
                " fault = '', reason = '' WHERE user = ? AND provider = ? AND signed_in = ?",
                (sealed, expires, refresh_expires, renewed.user, renewed.provider, renewed.signed_in),
            )

    def begin_renewal(self, user: str, provider: str) -> None:
        """Write down that the authorization server is about to be asked for new tokens."""
        with self._writing() as db:
            db.execute("UPDATE sign_in SET renewing = ? WHERE user = ? AND provider = ?", (time.time(), user, provider))

    def end_sign_in(self, user: str, provider: str, fault: str, reason: str) -> None:
        """Write down why it does not count any more."""
        with self._writing() as db:
            db.execute(
                "UPDATE sign_in SET fault = ?, reason = ?, renewing = NULL WHERE user = ? AND provider = ?",
                (fault, reason, user, provider),
            )

    def seal_for_next_key(self, user: str, provider: str, sealed: bytes) -> None:
        """Keep what is sealed under a key that is about to count, beside what counts now."""
        with self._writing() as db:
            db.execute("UPDATE sign_in SET sealed_next = ? WHERE user = ? AND provider = ?", (sealed, user, provider))

    def forget_sign_in(self, user: str, provider: str) -> bool:
        """Remove the sign-in of a mailbox. Whether there was one."""
        with self._writing() as db:
            gone = db.execute("DELETE FROM sign_in WHERE user = ? AND provider = ?", (user, provider)).rowcount > 0
        self._cut_log()
        return gone


_ALL = (
    "SELECT user, provider, sealed, sealed_next, signed_in, expires, refresh_expires, renewing, fault, reason"
    " FROM sign_in"
)
