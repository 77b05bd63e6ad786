"""A mirror for the tests of search, written by SQL over the real schema."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mirror import schema
from mirror.envelope import base_subject
from mirror.fold import fold, fold_keeping_separators, people
from mirror.query import words

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Mail:
    """One mail to put into a mirror."""

    subject: str = ""
    text: str = ""
    sender: Pairs = (("", "someone@example.org"),)
    recipient: Pairs = (("", "me@example.org"),)
    cc: Pairs = ()
    bcc: Pairs = ()
    headers: Pairs = ()
    flags: Sequence[str] = ()
    received: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    sent: datetime | None = None
    size: int = 1000
    folder: str = "INBOX"
    state: int = 2
    copies: int = 1


def connect(path: Path) -> sqlite3.Connection:
    """A connection that may write, with the functions that the schema needs."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.create_function("fold", 1, fold, deterministic=True)
    connection.create_function("people", 1, people, deterministic=True)
    return connection


def build(path: Path, mails: Iterable[Mail], folders: Sequence[str] = ("INBOX",), batch: int = 250) -> None:
    """Write a mirror that holds these mails, each folder complete."""
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        schema.migrate(connection)
        connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 77, 1)")
        for name in folders:
            connection.execute(
                "INSERT INTO folder (raw, name, delimiter, enumerated, as_of) VALUES (?, ?, '/', 1, 0)",
                (name.encode(), name),
            )
        add(connection, mails, batch)


def add(
    connection: sqlite3.Connection,
    mails: Iterable[Mail],
    batch: int = 250,
    *,
    is_indexed: bool = True,
    is_backlog: bool = False,
) -> list[int]:
    """Store and index more mails, in batches; their content ids."""
    folders = dict(connection.execute("SELECT name, id FROM folder"))
    uid = connection.execute("SELECT coalesce(max(uid), 0) FROM message").fetchone()[0]
    taken = {row[0] for row in connection.execute("SELECT id FROM content")}
    ids: list[int] = []
    pending: list[int] = []
    connection.execute("BEGIN IMMEDIATE")
    for mail in mails:
        content = int((mail.received.timestamp() - 946_684_800) // 60) << schema.SPILL_BITS
        while content in taken:
            content += 1
        taken.add(content)
        ids.append(content)
        _insert(connection, content, mail)
        for _ in range(mail.copies):
            uid += 1
            connection.execute(
                "INSERT INTO message (folder, content, uid, generation, flags) VALUES (?, ?, ?, 0, ?)",
                (folders[mail.folder], content, uid, json.dumps(sorted(mail.flags))),
            )
        if mail.state >= 2 and is_indexed:
            pending.append(content)
        if len(pending) >= batch:
            words.index(connection, sorted(pending), is_backlog=is_backlog)
            pending = []
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
    words.index(connection, sorted(pending), is_backlog=is_backlog)
    connection.execute("COMMIT")
    return ids


def _insert(connection: sqlite3.Connection, content: int, mail: Mail) -> None:
    written = mail.sent or mail.received
    connection.execute(
        """
        INSERT INTO content (id, state, internaldate, internaldate_zone, size, subject, sent, sent_zone, sent_day,
            subject_key, from_key, to_key, sender, recipient, cc, bcc, preview)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            content,
            mail.state,
            int(mail.received.timestamp()),
            _zone(mail.received),
            mail.size,
            mail.subject,
            None if mail.sent is None else int(mail.sent.timestamp()),
            None if mail.sent is None else _zone(mail.sent),
            written.date().toordinal() - datetime(1970, 1, 1).toordinal(),
            _key(base_subject(mail.subject)),
            _key(mail.sender[0][0] or mail.sender[0][1] if mail.sender else ""),
            _key(mail.recipient[0][0] or mail.recipient[0][1] if mail.recipient else ""),
            *(
                json.dumps(list(map(list, each)), ensure_ascii=False)
                for each in (mail.sender, mail.recipient, mail.cc, mail.bcc)
            ),
            mail.text[:200],
        ),
    )
    if mail.state >= 2:
        connection.execute(
            "INSERT INTO body (content, text, headers) VALUES (?, ?, ?)",
            (content, mail.text, json.dumps(list(map(list, mail.headers)), ensure_ascii=False)),
        )


def _zone(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return int(offset.total_seconds() // 60)


def _key(text: str) -> str:
    return fold_keeping_separators(text).encode()[:64].decode("utf-8", "ignore")
