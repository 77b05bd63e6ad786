"""Why an account is left alone, remembered beyond this process: it is throttled, or its login was refused.

More than a few refused logins lock accounts at many providers. A worker that is started anew must not go on with them:
what was refused is known again by a salted, slow digest, until the server, the user name or the secret is another one.
Once a day it is tried all the same, for the fault may have been the server's.
"""

import hashlib
import os
import sqlite3
import time

LOGINS_REFUSED = 2
TRIED_AGAIN_AFTER = 86_400.0
LONGEST_THROTTLE = 86_400.0
_SALT_OCTETS = 16


class Rest:
    """What one mirror remembers of it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._latest: bytes | None = None

    def throttle(self, seconds: float) -> None:
        """The server asked to be left alone for so long."""
        self._connection.execute(
            "UPDATE mirror SET throttled_until = ?", (time.time() + min(seconds, LONGEST_THROTTLE),)
        )

    def seconds_left(self) -> float:
        """For how long the server wants to be left alone; 0 when it does not."""
        row = self._connection.execute("SELECT throttled_until FROM mirror").fetchone()
        left = float(row[0]) - time.time()
        return left if 0 < left <= LONGEST_THROTTLE else 0.0

    def refuse(self, login: bytes) -> int:
        """A login was refused. Returns how often in a row."""
        times = self._times(login) + 1
        salt = os.urandom(_SALT_OCTETS)
        self._connection.execute(
            "UPDATE mirror SET logins_refused = ?, refused_at = ?, refused_login = ?",
            (times, time.time(), salt + _digest(login, salt)),
        )
        self._latest = login
        return times

    def is_refused(self, login: bytes) -> bool:
        """Whether this login was refused so often, and so lately, that it is not to be tried."""
        row = self._connection.execute("SELECT logins_refused, refused_at FROM mirror").fetchone()
        is_lately = 0 <= time.time() - row[1] < TRIED_AGAIN_AFTER
        return row[0] >= LOGINS_REFUSED and is_lately and self._times(login) > 0

    def accept(self) -> None:
        """A login was accepted."""
        self._connection.execute(
            "UPDATE mirror SET logins_refused = 0, refused_login = NULL, throttled_until = 0"
            " WHERE logins_refused OR throttled_until"
        )
        self._latest = None

    def _times(self, login: bytes) -> int:
        times, held = self._connection.execute("SELECT logins_refused, refused_login FROM mirror").fetchone()
        if not times or held is None:
            return 0
        is_same = self._latest == login or _digest(login, held[:_SALT_OCTETS]) == held[_SALT_OCTETS:]
        if is_same:
            self._latest = login
        return int(times) if is_same else 0


def _digest(login: bytes, salt: bytes) -> bytes:
    return hashlib.scrypt(login, salt=salt, n=1 << 14, r=8, p=1)
