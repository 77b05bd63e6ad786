"""Removing a mailbox, or everything of a user, from `state.db`, down to the last byte."""

import sqlite3
import time
from collections.abc import Collection
from dataclasses import dataclass

from server.state.file import StateFile, StateUnavailable

_LONGEST = 10.0
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class ForgottenRows:
    """tokens: names of those that are gone or revoked. lines: of the send journal and whatever else was kept."""

    tokens: tuple[str, ...]
    lines: int


class Forgetting(StateFile):
    """Removes what is known of a mailbox."""

    def mails_under_way(self, user: str, providers: Collection[str]) -> int:
        """How many mails of these mailboxes are being sent, or were when a process died."""
        rows = self._select("SELECT provider FROM submission WHERE user = ? AND state = 'sending'", (user,))
        return sum(provider in providers for (provider,) in rows)

    def forget(
        self, user: str, providers: Collection[str], *, is_whole: bool, configured: Collection[str] = ()
    ) -> ForgottenRows:
        """Remove the rows of these mailboxes, and the tokens that reach nothing else. The file is written anew.

        is_whole: nothing of the user is left, so all of their tokens go. configured: names of tokens of the
        configuration file that are to count no more.
        """
        with self._writing() as db:
            tokens = [
                name
                for name, provider in db.execute("SELECT name, provider FROM token WHERE user = ?", (user,))
                if is_whole or provider in providers
            ]
            for table in ("secret", "pause", "token_use", "revocation", "token"):
                db.executemany(_OF_TOKEN[table], [(name,) for name in tokens])
            now = time.time()
            db.executemany(
                "INSERT INTO revocation (name, at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                [(name, now) for name in configured],
            )
            lines = sum(
                db.execute(statement, (user, provider)).rowcount
                for statement in _of_mailbox(db)
                for provider in providers
            )
        self._write_anew()
        return ForgottenRows((*tokens, *configured), lines)

    def _write_anew(self) -> None:
        """Without the bytes that deleted rows leave in pages and in the log, once nobody reads the log any more."""
        end = time.monotonic() + _LONGEST
        while True:
            with self._write_lock, self._usable():
                self._writes.execute("VACUUM")
                is_busy = self._writes.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if not is_busy:
                return
            if time.monotonic() > end:
                raise StateUnavailable("state.db is being read without a pause: run this again")
            time.sleep(_PAUSE)


_OF_TOKEN = {
    "secret": "DELETE FROM secret WHERE name = ?",
    "pause": "DELETE FROM pause WHERE name = ?",
    "token_use": "DELETE FROM token_use WHERE name = ?",
    "revocation": "DELETE FROM revocation WHERE name = ?",
    "token": "DELETE FROM token WHERE name = ?",
}


def _of_mailbox(db: sqlite3.Connection) -> list[str]:
    """How the rows of a mailbox are removed from every table that has such: one that is added later is among them."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'token'")]
    columns = {
        name: {row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (name,))} for name in tables
    }
    return [
        f'DELETE FROM "{name}" WHERE user = ? AND provider = ?'  # noqa: S608 - a table of our own schema
        for name in tables
        if {"user", "provider"} <= columns[name]
    ]
