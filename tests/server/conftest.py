"""A running web application over a mirror of one mailbox, for tests that only read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from server.long_call import on_thread
from tests.server.door import Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port

INBOX = [
    Mail("Lunch", text="Shall we eat at noon?", minutes=1, flags=("\\Seen",)),
    Mail("Invoice 17", "Carol <carol@shop.example>", text="Please pay 20.04 EUR.", minutes=2, flags=("\\Flagged",)),
    Mail("Report", text="The monthly report.", minutes=3, attachments=(("report.pdf", "application/pdf", b"%PDF"),)),
]
FOLDERS = [
    Folder("INBOX", INBOX),
    Folder("Sent", [Mail("Re: Lunch", "alice@example.org", "bob@example.org")], role="\\Sent"),
    Folder('Projekte/Entwürfe & "Co"', [Mail("Draft")]),
    Folder("Projekte", selectable=False),
    Folder("Secret plans", [Mail("Plan", text="Attack at dawn.")]),
]


@pytest.fixture
def door(data_dir: Path) -> Iterator[Door]:
    """The application with alice's mailbox of FOLDERS; her home mailbox and bob's hold one mail each."""
    settings = settings_for(data_dir, free_port())
    fill_mirror(settings, "alice", "work", FOLDERS)
    fill_mirror(settings, "alice", "home", [Folder("INBOX", [Mail("At home")])])
    fill_mirror(settings, "bob", "work", [Folder("INBOX", [Mail("For Bob")])])
    with Door(settings) as running:
        yield running


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one with each call that gets a thread."""
    calls: list[str] = []

    async def counted(context: Any, work: Callable[[], Any], limiter: Any) -> Any:
        calls.append("thread")
        return await on_thread(context, work, limiter)

    monkeypatch.setattr("server.tool.on_thread", counted)
    return calls
