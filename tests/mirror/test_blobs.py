"""Attachments kept offline, and contents cleaned again."""

import hashlib
import os
from email.message import EmailMessage
from pathlib import Path

import pytest

from config.provider import SyncRule
from mirror import content_rows, store_contents
from mirror.blobs import blob_path
from mirror.content import CONTENT_VERSION
from mirror.query import lines
from mirror.query.himalaya import parse_himalaya
from mirror.query.reader import Reader
from mirror.store import Store
from tests.mirror.mailbox import Mirror
from tests.servers.dovecot import Dovecot

SMALL = b"%PDF small " * 20
LARGE = os.urandom(50_000)


def with_attachments(subject: str, *parts: bytes) -> bytes:
    """A mail with these attachments."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "bob@example.net", "alice@example.org", subject
    mail["Message-ID"] = f"<{subject}@example.net>"
    mail.set_content("See the attachments.")
    for number, data in enumerate(parts):
        mail.add_attachment(data, maintype="application", subtype="pdf", filename=f"{number}.pdf")
    return mail.as_bytes()


def files(mirror: Mirror) -> set[bytes]:
    """The bytes of every blob on the disk."""
    return {path.read_bytes() for path in (mirror.folder / "blobs").glob("*/*")}


def rule(**attachments: int) -> SyncRule:
    """A rule that keeps attachments up to a size and a total."""
    return SyncRule.model_validate({"attachments": attachments})


def test_small_attachments_are_kept_once_and_large_ones_are_not(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", with_attachments("a", SMALL, LARGE), with_attachments("b", SMALL))
    mirror.sync(rule=rule(max_size=10_000))
    assert files(mirror) == {SMALL}
    assert mirror.rows("SELECT count(*) FROM attachment_blob") == [(2,)]
    with Reader(mirror.store.path) as reader:
        folder = next(folder for folder in reader.folders() if folder.name == "INBOX")
        message = reader.page(folder.id, None, None, 1).messages[0]
        digest = reader.blob(message.content, message.attachments[0].part)
        assert digest == hashlib.sha256(SMALL).digest()
        assert blob_path(mirror.folder, digest).read_bytes() == SMALL
        assert reader.blob(message.content, "99") is None


def test_files_are_for_their_owner_only(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", with_attachments("a", SMALL))
    mirror.sync()
    for path in (mirror.folder / "blobs").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_the_least_recently_used_go_when_the_total_is_exceeded(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    parts = [os.urandom(1_000) for _ in range(5)]
    with dovecot.client(user) as client:
        client.append("INBOX", *[with_attachments(str(number), part) for number, part in enumerate(parts)])
    mirror.sync()
    assert files(mirror) == set(parts)
    for age, part in enumerate(parts):
        os.utime(blob_path(mirror.folder, hashlib.sha256(part).digest()), (age, age))
    mirror.store.blobs.sweep(2_500)
    assert files(mirror) == set(parts[3:])
    assert mirror.store.blobs.total() == 2_000


def test_blobs_go_with_their_mail(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", with_attachments("a", SMALL))
        mirror.sync()
        client.imap.select("INBOX")
        client.expunge("INBOX", [1])
    mirror.sync()
    mirror.store.sweep(before=float("inf"))
    mirror.store.blobs.sweep(10**9)
    assert files(mirror) == set()


def test_what_a_crash_left_behind_is_removed_later(mirror: Mirror) -> None:
    stray = blob_path(mirror.folder, hashlib.sha256(b"x").digest())
    waiting = stray.with_name("half.1234.tmp")
    stray.parent.mkdir(parents=True)
    for path in (stray, waiting):
        path.write_bytes(b"x")
    assert mirror.store.blobs.sweep(10**9) == 0
    for path in (stray, waiting):
        os.utime(path, (0, 0))
    assert mirror.store.blobs.sweep(10**9) == 2
    assert not stray.exists()


def test_first_pass_of_a_process_looks_for_strays_and_those_after_it_only_at_what_changed(mirror: Mirror) -> None:
    def left_behind(data: bytes) -> Path:
        stray = blob_path(mirror.folder, hashlib.sha256(data).digest())
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_bytes(data)
        os.utime(stray, (0, 0))
        return stray

    early = left_behind(b"early")
    mirror.sync()
    assert not early.exists()
    late = left_behind(b"late")
    mirror.sync()
    assert late.exists()
    mirror.store.blobs.sweep(10**9)
    assert not late.exists()


def test_blobs_of_expunged_mail_go_with_the_pass_that_drops_its_content(
    mirror: Mirror, dovecot: Dovecot, user: str
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", with_attachments("a", SMALL))
        mirror.sync()
        client.imap.select("INBOX")
        client.expunge("INBOX", [1])
    mirror.sync()
    assert files(mirror) == {SMALL}
    mirror.store._connection.execute("UPDATE content SET orphaned_at = 0 WHERE orphaned_at IS NOT NULL")
    mirror.sync()
    assert files(mirror) == set()


def test_index_and_sort_keys_are_made_anew_when_fold_has_changed(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", with_attachments("Zebra"), with_attachments("apple"))
    mirror.sync()
    mirror.store._connection.execute("UPDATE mirror SET fold_version = 0")
    mirror.store._connection.execute("UPDATE content SET subject_key = ''")
    mirror.store._connection.execute("INSERT INTO fts (fts) VALUES ('delete-all')")
    mirror.store.close()
    Store(mirror.folder).close()
    indexed = "SELECT count(*) FROM fts WHERE fts MATCH 'attachments'"
    assert mirror.rows(indexed) == [(0,)], "only the holder of the lock repairs"
    mirror.store = Store(mirror.folder, repair=True)
    assert mirror.rows(indexed) == [(2,)]
    with Reader(mirror.store.path) as reader:
        assert _found(reader, "order by subject") == ["apple", "Zebra"]


def test_pass_indexes_header_lines_that_an_older_version_left(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", with_attachments("a", SMALL), with_attachments("b"))
    mirror.sync()
    lines.empty(mirror.store._connection)
    mirror.sync()
    assert lines.is_whole(mirror.store._connection)
    assert mirror.rows("SELECT count(*) FROM line WHERE line MATCH 'amp'") == [(2,)]


def _found(reader: Reader, query: str) -> list[str]:
    folder = next(folder for folder in reader.folders() if folder.name == "INBOX")
    return [message.subject for message in reader.page(folder.id, parse_himalaya(query), None, 20).messages]


def test_newer_rules_clean_stored_content_again_without_a_download(
    mirror: Mirror, dovecot: Dovecot, user: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", with_attachments("a", SMALL), with_attachments("b"))
    mirror.sync()
    mirror.store._connection.execute("UPDATE content SET content_version = 0, preview = 'stale'")
    mirror.store._connection.execute("UPDATE body SET text = 'stale'")
    mirror.store._connection.execute("INSERT INTO fts (fts) VALUES ('rebuild')")
    newer = CONTENT_VERSION + 1
    monkeypatch.setattr(content_rows, "CONTENT_VERSION", newer)
    monkeypatch.setattr(store_contents, "CONTENT_VERSION", newer)
    report = mirror.sync()
    assert sum(folder.bytes for folder in report.folders.values()) == 0
    assert mirror.rows("SELECT DISTINCT content_version FROM content") == [(newer,)]
    assert mirror.rows("SELECT DISTINCT text LIKE 'See the attachments.%' FROM body") == [(1,)]
    with Reader(mirror.store.path) as reader:
        folder = next(folder for folder in reader.folders() if folder.name == "INBOX")
        for query, hits in (("body attachments", 2), ("body stale", 0)):
            assert len(reader.page(folder.id, parse_himalaya(query), None, 20).messages) == hits
