"""A mirror under test beside the mailbox it mirrors, and the comparison of the two."""

import functools
import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from config.provider import Endpoint, Provider, SyncRule
from config.secret import SecretSource
from mirror.content import read_content
from mirror.parsing import Parsers
from mirror.report import Report
from mirror.store import Store
from mirror.sync import Pass
from mirror.upstream import Upstream
from tests.servers.second_client import SecondClient

Row = tuple[str, int, frozenset[str], str]
"""Folder, uid, flags, SHA-256 of the message."""


def provider_at(port: int, user: str, password_file: Path, **keys: object) -> Provider:
    """A provider whose IMAP server listens in clear on loopback."""
    endpoint = Endpoint(host="127.0.0.1", port=port, security="plain")
    return Provider.model_validate(
        {"address": f"{user}@example.org", "username": user, "password": SecretSource(file=password_file)}
        | {"imap": endpoint}
        | keys
    )


def sync_alone(folder: Path, provider: Provider) -> None:
    """One pass over a mirror that nobody has open for writing: what a process of its own runs."""
    with Parsers() as parsers, Store(folder) as store:
        Pass(store, provider.sync, parsers, lambda: Upstream.connect(provider)).run()


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

    def listing(self) -> set[Row]:
        """(folder, uid, flags, SHA-256 of the octets its content was read from) of every message that readers see."""
        found = self.rows(
            "SELECT folder.name, message.uid, message.flags, hex(content.digest) FROM message"
            " JOIN folder ON folder.id = message.folder JOIN content ON content.id = message.content"
            " WHERE NOT folder.missing"
        )
        return {
            (str(f), int(str(uid)), frozenset(json.loads(str(flags))), str(sha).lower()) for f, uid, flags, sha in found
        }

    def texts(self) -> set[tuple[str, str, str]]:
        """(SHA-256 of the message, subject, text) of every content, as they are stored."""
        found = self.rows(
            "SELECT lower(hex(content.digest)), content.subject, body.text FROM content"
            " JOIN body ON body.content = content.id"
        )
        return {(str(sha), str(subject), str(text)) for sha, subject, text in found}

    def folders(self) -> set[str]:
        """Names of the folders that readers see."""
        return {str(name) for (name,) in self.rows("SELECT name FROM folder WHERE missing = 0")}

    def ids(self) -> dict[str, int]:
        """Message id by Message-ID."""
        found = self.rows(
            "SELECT content.message_id, message.id FROM message JOIN content ON content.id = message.content"
        )
        return {str(message_id): int(str(row)) for message_id, row in found}

    def single_ids(self) -> dict[object, object]:
        """Message id by SHA-256, of the messages that readers see in one place only."""
        found = self.rows(
            "SELECT content.digest, min(message.id) FROM message JOIN folder ON folder.id = message.folder"
            " JOIN content ON content.id = message.content WHERE NOT folder.missing"
            " GROUP BY content.digest HAVING count(*) = 1"
        )
        return {digest: message for digest, message in found}  # noqa: C416 - rows are tuples of any length

    def close(self) -> None:
        """Close the file."""
        self.store.close()


@dataclass
class Work:
    """What a pass did: its commands, and the table of each row of messages and contents it wrote, changed or not."""

    report: Report
    commands: list[bytes]
    written: list[str]

    @property
    def fetched(self) -> list[bytes]:
        """The commands that asked for mail or headers."""
        return [command for command in self.commands if b"BODY" in command]


_TEXTS = 100
"""About how many messages are read again to compare their texts."""
_KEPT = ("message", "content", "body", "form", "attempt", "departed", "word", "blob", "attachment_blob")


def counted_pass(mirror: Mirror) -> Work:
    """One whole pass, with everything it did."""
    connection = mirror.store._connection
    commands: list[bytes] = []

    def connect() -> Upstream:
        upstream = mirror.connect()
        send = upstream._imap.send

        def counted(data: bytes) -> None:
            commands.append(data)
            send(data)

        upstream._imap.send = counted
        return upstream

    connection.execute("CREATE TEMP TABLE written (kept TEXT)")
    for kept in _KEPT:
        for change in ("INSERT", "UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TEMP TRIGGER {kept}_{change} AFTER {change} ON main.{kept}"
                f" BEGIN INSERT INTO written VALUES ('{kept}'); END"
            )
    try:
        report = mirror.sync(connect)
        written = [kept for (kept,) in connection.execute("SELECT kept FROM written")]
    finally:
        for kept in _KEPT:
            for change in ("INSERT", "UPDATE", "DELETE"):
                connection.execute(f"DROP TRIGGER {kept}_{change}")
        connection.execute("DROP TABLE temp.written")
    return Work(report, commands, written)


def agree(mirror: Mirror, client: SecondClient) -> None:
    """One pass makes the mirror equal to an independent plain listing; one more asks for no mail and writes no row."""
    report = mirror.sync()
    assert report.complete, [folder.error for folder in report.folders.values()]
    assert_equal(mirror, client)
    if mirror.rows("SELECT 1 FROM folder WHERE missing"):
        mirror.sync()  # a folder is forgotten when two passes miss it
    again = counted_pass(mirror)
    assert again.report.complete
    assert again.report.work == 0
    assert not again.fetched
    assert not again.written
    assert mirror.listing() == truth(client)


def indexed(mirror: Mirror) -> dict[str, int]:
    """In how many contents each word of the full-text index is."""
    with closing(sqlite3.connect(mirror.store.path)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.indexed USING fts5vocab('main', 'fts', 'row')")
        return dict(connection.execute("SELECT term, doc FROM temp.indexed"))


def assert_equal(mirror: Mirror, client: SecondClient) -> None:
    """The mirror shows what an independent plain session lists, and its texts are those of the octets found there."""
    assert mirror.listing() == truth(client)
    opened = {name for name, attributes in client.folders().items() if _opens(attributes)}
    assert mirror.folders() == opened
    raws = sorted({mail.raw for name in opened for mail in client.originals(name)})
    assert {_read(raw) for raw in raws[:: 1 + len(raws) // _TEXTS]} <= mirror.texts()


@functools.cache
def _read(raw: bytes) -> tuple[str, str, str]:
    content = read_content(raw)
    return hashlib.sha256(raw).hexdigest(), content.envelope.subject, content.text


def _opens(attributes: frozenset[str]) -> bool:
    return not {"\\noselect", "\\nonexistent"} & {attribute.lower() for attribute in attributes}


def truth(client: SecondClient) -> set[Row]:
    """The same listing by an independent plain IMAP session."""
    found = set()
    for name, attributes in client.folders().items():
        if _opens(attributes):
            found |= {(name, listed.uid, listed.flags, listed.sha256) for listed in client.listing(name)}
    return found
