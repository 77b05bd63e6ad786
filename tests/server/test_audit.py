"""The audit log: what is in it, what is never in it, and what becomes of a log that somebody touched."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.identity import AuditRule
from server.audit.chain import Chain
from server.audit.log import Audit, AuditUnwritable
from server.audit.report import tail, verify
from server.key import DataKey, load_key, replace_key
from tests.processes import until
from tests.server.door import Door


@pytest.fixture
def chain(data_dir: Path) -> Chain:
    return Chain(data_dir, DataKey(data_dir), 100_000, 3)


@pytest.fixture
def audit(data_dir: Path) -> Iterator[Audit]:
    opened = Audit(data_dir, DataKey(data_dir), AuditRule())
    yield opened
    opened.close()


def events(data_dir: Path) -> list[dict[str, object]]:
    """What is in the log, but for the lines that the log writes about itself."""
    return [each for each in tail(data_dir / "audit", 100_000) if each["event"] != "audit"]


def fill(chain: Chain, lines: int = 10, at_once: int = 5) -> None:
    """That many lines, a few at a time."""
    for number in range(0, lines, at_once):
        chain.append([{"event": "tool", "outcome": "done", "number": each} for each in range(number, number + at_once)])


def last_file(chain: Chain) -> Path:
    return max(chain.folder.glob("*.jsonl"))


def test_a_log_that_nobody_touched_is_whole(chain: Chain, data_dir: Path) -> None:
    assert verify(chain).problems == ()
    fill(chain)
    verdict = verify(chain)
    assert (verdict.lines, verdict.files, verdict.problems) == (11, 1, ())
    assert [each["number"] for each in events(data_dir)] == list(range(10))


def changed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b'"done"', b'"none"'), *lines[5:]]


@pytest.mark.parametrize(
    "touch",
    [
        changed,
        lambda lines: lines[:4] + lines[5:],
        lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
        lambda lines: [*lines[:5], lines[4], *lines[5:]],
        lambda lines: lines[1:],
        lambda lines: lines[:-1],
        lambda lines: lines[:1],
        lambda lines: [*lines, b'{"seq":12,"event":"tool","mac":"' + b"0" * 64 + b'"}\n'],
        lambda lines: [],
    ],
    ids=["changed", "removed", "swapped", "repeated", "first gone", "last gone", "all gone", "added", "emptied"],
)
def test_an_edit_is_found(chain: Chain, touch: Callable[[list[bytes]], list[bytes]]) -> None:
    fill(chain)
    path = last_file(chain)
    path.write_bytes(b"".join(touch(path.read_bytes().splitlines(keepends=True))))
    assert verify(chain).problems
    fill(chain)
    assert verify(chain).problems, "writing on does not heal it"


@pytest.mark.parametrize("which", [0, 1, 2], ids=["oldest", "middle", "newest"])
def test_a_file_that_is_gone_is_found(chain: Chain, which: int) -> None:
    fill(chain, 1_600, 50)
    files = sorted(chain.folder.glob("*.jsonl"))
    assert len(files) == 3
    assert verify(chain).problems == ()
    files[which].unlink()
    assert verify(chain).problems


def test_a_lost_head_is_found_and_the_chain_goes_on(chain: Chain) -> None:
    fill(chain)
    (chain.folder / "head").unlink()
    assert "head" in verify(chain).problems[0]
    fill(chain)
    assert verify(chain).problems == ()
    assert {"audit": "head_lost"} in [{each["event"]: each["outcome"]} for each in tail(chain.folder, 100)]


def test_old_files_go_and_the_rest_is_whole(chain: Chain) -> None:
    fill(chain, 3_000, 50)
    assert len(list(chain.folder.glob("*.jsonl"))) == 3
    assert verify(chain).problems == ()
    assert all(path.stat().st_size < 110_000 for path in chain.folder.glob("*.jsonl"))


def test_the_chain_goes_on_under_a_new_key(chain: Chain, data_dir: Path) -> None:
    fill(chain)
    for _ in range(2):
        with chain.locked():
            replace_key(data_dir, chain.remember)
            chain.forget()
        fill(chain)
    verdict = verify(chain)
    assert (verdict.lines, verdict.files, verdict.problems) == (33, 3, ())


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("at", ["_draft", "replace", "sync_folder"])
def test_a_rotation_that_is_killed_anywhere_leaves_the_old_key_or_the_new_one(
    chain: Chain, data_dir: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    fill(chain)
    old = load_key(data_dir)

    def die(*_: object) -> None:
        raise Killed

    if at == "replace":
        monkeypatch.setattr(Path, "replace", die)
    else:
        monkeypatch.setattr(f"server.key.{at}", die)
    with pytest.raises(Killed), chain.locked():
        replace_key(data_dir, chain.remember)
    monkeypatch.undo()
    assert (load_key(data_dir) == old) == (at != "sync_folder")
    again = Chain(data_dir, DataKey(data_dir), 100_000, 3)
    fill(again)
    assert verify(again).problems == ()
    with again.locked():
        replace_key(data_dir, again.remember)
        again.forget()
    fill(again)
    assert verify(again).problems == ()
    assert list(data_dir.glob("key.*")) == []
    assert {path.stat().st_mode & 0o777 for path in data_dir.glob("key*")} == {0o600}


WRITER = """
import sys
from pathlib import Path
from server.audit.chain import Chain
from server.key import DataKey, replace_key
data_dir = Path(sys.argv[1])
chain = Chain(data_dir, DataKey(data_dir), 100_000, 1000)
print("ready", flush=True)
number = 0
while True:
    chain.append([{"event": "tool", "outcome": "done", "writer": int(sys.argv[2]), "number": number}])
    number += 1
    if number % 50 == 0 and sys.argv[3:] == ["rotate"]:
        with chain.locked():
            replace_key(data_dir, chain.remember)
            chain.forget()
