import ctypes
import subprocess
import sys

import pytest

ALLOCATING = """
import ctypes, sqlite3, threading
from server.arenas import share_arenas
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
