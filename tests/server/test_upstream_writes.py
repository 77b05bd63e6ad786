"""Flags and downloads against a real Dovecot, through the web application, over a mirror that a real pass made."""

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from config.identity import Settings
from mirror.query.reader import Reader
from server.live import InForce
from server.passes import sync_now
from tests.server.door import ASSISTANT, Caller, Door, Mail, settings_for
from tests.server.test_relay import uid_of
from tests.servers.dovecot import Dovecot
from tests.servers.ports import free_port
from tests.servers.second_client import Incoming, SecondClient

PDF = b"%PDF-1.7\n" + os.urandom(300_000)
MAILS = [
    Mail("first", flags=("\\Seen", "$Label1")),
    Mail(
        "attached",
        minutes=1,
        attachments=(
            ("R\u00e9sum\u00e9 2026.pdf", "application/pdf", PDF),
            ("page.html", "text/html", b"<script>alert(1)</script>"),
            ("note.txt", "text/plain", "Zw\u00f6lf Uhr\n".encode() * 40),
            ("drawing.svg", "image/svg+xml", b"<svg/>"),
        ),
    ),
    Mail("third", minutes=2),
]
TEXT_ONLY = {**ASSISTANT, "content": {"attachments": {"types": ["text/plain"], "max_size": 100}}}
NO_FILES = {**ASSISTANT, "content": {}}
HIDING = {**ASSISTANT, "content": {"attachments": {}, "subject_deny": ["attached"]}}
BLIND = {"folders": [{"match": "Sent", "access": "write"}], "content": {"attachments": {}}}
READER = {**ASSISTANT, "folders": [{"match": "*", "access": "read"}]}


@pytest.fixture
def door(dovecot: Dovecot, user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """The application over MAILS in Dovecot's INBOX, mirrored."""
    monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", dovecot.password)
    settings = settings_for(
        data_dir,
        free_port(),
        imap_port=dovecot.port,
        username=user,
        password={"env": "POSTMIRROR_TEST_PASSWORD"},
        sync={"attachments": {"max_size": 10_000}},
        profiles={
            "assistant": ASSISTANT,
            "text_only": TEXT_ONLY,
            "no_files": NO_FILES,
            "hiding": HIDING,
            "blind": BLIND,
            "reader": READER,
        },
    )
    with dovecot.client(user) as client:
        client.append("INBOX", *(Incoming(mail.raw, mail.flags, mail.received) for mail in MAILS))
    assert [outcome.error for outcome in sync_now(settings, ["alice/work"])] == [""]
    with Door(settings) as running:
        yield running


@pytest.fixture
def second_client(dovecot: Dovecot, user: str, door: Door) -> Iterator[SecondClient]:
    """Another mail program on the same mailbox."""
    with dovecot.client(user) as client:
        yield client


def flags_of(client: SecondClient, mail: Mail) -> frozenset[str]:
    """The flags of a mail upstream."""
    digest = hashlib.sha256(mail.raw).hexdigest()
    return next(each.flags for each in client.listing("INBOX") if each.sha256 == digest)


def change(caller: Caller, subject: str, action: str, *flags: str) -> list[str]:
    """The flags that the tool says a message has after a change."""
    answer = caller.call(
        "update_message_flags", folder="INBOX", uid=uid_of(caller, subject), flags=list(flags), action=action
    )
    return [str(flag) for flag in answer.value["flags"]]


def listed_flags(caller: Caller, subject: str) -> list[str]:
    """The flags that the very next list shows."""
    messages = caller.call("list_messages", folder="INBOX").value["messages"]
    return next(list(each["flags"]) for each in messages if each["subject"] == subject)


@pytest.mark.parametrize("step", ["__init__", "set_flags"])
def test_a_flag_that_only_the_mirror_could_not_write_down_is_changed(
    door: Door, second_client: SecondClient, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    caller = door.caller()
    uid = uid_of(caller, "third")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(f"mirror.store.Store.{step}", full)
    answer = caller.call("update_message_flags", folder="INBOX", uid=uid, flags=["flagged"], action="add").value
    assert answer["flags"] == ["flagged"]
    assert "mirror" in answer["note"]
    assert "\\Flagged" in flags_of(second_client, MAILS[2])


def test_a_flag_is_set_upstream_and_shown_by_the_very_next_list(door: Door, second_client: SecondClient) -> None:
    caller = door.caller()
    assert change(caller, "third", "add", "seen", "flagged") == ["seen", "flagged"]
    assert flags_of(second_client, MAILS[2]) == {"\\Seen", "\\Flagged"}
    assert listed_flags(caller, "third") == ["seen", "flagged"]
    assert change(caller, "third", "remove", "seen") == ["flagged"]
    assert flags_of(second_client, MAILS[2]) == {"\\Flagged"}
    assert listed_flags(caller, "third") == ["flagged"]


def test_changing_flags_is_idempotent_and_leaves_other_flags_alone(door: Door, second_client: SecondClient) -> None:
    caller = door.caller()
    for _ in range(2):
        assert change(caller, "first", "add", "answered") == ["seen", "answered"]
    for _ in range(2):
        assert change(caller, "first", "remove", "flagged") == ["seen", "answered"]
    assert flags_of(second_client, MAILS[0]) == {"\\Seen", "\\Answered", "$Label1"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"flags": []},
        {"flags": ["\\Seen"]},
        {"flags": ["deleted"]},
        {"flags": ["$Label1"]},
        {"flags": ["Seen"]},
        {"flags": ["seen"] * 4},
        {"action": "set"},
        {"action": None},
    ],
)
def test_only_three_flags_and_two_actions_are_taken(door: Door, arguments: dict[str, object]) -> None:
    caller = door.caller()
    asked = {"folder": "INBOX", "uid": uid_of(caller, "third"), "flags": ["seen"], "action": "add", **arguments}
    answer = caller.call("update_message_flags", **asked)
    assert answer.is_error
    assert f'"{next(iter(arguments))}' in answer.text


