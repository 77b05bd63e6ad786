"""Reads that are over within milliseconds are served where the request came in; the others get a thread."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirror.query.reader import Reader
from server import brief_call
from server.audit.report import tail
from tests.processes import until
from tests.server.door import ASSISTANT, Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port

QUERIES = ["body word", "body word order by subject", "from bob", "not flag seen", "body missing"]


@pytest.fixture
def door(data_dir: Path) -> Iterator[Door]:
    """The application over 50 mails, for an open profile, one that hides a sender, and one that rewrites texts."""
    redacted = {**ASSISTANT, "content": {"redact": ["one_time_codes"]}}
    gateway = {**ASSISTANT, "tools": "gateway"}
    restricted = {**ASSISTANT, "content": {"from_deny": ["eve@*"]}}
    profiles = {"assistant": ASSISTANT, "restricted": restricted, "redacted": redacted, "gateway": gateway}
    settings = settings_for(data_dir, free_port(), profiles=profiles)
    senders = ("bob@example.org", "eve@example.org")
    mails = [Mail(f"subject {each}", senders[each % 2], text=f"word {each}", minutes=each) for each in range(50)]
    fill_mirror(settings, "alice", "work", [Folder("INBOX", mails)])
    with Door(settings) as door:
        yield door


def answers(door: Door, profile: str) -> list[object]:
    """What the reading tools say to a profile."""
    caller = door.caller(profile=profile)
    first = caller.call("list_messages", folder="INBOX").value
    more = caller.call("list_messages", folder="INBOX", cursor=first["next_cursor"]).value
    uids = [message["uid"] for message in first["messages"][:3]]
    return [
        first,
        more,
        caller.call("list_folders").value,
        caller.call("read_message", folder="INBOX", uid=uids[0]).value,
        caller.call("read_messages", folder="INBOX", uids=uids).value,
        *(caller.call("search_messages", folder="INBOX", query=query).value for query in QUERIES),
    ]


@pytest.mark.parametrize("profile", ["assistant", "restricted"])
def test_reads_need_no_thread_once_the_mirror_is_open(
    door: Door, on_threads: list[str], monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    monkeypatch.setattr("server.brief_call.BRIEF_SECONDS", 60.0)
    answers(door, profile)
    on_threads.clear()
    answers(door, profile)
    assert on_threads == []


def test_texts_are_rewritten_on_a_thread(door: Door, on_threads: list[str]) -> None:
    answers(door, "redacted")
    on_threads.clear()
    answers(door, "redacted")
    assert len(on_threads) == 5 + len(QUERIES)


@pytest.mark.parametrize("profile", ["assistant", "restricted"])
def test_a_read_whose_time_is_up_is_answered_whole_by_a_thread(
    door: Door, on_threads: list[str], monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    expected = answers(door, profile)
    on_threads.clear()
    monkeypatch.setattr("mirror.query.progress._INSTRUCTIONS", 1)
    monkeypatch.setattr("server.mailbox.time_left", lambda: brief_call.time_left() and 1e-9)
    assert answers(door, profile) == expected
    assert len(on_threads) >= len(QUERIES)


def test_folders_of_a_changed_mirror_are_counted_by_a_thread_when_that_takes_long(
    door: Door, on_threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = door.caller()
    expected = caller.call("list_folders").value
    monkeypatch.setattr("mirror.query.progress._INSTRUCTIONS", 1)
    monkeypatch.setattr("server.mailbox.time_left", lambda: brief_call.time_left() and 1e-9)
    on_threads.clear()
    with closing(sqlite3.connect(door.settings.mirror_dir("alice", "work") / "mirror.db")) as changing:
        changing.execute("UPDATE mirror SET report = '{} '")
        changing.commit()
    assert caller.call("list_folders").value == expected
    assert on_threads == ["thread"]


@pytest.mark.parametrize(("limit", "threads"), [(100, []), (101, ["thread"])])
def test_a_long_page_is_loaded_by_a_thread(
    door: Door, on_threads: list[str], monkeypatch: pytest.MonkeyPatch, limit: int, threads: list[str]
) -> None:
    monkeypatch.setattr("server.brief_call.BRIEF_SECONDS", 60.0)
    monkeypatch.setattr("server.relay.PAGE", limit)
    caller = door.caller()
    caller.call("list_messages", folder="INBOX")
    on_threads.clear()
    assert len(caller.call("list_messages", folder="INBOX").value["messages"]) == 50
    assert on_threads == threads


def test_reading_of_many_texts_goes_on_by_a_thread_when_the_first_took_long(
    door: Door, on_threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = door.caller()
    uids = [message["uid"] for message in caller.call("list_messages", folder="INBOX").value["messages"][:3]]
    expected = caller.call("read_messages", folder="INBOX", uids=uids).value
    begun: list[str] = []

    def time_left() -> float | None:
        begun.append("text")
        if len(begun) == 2:
            brief_call.will_take_long()
        return brief_call.time_left()

    monkeypatch.setattr("server.brief_call.BRIEF_SECONDS", 60.0)
    monkeypatch.setattr("server.reading.time_left", time_left)
    on_threads.clear()
    assert caller.call("read_messages", folder="INBOX", uids=uids).value == expected
    assert (len(begun), on_threads) == (2 + 3, ["thread"])


def test_reads_need_no_thread_while_the_first_pass_of_a_mirror_goes_on(
    door: Door, on_threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.brief_call.BRIEF_SECONDS", 60.0)
    with closing(sqlite3.connect(door.settings.mirror_dir("alice", "work") / "mirror.db")) as changing:
        changing.execute("UPDATE mirror SET pass_ended_at = 0")
        changing.commit()
    caller = door.caller(profile="gateway")
    [uid] = json.loads(caller.call("search_emails", account="work", limit=1).text)["message_ids"]
    on_threads.clear()
    assert not caller.call("list_folders", account="work").is_error
    assert not caller.call("get_email", account="work", message_id=uid).is_error
    assert on_threads == []


def test_a_read_that_is_begun_twice_is_one_line_of_the_audit_log(
    door: Door, on_threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = door.caller()
    monkeypatch.setattr("server.brief_call.BRIEF_SECONDS", 0.0)
    caller.call("search_messages", folder="INBOX", query="body word")
    assert on_threads == ["thread"]

    caller.call("list_folders")

    def tools() -> list[str]:
        return [line["tool"] for line in tail(door.settings.server.data_dir / "audit", 100) if line["event"] == "tool"]

    until(lambda: "list_folders" in tools())
    assert tools() == ["search_messages", "list_folders"]


def test_a_read_that_is_declined_leaves_its_connection_to_the_next(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = door.caller()
    caller.call("list_messages", folder="INBOX")
    opened: list[Path] = []

    class Counted(Reader):
        def __init__(self, path: Path) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr("server.mirrors.Reader", Counted)
    for _ in range(3):
        assert caller.call("read_message", folder="INBOX", uid="x" * 22).is_error
        assert caller.call("list_messages", folder="Nowhere").is_error
        assert caller.call("search_messages", folder="INBOX", query="((").is_error
    assert opened == []
