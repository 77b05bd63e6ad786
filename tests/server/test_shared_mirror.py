"""Several processes on one data directory at work at once: `serve`, `stdio`, `sync`, and another mail client."""

import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.mirror.mail import simple
from tests.server.test_processes import Installation, answer_of, installation, mail
from tests.servers.dovecot import Dovecot

__all__ = ["installation"]

KEPT = 12
"""Messages that only their flags change of."""
Call = Callable[..., Awaitable[dict[str, Any]]]


class Bustle:
    """What goes on for so many seconds. faults: every answer that should not have been."""

    def __init__(self, installation: Installation, dovecot: Dovecot, seconds: float) -> None:
        self._installation = installation
        self._dovecot = dovecot
        self._end = time.monotonic() + seconds
        self.faults: list[str] = []
        self.done = {"read": 0, "changed": 0, "synced": 0, "arrived": 0}
        self.holders: set[int] = set()

    def _goes_on(self) -> bool:
        return time.monotonic() < self._end

    async def reads(self, call: Call, seed: int) -> None:
        """Lists, searches and reads."""
        dice = random.Random(seed)
        while self._goes_on():
            page = await call("list_messages", folder="INBOX")
            found = await call("search_messages", folder="INBOX", query="subject kept")
            self._check(page, found)
            if uids := [each["uid"] for each in page.get("messages", [])]:
                several = await call("read_messages", folder="INBOX", uids=dice.sample(uids, min(3, len(uids))))
                self._check(several)
            self.done["read"] += 3
            await anyio.sleep(0.05)

    async def changes(self, call: Call, seed: int, share: int) -> None:
        """Flags of this share of the messages that stay."""
        dice = random.Random(seed)
        while self._goes_on():
            page = await call("search_messages", folder="INBOX", query="subject kept")
            self._check(page)
            mine = [each["uid"] for each in page.get("messages", []) if int(each["subject"].split()[-1]) % 2 == share]
            for uid in mine[:2]:
                flag, action = dice.choice(("seen", "flagged", "answered")), dice.choice(("add", "remove"))
                now = await call("update_message_flags", folder="INBOX", uid=uid, flags=[flag], action=action)
                self._check(now)
                if "error" not in now and (flag in now["flags"]) != (action == "add"):
                    self.faults.append(f"{flag} was not {action}ed: {now}")
                self.done["changed"] += 1
            await anyio.sleep(0.05)

    def syncs(self) -> None:
        """`postmirror sync`, again and again."""
        while self._goes_on():
            done = self._installation.run("sync", "alice/work", "--json")
            if done.returncode or done.stderr:
                self.faults.append(f"sync ended with {done.returncode}: {done.stdout} {done.stderr}")
            self.done["synced"] += 1

    def arrivals(self, user: str, seed: int) -> None:
        """Another client: mail comes, and goes."""
        dice = random.Random(seed)
        with self._dovecot.client(user) as client:
            while self._goes_on():
                number = self.done["arrived"] = self.done["arrived"] + 1
                client.append("INBOX", mail(f"passing {number}"))
                if dice.random() < 0.4:
                    client.append("Sent", simple(f"sent {number}"))
                time.sleep(0.2)

    def watches(self, lock: Path) -> None:
        """Who holds the mirror: one process at a time."""
        while self._goes_on():
            inode = f":{lock.stat().st_ino}"
            locks = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
            holders = [int(row[4]) for row in locks if row[1] == "FLOCK" and row[5].endswith(inode)]
            if len(holders) > 1:
                self.faults.append(f"several processes hold the mirror: {holders}")
            self.holders.update(holders)
            time.sleep(0.05)

    def _check(self, *answers: dict[str, Any]) -> None:
        self.faults += [str(answer["error"]) for answer in answers if "error" in answer]


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.soak)])
def test_processes_share_a_mirror_in_a_bustle(
    installation: Installation, dovecot: Dovecot, user: str, tmp_path: Path, seconds: float
) -> None:
    with dovecot.client(user) as client:
        for number in range(KEPT):
            client.append("INBOX", mail(f"kept {number}"))
    assert installation.run("sync", "alice/work").returncode == 0
    secret = installation.token()
    words = installation.command("stdio", "--user", "alice", "--profile", "assistant")
    local_log = tmp_path / "stdio.log"

    async def run() -> Bustle:
        parameters = StdioServerParameters(command=words[0], args=words[1:], cwd=str(Path.cwd()))
        with local_log.open("w") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as local, anyio.create_task_group() as tasks:

                async def at_home(tool: str, **arguments: Any) -> dict[str, Any]:
                    return answer_of(await local.call_tool(tool, arguments))

                async def over_http(tool: str, **arguments: Any) -> dict[str, Any]:
                    return await installation._call(secret, tool, arguments)

                bustle = Bustle(installation, dovecot, seconds)
                for number, call in enumerate((at_home, over_http)):
                    tasks.start_soon(bustle.reads, call, number)
                    tasks.start_soon(bustle.changes, call, number, number)
                tasks.start_soon(anyio.to_thread.run_sync, bustle.syncs)
                tasks.start_soon(anyio.to_thread.run_sync, bustle.arrivals, user, 7)
                lock = installation.folder / "data" / "mirrors" / "alice" / "work" / "lock"
                tasks.start_soon(anyio.to_thread.run_sync, bustle.watches, lock)
        return bustle

    with installation.serving():
        bustle = anyio.run(run)
        last: subprocess.CompletedProcess[str] = installation.run("sync", "alice/work")
        assert last.returncode == 0, last.stderr
        shown = {
            each["subject"]: set(each["flags"])
            for each in installation.call(secret, "search_messages", folder="INBOX", query="subject kept")["messages"]
        }
    sys.stdout.write(f"{bustle.done}\n")
    assert bustle.faults == []
    assert all(bustle.done.values())
    assert len(bustle.holders) == 1
    for log in (installation.log, local_log):
        text = log.read_text("utf-8", "replace")
        assert "locked" not in text
        assert "Traceback" not in text
    with dovecot.client(user) as client:
        upstream = {message.uid: message.flags for message in client.listing("INBOX")}
    assert sorted(sorted(flag.lstrip("\\").lower() for flag in upstream[uid]) for uid in range(1, KEPT + 1)) == sorted(
        sorted(flags) for flags in shown.values()
    )
