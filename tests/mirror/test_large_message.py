"""A large message goes through a file: this process never holds it, and nothing of it stays behind."""

# ruff: noqa: T201 - the long run prints its figures

import hashlib
import multiprocessing
import os
import sys
import tracemalloc
from base64 import encodebytes
from collections.abc import Callable
from pathlib import Path

import pytest

from mirror.errors import UpstreamUnavailable
from mirror.query.reader import Reader
from mirror.spool import spooled
from mirror.store import Store
from mirror.upstream import PIECE
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, agree, provider_at, sync_alone
from tests.servers.dovecot import Dovecot

OCTETS = 12_000_000


def large(octets: int = OCTETS) -> bytes:
    """A mail with a text and an attachment that does not compress."""
    attachment = encodebytes(os.urandom(octets * 3 // 4)).replace(b"\n", b"\r\n")
    return b"".join(
        (
            b"From: a@example.org\r\nSubject: large one\r\nMIME-Version: 1.0\r\n",
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n",
            b"--b\r\nContent-Type: text/plain\r\n\r\nthe text of it\r\n",
            b"--b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=x.bin\r\n",
            b"Content-Transfer-Encoding: base64\r\n\r\n",
            attachment,
            b"--b--\r\n",
        )
    )


def many_attachments(count: int, octets: int) -> bytes:
    """A mail of attachments that are all kept offline."""
    parts = (
        b"--b\r\nContent-Disposition: attachment; filename=x%d.bin\r\nContent-Transfer-Encoding: base64\r\n\r\n%s"
        % (number, encodebytes(os.urandom(octets)).replace(b"\n", b"\r\n"))
        for number in range(count)
    )
    head = b"Subject: many\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    return head + b"".join(parts) + b"--b--\r\n"


def pss(pid: int) -> float:
    """Megabytes of a process, shared pages divided among their users; 0 when it has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1_024 for line in rollup.splitlines() if line.startswith("Pss:")), 0.0)


def left_in(folder: Path) -> list[str]:
    """Files that a spool left."""
    return [path.name for path in folder.glob("spool-*")]


def test_large_message_is_never_in_this_process(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", large(), simple("a small one"))
    tracemalloc.start()
    try:
        assert mirror.sync().complete
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < OCTETS / 2
    assert left_in(mirror.folder) == []
    with dovecot.client(user) as client:
        agree(mirror, client)
    assert "the text of it" in {text.strip() for *_, text in mirror.texts()}


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("kind", ["one attachment", "fifty attachments"])
def test_largest_message_leaves_the_worker_below_100_megabytes(
    kind: str, dovecot: Dovecot, user: str, password_file: Path, tmp_path: Path
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", large(49_000_000) if kind == "one attachment" else many_attachments(50, 700_000))
    provider = provider_at(dovecot.port, user, password_file)
    worker = multiprocessing.get_context("spawn").Process(target=sync_alone, args=(tmp_path / "mirror", provider))
    worker.start()
    assert worker.pid is not None
    most = 0.0
    while worker.is_alive():
        most = max(most, pss(worker.pid))
        worker.join(0.01)
    print(f"\n{kind}: {most:.0f} MB at most")
    assert worker.exitcode == 0
    with Reader(tmp_path / "mirror" / "mirror.db") as reader:
        assert not any(folder.pending for folder in reader.folders())
        assert sum(folder.messages for folder in reader.folders()) == 1
    assert 10 < most < 100


@pytest.mark.parametrize("size", [PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1])
def test_message_at_the_edge_of_a_piece_is_whole(mirror: Mirror, dovecot: Dovecot, user: str, size: int) -> None:
    head = b"Subject: edge\r\n\r\n"
    raw = head + b"x" * (size - len(head) - 2) + b"\r\n"
    with dovecot.client(user) as client:
        client.append("INBOX", raw)
    mirror.sync()
    assert [sha for *_, sha in mirror.listing()] == [hashlib.sha256(raw).hexdigest()]


def test_large_message_that_is_cut_leaves_no_file(tmp_path: Path) -> None:
    def write(add: Callable[[bytes], None]) -> bool:
        add(b"half of it")
        raise UpstreamUnavailable("gone")

    with pytest.raises(UpstreamUnavailable):
        spooled(tmp_path, write)
    assert spooled(tmp_path, lambda _: False) is None
    assert left_in(tmp_path) == []


def test_file_goes_with_the_last_use_of_its_mail(tmp_path: Path) -> None:
    def write(add: Callable[[bytes], None]) -> bool:
        add(b"all of it")
        return True

    mail = spooled(tmp_path, write)
    assert mail is not None
    assert (mail.read(), len(mail), mail.digest) == (b"all of it", 9, hashlib.sha256(b"all of it").digest())
    assert len(left_in(tmp_path)) == 1
    del mail
    assert left_in(tmp_path) == []


def test_file_that_a_killed_process_left_goes_when_the_mirror_is_held_again(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "kept"
    Store(folder).close()
    (folder / "spool-abc").write_bytes(b"what was being fetched")
    Store(folder, repair=True).close()
    assert left_in(folder) == []
