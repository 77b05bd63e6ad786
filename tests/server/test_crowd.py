"""A thousand clients at once for a minute: no error, no file handle that stays, and so much memory."""

import asyncio
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from config.settings import load_settings
from server.state.store import State
from server.tool import READING_THREADS
from tests.processes import until
from tests.server.door import ONE_ACCOUNT, Caller, Folder, Mail, fill_mirror, modern_call
from tests.server.serve_process import memory, serve_process
from tests.servers.ports import free_port

CONFIG = (
    ONE_ACCOUNT
    + """
[profiles.assistant]
folders = [{{ match = "*", access = "read" }}]
"""
)


class Crowd:
    """Clients of their own connection each, that call for some seconds."""

    def __init__(self, url: str, secrets: list[str], uids: list[str]) -> None:
        self._url = url
        self._secrets = secrets
        self._uids = uids
        self.statuses: Counter[int | str] = Counter()
        self.seconds: list[float] = []

    async def run(self, clients: int, seconds: float) -> None:
        """Call until the time is over."""
        limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
        self._end = time.monotonic() + seconds
        async with httpx2.AsyncClient(timeout=60, limits=limits) as http:
            await asyncio.gather(*(self._client(http, number) for number in range(clients)))

    async def _client(self, http: httpx2.AsyncClient, number: int) -> None:
        turn = number
        while time.monotonic() < self._end:
            turn += 1
            tool, arguments = [
                ("list_messages", {"folder": "INBOX"}),
                ("read_message", {"folder": "INBOX", "uid": self._uids[turn % len(self._uids)]}),
                ("search_messages", {"folder": "INBOX", "query": f"subject {turn % 40}"}),
            ][turn % 3]
            body, headers = modern_call(self._secrets[number % len(self._secrets)], tool, arguments)
            began = time.perf_counter()
            try:
                answer = await http.post(self._url, json=body, headers=headers)
            except httpx2.TransportError as exc:
                self.statuses[type(exc).__name__] += 1
                continue
            self.seconds.append(time.perf_counter() - began)
            failed = answer.status_code == 200 and '"isError":true' in answer.text
            self.statuses["isError" if failed else answer.status_code] += 1


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, list[str], list[str]]]:
    """(process, URL, secrets of ten tokens, uids) of a `serve` over a mailbox of 40 mails."""
    port = free_port()
    config = folder / "postmirror.toml"
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(data_dir="data", port=port))
    settings = load_settings(config)
    settings.server.data_dir.mkdir(mode=0o700)
    mails = [Mail(f"subject {each}", text="word " * 500, minutes=each) for each in range(40)]
    fill_mirror(settings, "alice", "work", [Folder("INBOX", mails)])
    state = State(settings.server.data_dir)
    secrets = [state.issue_token("alice", "assistant")[1] for _ in range(10)]
    state.close()
    with serve_process(config, settings.server) as (process, url):
        yield process, f"{url}/mcp", secrets, uids_of(f"{url}/mcp", secrets[0])


def uids_of(url: str, secret: str) -> list[str]:
    """Ten virtual uids."""
    with httpx2.Client(timeout=30) as http:
        page = Caller(url.removesuffix("/mcp"), secret, http).call("list_messages", folder="INBOX").value
        return [message["uid"] for message in page["messages"][:10]]


def handles(pid: int) -> tuple[int, int]:
    """(sockets, other files) that a process has open."""
    kinds = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            kinds.append(str(each.readlink()).startswith("socket:"))
    return kinds.count(True), kinds.count(False)


@pytest.mark.parametrize(
    ("clients", "seconds"), [(60, 2.0), pytest.param(1_000, 60.0, marks=[pytest.mark.soak, pytest.mark.timeout(400)])]
)
def test_many_clients_at_once_get_answers_and_leave_nothing_open(tmp_path: Path, clients: int, seconds: float) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8_192, hard), hard))
    try:
        with serving(tmp_path) as (process, url, secrets, uids):
            sockets, files = handles(process.pid)
            small = memory(process.pid)
            crowd = Crowd(url, secrets, uids)
            asyncio.run(crowd.run(clients, seconds))
            big = memory(process.pid)
            # SQLite keeps the handle of a closed connection for the next one, so that there are as many as there were
            # readers at once: one for each thread that runs tools.
            until(lambda: handles(process.pid)[0] <= sockets + 5)
            after = handles(process.pid)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    median = sorted(crowd.seconds)[len(crowd.seconds) // 2]
    sys.stdout.write(
        f"{clients} clients, {seconds:.0f} s: {dict(crowd.statuses)}, p50 {median:.3f} s, "
        f"sockets {sockets} -> {after[0]}, files {files} -> {after[1]}, memory {small:.0f} -> {big:.0f} MB\n"
    )
    assert set(crowd.statuses) == {200}
    assert crowd.statuses[200] >= clients
    assert after[1] <= files + 3 * READING_THREADS