def test_a_read_only_folder_is_an_error_and_nothing_reaches_upstream(
    door: Door, second_client: SecondClient, dovecot: Dovecot
) -> None:
    caller = door.caller(profile="reader")
    logins = dovecot.log().count("Login:")
    answer = caller.call(
        "update_message_flags", folder="INBOX", uid=uid_of(caller, "third"), flags=["seen"], action="add"
    )
    assert answer.is_error
    assert "read only" in answer.text
    assert flags_of(second_client, MAILS[2]) == frozenset()
    assert dovecot.log().count("Login:") == logins


def test_reading_leaves_seen_unset_upstream(door: Door, second_client: SecondClient) -> None:
    caller = door.caller()
    message = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "attached")).value
    assert caller.get(message["attachments"][0]["url"]).status_code == 200
    assert flags_of(second_client, MAILS[1]) == frozenset()


def test_a_message_that_was_replaced_upstream_is_not_flagged(door: Door, second_client: SecondClient) -> None:
    caller = door.caller()
    uid = uid_of(caller, "third")
    second_client.expunge("INBOX", second_client.uids("INBOX")[2:])
    second_client.append("INBOX", Mail("other").raw)
    answer = caller.call("update_message_flags", folder="INBOX", uid=uid, flags=["flagged"], action="add")
    assert answer.is_error
    assert "no longer has this message" in answer.text
    assert all("\\Flagged" not in each.flags for each in second_client.listing("INBOX"))


def test_a_folder_made_anew_is_not_written_to(door: Door, second_client: SecondClient) -> None:
    """Same name, same uids, another UIDVALIDITY: the mirror's uids mean nothing there."""
    second_client.create("Work")
    second_client.append("Work", Incoming(MAILS[2].raw, (), MAILS[2].received))
    sync_now(door.settings, ["alice/work"])
    caller = door.caller()
    uid = uid_of(caller, "third", "Work")
    second_client.examine("INBOX")
    second_client.delete("Work")
    second_client.create("Work")
    second_client.append("Work", Incoming(MAILS[0].raw, (), MAILS[0].received))
    answer = caller.call("update_message_flags", folder="Work", uid=uid, flags=["flagged"], action="add")
    assert answer.is_error
    assert [each.flags for each in second_client.listing("Work")] == [frozenset()]


def test_offline_reads_go_on_and_writes_fail_within_5_seconds(door: Door, dovecot: Dovecot) -> None:
    caller = door.caller()
    message = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "attached")).value
    assert change(caller, "third", "add", "seen") == ["seen"]
    dovecot.stop()
    assert caller.call("search_messages", folder="INBOX", query="subject third").value["as_of"]
    began = time.monotonic()
    answer = caller.call(
        "update_message_flags", folder="INBOX", uid=uid_of(caller, "third"), flags=["flagged"], action="add"
    )
    fetched, _, kept, _ = [caller.get(each["url"]) for each in message["attachments"]]
    assert time.monotonic() - began < 5
    assert answer.is_error
    assert "cannot be reached" in answer.text
    assert listed_flags(caller, "third") == ["seen"]
    assert fetched.status_code == 503
    assert "cannot be reached" in fetched.json()["error_description"]
    assert kept.content == MAILS[1].attachments[2][2]
    dovecot.start()
    assert change(caller, "third", "add", "flagged") == ["seen", "flagged"]


def test_a_session_that_died_while_unused_is_opened_again(door: Door, dovecot: Dovecot) -> None:
    caller = door.caller()
    change(caller, "third", "add", "seen")
    dovecot.restart()
    assert change(caller, "third", "add", "flagged") == ["seen", "flagged"]


