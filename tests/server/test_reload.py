"""Changes while many clients call: no answer that was asked for after a change shows what it hid."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from config.settings import load_settings
from server.live import STABLE_SECONDS, LiveSettings
from tests.processes import until
from tests.server.door import ONE_ACCOUNT, Door, Folder, Mail, fill_mirror, modern_call
from tests.servers.ports import free_port

CLIENTS = 50
CONFIG = (
    ONE_ACCOUNT
    + """
[profiles.assistant]
folders = [{{ match = "{match}", access = "read" }}]
{more}
"""
)
CALLS = [
    ("list_folders", {}),
    ("list_messages", {"folder": "INBOX"}),
    ("search_messages", {"folder": "INBOX", "query": "subject canary"}),
    ("list_messages", {"folder": "Work"}),
]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one client. began: when it was sent."""

    client: int
    began: float
    status: int
    text: str


@dataclass(slots=True)
class Crowd:
    """Fifty clients that call without a pause."""

    door: Door
    secrets: list[str]
    calls: list[Call] = field(default_factory=list)
    stopping: bool = False

    async def run(self) -> None:
        """Call until told to stop."""
        limits = httpx2.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
        async with httpx2.AsyncClient(timeout=30, limits=limits) as http:
            await asyncio.gather(*(self._client(http, number) for number in range(CLIENTS)))

    async def _client(self, http: httpx2.AsyncClient, number: int) -> None:
        turn = number
        while not self.stopping:
            tool, arguments = CALLS[turn % len(CALLS)]
            turn += 1
            body, headers = modern_call(self.secrets[number % len(self.secrets)], tool, arguments)
            began = time.time()
            answer = await http.post(f"{self.door.url}/mcp", json=body, headers=headers)
            self.calls.append(Call(number % len(self.secrets), began, answer.status_code, answer.text))

    def after(self, moment: float) -> list[Call]:
        """The calls that were sent after a moment."""
        return [call for call in self.calls if call.began > moment]


class Site:
    """An application, its configuration file, and two tokens."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.parent / "postmirror.toml"
        self._fixed = {"data_dir": data_dir, "port": free_port()}
        self.write("*")
        live = LiveSettings(self.path, load_settings)
        settings = live.in_force().settings
        inbox = [Mail(f"canary {each}", minutes=each) for each in range(30)]
        fill_mirror(settings, "alice", "work", [Folder("INBOX", inbox), Folder("Work", [Mail("allowed")])])
        self.door = Door(live)

    def write(self, match: str, more: str = "") -> float:
        """Save the file in one step; returns when a change of it has been taken up for certain."""
        draft = self.path.with_name("draft")
        draft.touch(mode=0o600)
        draft.write_text(CONFIG.format(**self._fixed, match=match, more=more))
        draft.rename(self.path)
        return time.time() + STABLE_SECONDS + 0.05


@pytest.fixture
def site(data_dir: Path) -> Iterator[Site]:
    made = Site(data_dir)
    with made.door:
        yield made


def test_no_answer_asked_for_after_a_change_shows_what_it_hid(site: Site) -> None:
    door = site.door
    names = ["first", "second"]
    secrets = [door.state.issue_token("alice", "assistant", name=name)[1] for name in names]
    crowd = Crowd(door, secrets)

    def change() -> tuple[float, float, float]:
        until(lambda: sum("canary" in call.text for call in list(crowd.calls)) > 100)  # there is something to hide
        narrowed = site.write("Work")
        until(lambda: len(crowd.after(narrowed)) > 200)
        door.state.revoke("first")
        revoked = time.time()
        until(lambda: len(crowd.after(revoked)) > 200)
        broken = site.write("*", "nonsense = = 1")
        until(lambda: len(crowd.after(broken)) > 200)
        crowd.stopping = True
        return narrowed, revoked, broken

    async def both() -> tuple[float, float, float]:
        calling = asyncio.create_task(crowd.run())
        try:
            return await asyncio.to_thread(change)
        finally:
            crowd.stopping = True
            await calling

    narrowed, revoked, broken = asyncio.run(both())
    assert not [call for call in crowd.after(narrowed) if "canary" in call.text or "INBOX" in call.text]
    assert {call.status for call in crowd.after(revoked) if call.client == 0} <= {401, 429}
    assert {call.status for call in crowd.calls if call.client == 1} == {200}
    assert any("allowed" in call.text for call in crowd.after(broken))
    assert door.http.get(f"{door.url}/healthz").json() == {"status": "degraded"}
