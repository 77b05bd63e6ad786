"""Many accounts in which nothing happens: what both processes cost."""

import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Figure, Section
from bench.installation import ROOT
from bench.memory import sizes
from tests.servers.dovecot import Dovecot
from tests.servers.ports import HOST, free_port

ACCOUNTS = 50
_SETTLE_WITHIN = 120.0
_TICK = 100

HEAD = """\
[server]
port = {port}
data_dir = "data"
workspace = "workspace"

[profiles.open]
folders = [{{ match = "*", access = "write" }}]
"""
"""What a configuration of many accounts begins with, for a port."""
_ACCOUNT = """
[users.user{number}.providers.work]
address = "user{number}@example.org"
username = "idle{number}"
password = {{ file = "{password_file}" }}
imap = {{ host = "{host}", port = {imap_port}, security = "plain" }}
"""


def idle_accounts(dovecot: Dovecot, folder: Path, seconds: float) -> Section:
    """CPU and memory of `serve` with 50 accounts over that time, after all of them were synced once."""
    place = folder / "accounts"
    place.mkdir(mode=0o700)
    for number in range(ACCOUNTS):
        with dovecot.client(f"idle{number}") as client:
            client.append("INBOX", b"From: a@example.org\r\nSubject: one\r\n\r\nThe only mail.\r\n")
    config = place / "postmirror.toml"
    config.touch(mode=0o600)
    accounts = (
        _ACCOUNT.format(number=number, password_file=dovecot.folder / "password", host=HOST, imap_port=dovecot.port)
        for number in range(ACCOUNTS)
    )
    config.write_text(HEAD.format(port=free_port()) + "".join(accounts), "utf-8")
    command = [sys.executable, "-m", "server.cli", "serve", "--config", str(config)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        _wait_for_mirrors(place)
        before, began = cpu(process.pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu(process.pid) - before) / (time.monotonic() - began)
        memory = dict(sizes(process.pid))
    finally:
        process.terminate()
        process.wait()
    figures = [Figure("all processes, of one core", 100 * share, "%")]
    figures += [Figure(role, pss, "MB", rss) for role, (pss, rss) in memory.items()]
    figures.append(Figure("all of it", sum(pss for pss, _ in memory.values()), "MB"))
    return Section(f"{ACCOUNTS} idle accounts over {seconds:.0f} s", ("PSS", "RSS"), figures)


def _wait_for_mirrors(place: Path) -> None:
    """Until every account has its mirror and a little longer, so that every first pass has ended."""
    deadline = time.monotonic() + _SETTLE_WITHIN
    while sum(1 for _ in (place / "data" / "mirrors").glob("*/*/mirror.db")) < ACCOUNTS:
        if time.monotonic() > deadline:
            raise TimeoutError("the accounts were not mirrored")
        time.sleep(0.5)
    time.sleep(15)


def cpu(web: int) -> float:
    """Seconds of CPU that the processes of a `serve` have used, those that have ended among them."""
    total, waiting = 0.0, [web]
    while waiting:
        pid = waiting.pop()
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        total += sum(map(int, fields[11:15])) / _TICK
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            waiting += map(int, thread.read_text("ascii").split())
    return total
