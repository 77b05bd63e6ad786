"""`postmirror serve` as a process of its own, over a configuration and mirrors that a test has made."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from config.identity import Server
from tests.processes import until


@contextmanager
def serve_process(config: Path, server: Server) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """(process, URL) from the time it answers until the block ends; its log is beside the configuration."""
    with config.with_name("log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "server.cli", "serve", "--config", str(config)], stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{server.port}"
    try:
        until(lambda: is_open(url))
        yield process, url
    finally:
        process.terminate()
        process.wait(30)


def is_open(url: str) -> bool:
    """Whether the server answers."""
    try:
        return httpx2.get(f"{url}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1_024 for line in lines if line.startswith("VmRSS"))
