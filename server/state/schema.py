"""The tables of `state.db`: what must outlive every mirror. A shipped migration is never edited.

token       tokens issued by `postmirror token new`, by the SHA-256 of the secret.
revocation  names of tokens that no longer count, whether issued here or written in the configuration file.
pause       names of tokens that do not count for now.
secret      digests of tokens that were given another secret. until: when an old one ends, NULL for the one in force.
token_use   when each token was last used, to the minute.
submission  the send journal: sending -> sent | refused | uncertain. mail: the bytes as they belong into Sent, kept
            while the outcome is open or the copy is owed. handed_over: when the final dot was about to be written.
            key: the client's idempotency key, of which a profile has one line; draft: digest of what the client wrote
            with it. copy: what became of the copy in Sent.
sign_in     what signing in by OAuth 2 left: its refresh and access token, sealed. sealed_next: the same under a data
            key that is about to count. expires: the access token's. renewing: since when a renewal is under way or
            was cut off. fault, reason: why it does not count any more, "" while it does.
unconfirmed changes of a mailbox that no server has confirmed yet. message_ids: of the mail that was to be stored, in
            every try.
"""

import sqlite3
from collections.abc import Collection

from sqlite_utils import Database, Migrations

from mirror.migrating import migrate_file
from server.unusable import FileUnusable

migrations = Migrations("state")


@migrations()
def create_state(db: Database) -> None:
    """Tokens, revocations and the send journal."""
    for statement in _FIRST:
        db.execute(statement)


_FIRST = (
    """
    CREATE TABLE token (
        name TEXT PRIMARY KEY,
        sha256 TEXT NOT NULL UNIQUE,
        user TEXT NOT NULL,
        provider TEXT,
        profile TEXT NOT NULL,
        created REAL NOT NULL,
        last_used REAL
    ) STRICT
    """,
    "CREATE TABLE revocation (name TEXT PRIMARY KEY, at REAL NOT NULL) STRICT",
    """
    CREATE TABLE submission (
        id INTEGER PRIMARY KEY,
        user TEXT NOT NULL,
        provider TEXT NOT NULL,
        profile TEXT NOT NULL,
        token TEXT NOT NULL,
        message_id TEXT NOT NULL,
        sender TEXT NOT NULL,
        recipients TEXT NOT NULL,
        mail BLOB,
        state TEXT NOT NULL CHECK (state IN ('sending', 'sent', 'refused', 'uncertain')),
        reason TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        settled REAL
    ) STRICT
    """,
    "CREATE INDEX submission_recent ON submission (user, provider, profile, created)",
    "CREATE INDEX submission_open ON submission (state) WHERE state = 'sending'",
)


@migrations()
def journal_every_step(db: Database) -> None:
    """Idempotency keys, the mark before the final dot, and the copy in Sent."""
    for statement in _JOURNAL:
        db.execute(statement)


_JOURNAL = (
    "ALTER TABLE submission ADD COLUMN key TEXT",
    "ALTER TABLE submission ADD COLUMN draft BLOB",
    "ALTER TABLE submission ADD COLUMN handed_over REAL",
    "ALTER TABLE submission ADD COLUMN copy TEXT NOT NULL DEFAULT ''",
    "CREATE UNIQUE INDEX submission_key ON submission (user, provider, profile, key) WHERE key IS NOT NULL",
    "CREATE INDEX submission_unsettled ON submission (id) WHERE state = 'uncertain' OR copy = 'owed'",
    # Lines from before the mark existed: what they had come to is not known.
    "UPDATE submission SET handed_over = created WHERE state = 'sending'",
)


@migrations()
def pause_and_rotate_tokens(db: Database) -> None:
    """Tokens that expire, pause and get another secret, and when each was used."""
    for statement in _TOKENS:
        db.execute(statement)


_TOKENS = (
    "ALTER TABLE token ADD COLUMN expires REAL",
    "CREATE TABLE pause (name TEXT PRIMARY KEY, at REAL NOT NULL) STRICT",
    "CREATE TABLE secret (sha256 TEXT PRIMARY KEY, name TEXT NOT NULL, created REAL NOT NULL, until REAL) STRICT",
    "CREATE INDEX secret_name ON secret (name)",
    "CREATE TABLE token_use (name TEXT PRIMARY KEY, at REAL NOT NULL) STRICT",
    "INSERT INTO token_use SELECT name, last_used FROM token WHERE last_used IS NOT NULL",
)


@migrations()
def keep_sign_ins(db: Database) -> None:
    """What signing in by OAuth 2 left."""
    db.execute(_SIGN_INS)


_SIGN_INS = """
    CREATE TABLE sign_in (
        user TEXT NOT NULL,
        provider TEXT NOT NULL,
        sealed BLOB NOT NULL,
        sealed_next BLOB,
        signed_in REAL NOT NULL,
        expires REAL NOT NULL,
        refresh_expires REAL,
        renewing REAL,
        fault TEXT NOT NULL DEFAULT '' CHECK (fault IN ('', 'signed_out', 'consent', 'administrator', 'client')),
        reason TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (user, provider)
    ) STRICT
    """


@migrations()
def remember_unconfirmed_changes(db: Database) -> None:
    """Moves and stored mails whose answer did not come."""
    db.execute(
        """
        CREATE TABLE unconfirmed (
            user TEXT NOT NULL,
            provider TEXT NOT NULL,
            change TEXT NOT NULL,
            message_ids TEXT NOT NULL,
            at REAL NOT NULL,
            PRIMARY KEY (user, provider, change)
        ) STRICT, WITHOUT ROWID
        """
    )


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest schema. Raises StateTooNew when a newer program wrote it."""
    migrate_file(connection, migrations, _too_new)


def _too_new(_: Collection[str]) -> "StateTooNew":
    return StateTooNew("state.db was written by a newer postmirror: upgrade the program")


class StateTooNew(FileUnusable):
    """The file was written by a newer version of this program."""