def test_one_session_serves_many_writes_and_is_closed_when_unused(
    door: Door, dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.upstreams.KEPT_SECONDS", 0.5)
    caller = door.caller()
    before = dovecot.log().count("Login:")
    for _ in range(3):
        change(caller, "third", "add", "seen")
    assert dovecot.log().count("Login:") == before + 1
    deadline = time.monotonic() + 10
    while any(session.upstream for session in door.parts.upstreams._sessions.values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def downloads(caller: Caller) -> dict[str, httpx2.Response]:
    """Every attachment of the message that has some, by the name shown."""
    message = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "attached")).value
    return {each["filename"]: caller.get(each["url"]) for each in message["attachments"]}


def test_attachments_arrive_byte_for_byte_under_safe_headers(door: Door) -> None:
    found = downloads(door.caller())
    assert {name: hashlib.sha256(answer.content).hexdigest() for name, answer in found.items()} == {
        name: hashlib.sha256(data).hexdigest() for name, _, data in MAILS[1].attachments
    }
    assert [answer.headers["Content-Type"].partition(";")[0] for answer in found.values()] == [
        "application/pdf",
        "application/octet-stream",
        "text/plain",
        "application/octet-stream",
    ]
    for answer in found.values():
        assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    pdf = found["R\u00e9sum\u00e9 2026.pdf"]
    assert pdf.headers["Content-Disposition"].endswith("filename*=UTF-8''R%C3%A9sum%C3%A9%202026.pdf")
    assert int(pdf.headers["Content-Length"]) == len(PDF)


@pytest.mark.parametrize("name", ["R\u00e9sum\u00e9 2026.pdf", "note.txt"])
def test_a_range_of_an_attachment_is_served_alone(door: Door, name: str) -> None:
    caller = door.caller()
    data = next(data for filename, _, data in MAILS[1].attachments if filename == name)
    message = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "attached")).value
    url = next(each["url"] for each in message["attachments"] if each["filename"] == name)
    for asked, expected in (("bytes=5-9", data[5:10]), ("bytes=7-", data[7:]), ("bytes=-3", data[-3:])):
        answer = caller.get(url, Range=asked)
        assert (answer.status_code, answer.content) == (206, expected)
        start = data.rindex(expected) if asked.startswith("bytes=-") else int(asked[6])
        assert answer.headers["Content-Range"] == f"bytes {start}-{start + len(expected) - 1}/{len(data)}"
    beyond = caller.get(url, Range=f"bytes={len(data)}-")
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, f"bytes */{len(data)}")
    for whole in ("bytes=0-1,3-4", "lines=1-2", "bytes=-", "bytes=9-5"):
        assert caller.get(url, Range=whole).content == data


def test_a_download_counts_among_the_octets_of_the_day(door: Door) -> None:
    caller = door.caller()
    message = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "attached")).value
    assert caller.get(next(each["url"] for each in message["attachments"])).status_code == 200
    with Reader(door.settings.mirror_dir("alice", "work") / "mirror.db") as reader:
        assert reader.account().bytes_today >= len(PDF)


def test_no_token_but_the_right_one_opens_a_download(door: Door) -> None:
    caller = door.caller()
    message = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "attached")).value
    path = f"/attachments/{message['attachments'][0]['id']}"
    others = [
        door.caller(provider="home"),
        door.caller("bob"),
        door.caller(profile="hiding"),
        door.caller(profile="blind"),
        door.caller(profile="no_files"),
    ]
    answers = [other.get(path) for other in others]
    answers += [caller.get(f"/attachments/{word}") for word in ("x", "A" * 60, path[13:-1], path[13:] + "A", "%00")]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert door.http.get(door.url + path).status_code == 401
    assert caller.get(path).status_code == 200


@pytest.mark.parametrize("profile", ["text_only", "no_files", "hiding", "blind"])
def test_the_policy_is_checked_again_at_the_download(door: Door, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the policy had been narrowed after the link was given out."""
    wide = door.caller(profile=profile)
    settings = door.settings
    narrow = settings.profiles[profile]
    opened = settings.model_copy(update={"profiles": {**settings.profiles, profile: settings.profiles["assistant"]}})
    use(door, opened, monkeypatch)
    urls = [
        each["url"]
        for each in wide.call("read_message", folder="INBOX", uid=uid_of(wide, "attached")).value["attachments"]
    ]
    assert [wide.get(url).status_code for url in urls] == [200] * 4
    use(door, settings, monkeypatch)
    assert narrow == settings.profiles[profile]
    assert {wide.get(url).status_code for url in urls} == {404}


def use(door: Door, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a configuration in force."""
    monkeypatch.setattr(door.live, "_in_force", InForce(settings, hashlib.sha256(repr(settings).encode()).digest()))


def test_a_message_gone_upstream_is_not_found(door: Door, second_client: SecondClient) -> None:
    caller = door.caller()
    message = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "attached")).value
    second_client.expunge("INBOX", second_client.uids("INBOX")[1:2])
    gone = caller.get(message["attachments"][0]["url"])
    assert (gone.status_code, gone.content) == (404, caller.get("/attachments/x").content)
