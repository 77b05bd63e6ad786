import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

ALLOCATING = """
import ctypes, sqlite3, threading
from mirror.arenas import share_arenas
{first}
def read():
    sqlite3.connect(":memory:").execute("SELECT * FROM sqlite_schema")
    together.wait()
together = threading.Barrier(8)
threads = [threading.Thread(target=read) for _ in range(8)]
[each.start() for each in threads]
[each.join() for each in threads]
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_stats"), reason="another C library than glibc")
@pytest.mark.parametrize(("first", "alone"), [("", False), ("share_arenas()", True)])
def test_threads_that_read_share_one_arena(first: str, alone: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATING.format(first=first)], check=True, capture_output=True, text=True
    )
    assert (done.stderr.count("Arena ") == 1) == alone, done.stderr


BACKLOG_STORED = r"""
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from mirror.arenas import give_back
from mirror.content import read_content
from mirror.listing import Listed, ListedFolder
from mirror.mirrored import State
from mirror.recording import record_of
from mirror.store import Store
def anonymous():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon"))
raw = b"Subject: long\r\n\r\n" + b"many words of no use\r\n" * 500
with Store(Path(sys.argv[1])) as store:
    store.set_folders([ListedFolder(b"INBOX", "INBOX", "/", (), "", selectable=True)])
    began = datetime(2024, 1, 1, tzinfo=UTC)
    store.add_listed(1, [Listed(uid, (), began + timedelta(hours=uid), len(raw)) for uid in range(1, 2_001)])
    record = record_of(read_content(raw))
    while holes := store.holes(1, State.TEXT, 100):
        store.set_texts((hole.content, hole.content.to_bytes(32), record) for hole in holes)
    before = anonymous()
    store.shrink()
    give_back()
    print(before - anonymous())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library than glibc")
def test_memory_of_a_backlog_is_given_back(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BACKLOG_STORED, tmp_path / "mirror"], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) > 8_000
