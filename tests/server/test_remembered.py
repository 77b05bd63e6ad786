"""What is remembered of messages never shows in an answer: it is that of the mirror, the policy and the name of now."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirror.mirrored import MirroredMessage, State
from mirror.query.reader import Reader
from mirror.query.recent import Recent
from mirror.store import Store
from server.policy import Sight, visible
from server.remembered import Remembered
from tests.server.conftest import FOLDERS
from tests.server.door import ASSISTANT, Door, fill_mirror, settings_for
from tests.servers.ports import free_port

NOW = datetime(2026, 3, 2, tzinfo=UTC)
PROFILES: dict[str, dict[str, object]] = {
    "open": {**ASSISTANT, "content": {"attachments": {}}},
    "bare": {**ASSISTANT, "content": {"bodies": False}},
    "narrow": {**ASSISTANT, "content": {"from_deny": ["carol@*"]}},
    "young": {**ASSISTANT, "content": {"max_age": "1d"}},
    "coded": {**ASSISTANT, "content": {"redact": [{"pattern": "noon", "with": "[time]"}]}},
}


@pytest.fixture
def door(data_dir: Path) -> Iterator[Door]:
    """The application for profiles that see one mailbox differently."""
    settings = settings_for(data_dir, free_port(), profiles=PROFILES)
    fill_mirror(settings, "alice", "work", FOLDERS)
    with Door(settings) as running:
        yield running


def listed(door: Door, profile: str, query: str | None = None) -> list[dict[str, Any]]:
    """What a profile is told of the INBOX, twice the same."""
    caller = door.caller(profile=profile)
    first, second = (caller.call("list_messages", folder="INBOX", query=query).value["messages"] for _ in range(2))
    assert first == second
    assert isinstance(first, list)
    return first


def test_each_profile_is_shown_its_own_view_under_its_own_names(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as forgetful:
        forgetful.setattr(Remembered, "find", lambda *_: None)
        forgetful.setattr(Recent, "of", lambda *_: {})
        alone = {profile: listed(door, profile) for profile in PROFILES}
    for _ in range(2):
        assert {profile: listed(door, profile) for profile in PROFILES} == alone
    uids = [message["uid"] for messages in alone.values() for message in messages]
    assert len(set(uids)) == len(uids)
    assert {message["preview"] for message in alone["bare"]} == {""}
    assert "carol" not in str(alone["narrow"])


@pytest.mark.parametrize("profile", ["open", "bare"])
def test_a_change_of_the_mirror_is_in_the_next_answer(door: Door, profile: str) -> None:
    before = listed(door, profile)
    with closing(Store(door.settings.mirror_dir("alice", "work"))) as store:
        [inbox] = [row.id for row in store.folders() if row.name == "INBOX"]
        with Reader(store.path) as reader:
            _, middle, oldest = reader.page(inbox, None, None, 20).messages
        store.set_flags(oldest.id, ["\\Answered"])
        after = listed(door, profile)
        assert [message["flags"] for message in before] != [message["flags"] for message in after]
        assert after[-1]["flags"] == ["answered"]
        store.remove(inbox, [middle.uid])
    assert [message["uid"] for message in listed(door, profile)] == [before[0]["uid"], before[2]["uid"]]


def message(number: int) -> MirroredMessage:
    """One message."""
    return MirroredMessage(number, "INBOX", 1, number, number, State.TEXT, frozenset(), NOW, 10, subject="hello")


def test_a_message_that_has_grown_too_old_is_not_shown_though_it_was() -> None:
    policy = settings_policy("young")
    seen: Remembered[MirroredMessage | None] = Remembered()
    one = message(1)
    for now in (NOW, NOW + timedelta(hours=23), NOW + timedelta(days=2), NOW):
        assert Sight(policy, now, seen)(one) == visible(one, policy, now)
    assert Sight(policy, NOW + timedelta(days=2), seen)(one) is None


def settings_policy(profile: str) -> Any:
    """The content policy of a profile."""
    return settings_for(Path("/nowhere"), 1, profiles=PROFILES).profiles[profile].content


def test_a_value_is_found_by_the_very_objects_alone() -> None:
    remembered: Remembered[str] = Remembered()
    one, other = message(1), message(1)
    assert one == other
    remembered.keep([((one, "x"), "of one")])
    assert remembered.find((one, "x")) == ("of one",)
    assert remembered.find((other, "x")) is None
    assert remembered.find((one,)) is None


def test_the_oldest_are_forgotten_and_no_more_are_kept_than_allowed() -> None:
    remembered: Remembered[int] = Remembered(most=100)
    messages = [message(number) for number in range(1_000)]
    for each in messages:
        remembered.keep([((each,), each.id)])
    known = [each.id for each in messages if remembered.find((each,)) is not None]
    assert 50 <= len(known) <= 100
    assert known == list(range(1_000))[-len(known) :]

    recent = Recent(most=100)
    snapshot = (object(), 1, 1, False)
    for each in messages:
        recent.keep(snapshot, [each])
    assert list(recent.of(snapshot, range(1_000))) == known


def test_what_one_reader_remembers_is_not_taken_for_what_another_reads(door: Door) -> None:
    path = door.settings.mirror_dir("alice", "work") / "mirror.db"
    recent = Recent()
    with Reader(path, recent=recent) as one, Reader(path, recent=recent) as other:
        [inbox] = [folder.id for folder in one.folders() if folder.name == "INBOX"]
        before = one.page(inbox, None, None, 20).messages
        with closing(Store(path.parent)) as store:
            store.set_flags(before[0].id, ["\\Deleted"])
        assert other.page(inbox, None, None, 20).messages[0].flags == {"\\Deleted"}
        assert one.page(inbox, None, None, 20).messages[0].flags == {"\\Deleted"}
        assert [each.text_octets for each in one.page(inbox, None, None, 20, octets=False).messages] == [0, 0, 0]
        assert 0 not in [each.text_octets for each in one.page(inbox, None, None, 20).messages]
