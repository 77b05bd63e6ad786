"""What one token was given is worth nothing to another, and nothing that was made up is worth anything."""

import json
import random
import string
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.gateway.accounts import NO_MESSAGE as NO_SUCH_MESSAGE
from server.relay import BAD_CURSOR, NO_MESSAGE
from tests.server.door import ASSISTANT, Caller, Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port

MAILBOXES = [("alice", "work"), ("alice", "home"), ("bob", "work")]
PROFILES: dict[str, dict[str, object]] = {
    "assistant": ASSISTANT,
    "reader": {"folders": [{"match": "*", "access": "read"}], "content": {"attachments": {}}},
    "recent": {"folders": [{"match": "*", "access": "read"}], "content": {"max_age": "9000d", "attachments": {}}},
    "signing": {
        "folders": [{"match": "*", "access": "write"}],
        "content": {"attachments": {}, "attachment_links": "signed"},
    },
    "filtered": {
        "folders": [{"match": "*", "access": "read"}],
        "content": {"from_deny": ["*@nowhere.example"], "attachments": {}},
    },
}
MAILS = [Mail(f"Mail {each}", minutes=each) for each in range(24)]
WITH_ATTACHMENT = Mail("Report", minutes=100, attachments=(("report.pdf", "application/pdf", b"%PDF"),))


@dataclass(frozen=True, slots=True)
class Given:
    """What one token was given."""

    caller: Caller
    owner: str
    uids: list[str]
    cursor: str
    attachment: str
    url: str
    signed: str


def given(caller: Caller, owner: str) -> Given:
    """Ask for one of each."""
    page = caller.call("list_messages", folder="INBOX").value
    uids = [message["uid"] for message in page["messages"]]
    [attachment] = caller.call("read_message", folder="INBOX", uid=uids[0]).value["attachments"]
    return Given(
        caller, owner, uids, page["next_cursor"], attachment["id"], attachment["url"], attachment.get("signed_url", "")
    )


@pytest.fixture
def site(data_dir: Path) -> Iterator[Door]:
    settings = settings_for(data_dir, free_port(), profiles=PROFILES)
    for user, provider in MAILBOXES:
        fill_mirror(settings, user, provider, [Folder("INBOX", [*MAILS, WITH_ATTACHMENT])])
    with Door(settings) as door:
        yield door


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_nothing_given_to_one_token_is_of_use_with_another(site: Door, every: int) -> None:
    tokens = [
        given(site.caller(user, profile, provider), f"{user}/{provider}/{profile}")
        for user, provider in MAILBOXES
        for profile in PROFILES
    ]
    assert len(tokens) == 15
    for owner in tokens[::every]:
        for other in tokens:
            if other is owner:
                continue
            caller = other.caller
            errors = {
                caller.call("read_message", folder="INBOX", uid=owner.uids[0]).text,
            }
            if "signing" in other.owner or "assistant" in other.owner:
                flags = {"flags": ["seen"], "action": "add"}
                errors.add(caller.call("update_message_flags", folder="INBOX", uid=owner.uids[0], **flags).text)
            assert errors == {NO_MESSAGE}, (owner.owner, other.owner)
            read = caller.call("read_messages", folder="INBOX", uids=owner.uids).value["messages"]
            assert [each["error"] for each in read] == [NO_MESSAGE] * len(owner.uids)
            assert caller.call("list_messages", folder="INBOX", cursor=owner.cursor).text == BAD_CURSOR
            downloads = [caller.get(path) for path in (owner.url, f"/attachments/{owner.cursor}")]
            if owner.signed:
                downloads.append(caller.get(f"/attachments/{owner.signed.rpartition('/')[2]}"))
            assert {(each.status_code, each.content) for each in downloads} == {(404, b'{"error":"not_found"}')}
    for owner in tokens:
        assert owner.caller.get(owner.url).status_code == 503, "its own is fetched, from a server that is not there"


@dataclass(frozen=True, slots=True)
class GivenByGateway:
    """What one gateway token was given: the ids of the messages of an account."""

    caller: Caller
    owner: str
    ids: list[str]


def given_by_gateway(caller: Caller, owner: str, account: str) -> GivenByGateway:
    """Ask for them."""
    answer = caller.call("search_emails", account=account, folder="INBOX")
    return GivenByGateway(caller, owner, json.loads(answer.result["content"][0]["text"])["message_ids"])


