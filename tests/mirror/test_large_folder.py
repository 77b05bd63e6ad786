"""A folder of hundreds of thousands of messages: lines and uid lists that are refused, and idle passes."""

# ruff: noqa: T201 - the long run prints its figures

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from config.provider import Provider, SyncRule
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, counted_pass, provider_at
from tests.servers.dovecot import Dovecot

MakeMirror = Callable[[Provider], Mirror]
UNFETCHED = SyncRule.model_validate({"since": "2024-01-01", "interval": "10m"})
"""Everything is listed, what is older is not fetched."""


@pytest.mark.parametrize("count", [5_000, pytest.param(246_410, marks=pytest.mark.soak)])
@pytest.mark.parametrize("server", ["dovecot", "dovecot_plain_rung"])
def test_folder_of_any_size_is_listed_and_costs_nothing_when_nothing_is_new(
    request: pytest.FixtureRequest, server: str, count: int, user: str, password_file: Path, make_mirror: MakeMirror
) -> None:
    dovecot: Dovecot = request.getfixturevalue(server)
    # Uids with gaps: a list of them cannot be written as a range.
    uids = range(1, 3 * count, 3)
    dovecot.fill(user, simple("one of very many"), uids)
    mirror = make_mirror(provider_at(dovecot.port, user, password_file, sync=UNFETCHED))
    began = time.monotonic()
    first = counted_pass(mirror)
    print(f"\n{count} messages on {server}: {time.monotonic() - began:.1f} s, {len(first.commands)} commands", end="")
    assert first.report.complete
    inbox = next(folder.id for folder in mirror.store.folders() if folder.name == "INBOX")
    assert mirror.store.uids(inbox) == set(uids)
    assert max(map(len, first.commands)) < 9_000

    with dovecot.client(user) as client:
        client.append("INBOX", simple("the new one"))
        client.expunge("INBOX", uids[10:12])
    assert counted_pass(mirror).report.work == 3
    assert mirror.store.count(inbox) == count - 1

    began = time.monotonic()
    idle = counted_pass(mirror)
    print(f"; idle {time.monotonic() - began:.2f} s, {len(idle.commands)} commands")
    assert not idle.fetched
    assert not idle.written
    # One STATUS, or what LIST gives along; nothing that answers with every message.
    assert sum(b'STATUS "INBOX"' in command for command in idle.commands) <= 1
    assert not [command for command in idle.commands if b"SEARCH" in command]
    for command in idle.commands:
        if asked := re.search(rb"UID FETCH (\d+):(\d+)", command):
            assert int(asked[2]) - int(asked[1]) <= 3 * 400
