"""A mirror under test beside the mailbox it mirrors, and the comparison of the two."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

from config.identity import Endpoint, Provider, SyncRule
from config.secret import SecretSource
from mirror.parsing import Parsers
from mirror.report import Report
from mirror.store import Store
from mirror.sync import Pass
from mirror.upstream import Upstream
from tests.servers.second_client import SecondClient


def provider_at(port: int, user: str, password_file: Path, **keys: object) -> Provider:
    """A provider whose IMAP server listens in clear on loopback."""
    endpoint = Endpoint(host="127.0.0.1", port=port, security="plain")
    return Provider.model_validate(
        {"address": f"{user}@example.org", "username": user, "password": SecretSource(file=password_file)}
        | {"imap": endpoint}
        | keys
    )


class Mirror:
    """One mirror in a folder of its own, synced by calls."""

    def __init__(self, folder: Path, provider: Provider, parsers: Parsers) -> None:
        self.folder = folder
        self.provider = provider
        self.parsers = parsers
        self.store = Store(folder)

    def sync(
        self, connect: Callable[[], Upstream] | None = None, *, rule: SyncRule | None = None, batch: int = 200
    ) -> Report:
        """One whole pass."""
        one = Pass(self.store, rule or self.provider.sync, self.parsers, connect or self.connect, batch=batch)
        return one.run()

    def connect(self, *, read_timeout: float = 60.0) -> Upstream:
        """A session of the mirror's own."""
        return Upstream.connect(self.provider, read_timeout=read_timeout)

    def rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """What a plain SQLite client reads from the mirror's file."""
        connection = sqlite3.connect(self.store.path)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def listing(self) -> set[tuple[str, int, frozenset[str], str]]:
        """(folder, uid, flags, SHA-256 of the message) of every message."""
        found = self.rows(
            "SELECT folder.name, message.uid, message.flags, hex(content.digest) FROM message"
            " JOIN folder ON folder.id = message.folder JOIN content ON content.id = message.content"
        )
        return {
            (str(f), int(str(uid)), frozenset(json.loads(str(flags))), str(sha).lower()) for f, uid, flags, sha in found
        }

    def folders(self) -> set[str]:
        """Names of the folders that readers see."""
        return {str(name) for (name,) in self.rows("SELECT name FROM folder WHERE missing = 0")}

    def ids(self) -> dict[str, int]:
        """Message id by Message-ID."""
        found = self.rows(
            "SELECT content.message_id, message.id FROM message JOIN content ON content.id = message.content"
        )
        return {str(message_id): int(str(row)) for message_id, row in found}

    def close(self) -> None:
        """Close the file."""
        self.store.close()


def truth(client: SecondClient) -> set[tuple[str, int, frozenset[str], str]]:
    """The same listing by an independent plain IMAP session."""
    found = set()
    for name, attributes in client.folders().items():
        if "\\Noselect" not in attributes and "\\NonExistent" not in attributes:
            found |= {(name, listed.uid, listed.flags, listed.sha256) for listed in client.listing(name)}
    return found