"""


def writer(data_dir: Path, number: int, *more: str) -> subprocess.Popen[bytes]:
    """A process that appends until it is killed."""
    command = [sys.executable, "-c", WRITER, str(data_dir), str(number), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_processes_that_are_killed_leave_one_whole_chain(chain: Chain, data_dir: Path) -> None:
    for attempt in range(4):
        processes = [writer(data_dir, 2 * attempt), writer(data_dir, 2 * attempt + 1, "rotate")]
        enough = len(events(data_dir)) + 120
        until(lambda enough=enough: len(events(data_dir)) >= enough)  # type: ignore[misc]  # a lambda bound in a loop
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert verify(chain).problems == ()
        load_key(data_dir)
        assert len(list(data_dir.glob("key.*"))) <= 1
    by_writer: dict[object, list[object]] = {}
    for event in events(data_dir):
        by_writer.setdefault(event["writer"], []).append(event["number"])
    assert all(numbers == list(range(len(numbers))) for numbers in by_writer.values())


def test_a_torn_last_line_is_dropped_and_whole_ones_are_kept(chain: Chain, data_dir: Path) -> None:
    fill(chain)
    head = (chain.folder / "head").read_bytes()
    fill(chain, 5)
    (chain.folder / "head").write_bytes(head)
    with last_file(chain).open("ab") as file:
        file.write(b'{"seq":17,"ev')
    assert verify(chain).problems == ()
    fill(chain, 5)
    verdict = verify(chain)
    assert (verdict.lines, verdict.problems) == (21, ())


def test_notes_are_written_a_moment_later_and_records_at_once(audit: Audit, data_dir: Path) -> None:
    audit.note("tool", "done", chars=3)
    audit.record("send", "begun")
    assert [each["event"] for each in events(data_dir)] == ["tool", "send"]
    audit.note("tool", "declined")
    until(lambda: len(events(data_dir)) == 3)


def test_a_log_that_cannot_be_written_refuses_records_keeps_notes_and_heals(audit: Audit, data_dir: Path) -> None:
    audit.record("send", "begun")
    folder = data_dir / "audit"
    folder.rename(data_dir / "elsewhere")
    folder.write_text("no folder")
    with pytest.raises(AuditUnwritable):
        audit.record("send", "begun", number=2)
    assert not audit.is_well
    audit.note("tool", "done")
    folder.unlink()
    (data_dir / "elsewhere").rename(folder)
    until(lambda: audit.is_well)
    until(lambda: "tool" in [each["event"] for each in events(data_dir)])
    assert [each["event"] for each in events(data_dir)] == ["send", "tool"]


def test_whoever_tries_tokens_cannot_fill_the_disk(audit: Audit, data_dir: Path) -> None:
    for number in range(5_000):
        audit.failed_authentication(f"192.0.2.{number % 250}")
    audit.close()
    lines = events(data_dir)
    assert len(lines) == 11
    assert lines[-1]["times"] == 4_990


def test_every_file_is_for_its_owner_only(audit: Audit, data_dir: Path) -> None:
    audit.record("send", "begun")
    assert {os.stat(path).st_mode & 0o777 for path in (data_dir / "audit").iterdir()} == {0o600}
    assert os.stat(data_dir / "audit").st_mode & 0o777 == 0o700


def test_calls_refusals_and_downloads_are_in_the_log_and_no_mail_is(door: Door, data_dir: Path) -> None:
    secret = door.token("alice", "assistant", "work")
    caller = door.caller()
    page = caller.call("search_messages", folder="INBOX", query="body report").value
    uid = page["messages"][0]["uid"]
    read = caller.call("read_message", folder="INBOX", uid=uid).value
    assert caller.get(read["attachments"][0]["url"]).status_code == 503
    caller.call("read_message", folder="Secret plans", uid=uid)
    caller.call("send_message", from_="alice@example.org", to=["mallory@example.org"], subject="s3cret", body="b0dy")
    caller.call("update_message_flags", folder="Sent", uid=uid, flags=["seen"], action="add")
    caller.call("nothing", word="s3cret")
    until(lambda: len(events(data_dir)) >= 7)
    told = [(each["event"], each["outcome"], each.get("rule")) for each in events(data_dir)]
    assert told == [
        ("tool", "done", None),
        ("tool", "done", None),
        ("download", "failed", None),
        ("tool", "declined", None),
        ("tool", "denied", "to_allow, to_deny"),
        ("tool", "denied", "folders.access"),
        ("tool", "unknown", None),
    ]
    assert events(data_dir)[0]["messages"] == 1
    written = b"".join(path.read_bytes() for path in (data_dir / "audit").iterdir())
    for never in (secret, uid, "report", "s3cret", "b0dy", "Secret", "mallory", "bob@example.org"):
        assert never.encode() not in written, never


def test_without_the_log_nothing_is_sent_or_changed_and_reads_go_on(door: Door, data_dir: Path) -> None:
    caller = door.caller()
    uid = caller.call("list_messages", folder="INBOX").value["messages"][0]["uid"]
    (data_dir / "audit").rename(data_dir / "elsewhere")
    (data_dir / "audit").write_text("no folder")
    sent = caller.call("send_message", from_="alice@example.org", to=["bob@example.org"], subject="x", body="y")
    assert "audit log cannot be written" in sent.text
    flagged = caller.call("update_message_flags", folder="INBOX", uid=uid, flags=["seen"], action="add")
    assert "audit log cannot be written" in flagged.text
    assert caller.call("read_message", folder="INBOX", uid=uid).value["uid"] == uid
    assert door.http.get(f"{door.url}/healthz").json() == {"status": "degraded"}
    assert door.state.submissions() == []
    assert "no folder" not in json.dumps(sent.result)