def test_nothing_given_to_one_gateway_token_is_of_use_with_another(data_dir: Path) -> None:
    gateway: dict[str, object] = {
        "tools": "gateway",
        "allow": ["move", "delete", "mark", "download"],
        "folders": [{"match": "*", "access": "write"}],
        "content": {"attachments": {}},
    }
    other_gateway = {**gateway, "content": {"max_age": "9000d", "attachments": {}}}
    profiles = {**PROFILES, "gateway": gateway, "other_gateway": other_gateway}
    settings = settings_for(data_dir, free_port(), profiles=profiles)
    for user, provider in MAILBOXES:
        fill_mirror(settings, user, provider, [Folder("INBOX", [*MAILS, WITH_ATTACHMENT]), Folder("Work")])
    with Door(settings) as door:
        relay = [given(door.caller(user, "assistant", provider), f"{user}/{provider}") for user, provider in MAILBOXES]
        tokens = [
            given_by_gateway(door.caller(user, profile, None), f"{user}/{provider}/{profile}", provider)
            for user, provider in MAILBOXES
            for profile in ("gateway", "other_gateway")
        ]
        foreign = {each.owner: each.uids for each in relay} | {each.owner: each.ids for each in tokens}
        for token in tokens:
            user, account, _ = token.owner.split("/")
            mine = {"account": account, "folder": "INBOX"}
            assert not token.caller.call("get_email", **mine, message_id=token.ids[0]).is_error
            for owner, ids in foreign.items():
                if owner == token.owner:
                    continue
                file = {"filename": "report.pdf", "output_dir": "x"}
                moved = {"account": account, "source_folder": "INBOX", "dest_folder": "Work"}
                errors = {
                    token.caller.call("get_email", **mine, message_id=ids[-1]).text,
                    token.caller.call("mark_email_read", **mine, message_id=ids[-1]).text,
                    token.caller.call("delete_email", **mine, message_id=ids[-1]).text,
                    token.caller.call("move_email", **moved, message_id=ids[-1]).text,
                    token.caller.call("download_attachment", **mine, message_id=ids[-1], **file).text,
                }
                assert len(errors) == 1, (token.owner, owner, errors)
                assert errors == {NO_SUCH_MESSAGE}, (token.owner, owner)
        for each in relay:
            for token in tokens:
                assert each.caller.call("read_message", folder="INBOX", uid=token.ids[0]).text == NO_MESSAGE
        for caller in (token.caller for token in tokens if token.owner.startswith("bob/")):
            assert "Account not found" in caller.call("search_emails", account="home").text


def forged(words: list[str], count: int, seed: int) -> list[str]:
    """Words that nobody was given: bits flipped, ends exchanged, letters at random."""
    rng = random.Random(seed)
    alphabet = string.ascii_letters + string.digits + "-_"
    found: list[str] = []
    while len(found) < count:
        word = rng.choice(words)
        place = rng.randrange(len(word))
        match rng.randrange(4):
            case 0:
                letter = alphabet[alphabet.index(word[place]) ^ (1 << rng.randrange(6))]
                made = word[:place] + letter + word[place + 1 :]
            case 1:
                other = rng.choice(words)
                made = word[:place] + other[place:]
            case 2:
                made = word[place:] + word[:place]
            case _:
                made = "".join(rng.choice(alphabet) for _ in word)
        if made not in words:
            found.append(made)
    return found


def test_ten_thousand_forged_uids_are_no_message(site: Door) -> None:
    mine, others = given(site.caller(), "mine"), given(site.caller(provider="home"), "other")
    words = forged([*mine.uids, *others.uids], 10_000, seed=1)
    accepted = 0
    for start in range(0, len(words), 20):
        uids = words[start : start + 20]
        answer = mine.caller.call("read_messages", folder="INBOX", uids=uids).value["messages"]
        accepted += sum("error" not in each for each in answer)
        assert {each.get("error") for each in answer} == {NO_MESSAGE}
    assert accepted == 0


def refused_cursors(site: Door, count: int) -> int:
    """How many of so many forged cursors get the one error."""
    mine, others = given(site.caller(), "mine"), given(site.caller(provider="home"), "other")
    by_subject = mine.caller.call("list_messages", folder="INBOX", query="order by subject").value["next_cursor"]
    words = forged([mine.cursor, others.cursor, by_subject], count, seed=2)
    return sum(mine.caller.call("list_messages", folder="INBOX", cursor=word).text == BAD_CURSOR for word in words)


def test_forged_cursors_get_the_one_error(site: Door) -> None:
    assert refused_cursors(site, 500) == 500


@pytest.mark.soak
def test_ten_thousand_forged_cursors_get_the_one_error(site: Door) -> None:
    refused = refused_cursors(site, 10_000)
    sys.stdout.write(f"forged cursors: {refused} of 10000 refused\n")
    assert refused == 10_000
