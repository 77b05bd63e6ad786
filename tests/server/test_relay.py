"""The relay tools as a client meets them: both protocol eras, over HTTP."""

import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from config.profile import ContentPolicy
from mirror.mirrored import State
from mirror.store import Store
from server.auth import Authenticator
from tests.server.conftest import FOLDERS, INBOX
from tests.server.door import ASSISTANT, Answered, Caller, Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port

TOOLS = [
    "list_folders",
    "list_messages",
    "search_messages",
    "read_message",
    "read_messages",
    "send_message",
    "update_message_flags",
]
Era = Literal["modern", "handshake"]


def opened(data_dir: Path, *folders: Folder, **profiles: dict[str, object]) -> Door:
    """The application over one mailbox of alice's, for a `with`."""
    settings = settings_for(data_dir, free_port(), profiles=profiles)
    fill_mirror(settings, "alice", "work", folders)
    return Door(settings)


def subjects(answer: Answered) -> list[str]:
    """The subjects of a page."""
    return [message["subject"] for message in answer.value["messages"]]


def uid_of(caller: Caller, subject: str, folder: str = "INBOX") -> str:
    """The virtual uid of the message with this subject."""
    messages = caller.call("list_messages", folder=folder).value["messages"]
    return next(str(message["uid"]) for message in messages if message["subject"] == subject)


def pages(caller: Caller, **arguments: object) -> list[list[str]]:
    """The subjects of every page, in order."""
    found: list[list[str]] = []
    answer = caller.call("list_messages", **arguments)
    found.append(subjects(answer))
    while cursor := answer.value.get("next_cursor"):
        answer = caller.call("list_messages", **arguments, cursor=cursor)
        found.append(subjects(answer))
    return found


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_exactly_the_seven_tools_are_there_and_nothing_else(door: Door, era: Era) -> None:
    caller = door.caller(era=era)
    assert [tool["name"] for tool in caller.request("tools/list").result["tools"]] == TOOLS
    for method in ("resources/list", "prompts/list", "resources/templates/list"):
        assert caller.request(method).result["code"] == -32601


def test_capabilities_name_tools_and_no_more(door: Door) -> None:
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    handshake = door.caller(era="handshake").request("initialize", initialize).result["capabilities"]
    modern = door.caller().request("server/discover").result["capabilities"]
    assert handshake.keys() - {"experimental"} == {"tools"}
    assert modern.keys() - {"experimental"} == {"tools"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_own_client_lists_searches_and_reads(door: Door, mode: str) -> None:
    secret = door.token("alice", "assistant", "work")

    def call(tool: str, **arguments: Any) -> Any:
        result = door.sdk_call(secret, mode, tool, arguments)
        assert not result.is_error
        return json.loads(result.content[0].text)

    assert "INBOX" in call("list_folders")["folders"]
    [found] = call("search_messages", folder="INBOX", query="subject invoice")["messages"]
    assert "20.04" in call("read_message", folder="INBOX", uid=found["uid"])["body"]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_schema_is_closed_and_names_no_identity(door: Door, tool: str) -> None:
    [schema] = [
        each["inputSchema"] for each in door.caller().request("tools/list").result["tools"] if each["name"] == tool
    ]
    assert schema["additionalProperties"] is False
    assert not schema["properties"].keys() & {"user", "provider", "profile", "account", "token", "identity"}


@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_argument_is_an_error_that_names_it(door: Door, tool: str) -> None:
    answer = door.caller().call(tool, account="bob")
    assert answer.is_error
    assert 'unknown argument "account"' in answer.text


def test_an_unknown_tool_is_a_protocol_error(door: Door) -> None:
    for era in ("modern", "handshake"):
        assert door.caller(era=era).call("move_message").result["code"] == -32602


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_a_tool_that_the_profile_does_not_allow_is_like_one_that_does_not_exist(data_dir: Path, era: Era) -> None:
    allowed = ["list_folders", "search_messages"]
    with opened(data_dir, *FOLDERS, assistant={**ASSISTANT, "allow": allowed}) as door:
        caller = door.caller(era=era)
        assert [tool["name"] for tool in caller.request("tools/list").result["tools"]] == allowed
        assert caller.call("list_folders").value["folders"]
        unknown = caller.call("no_such_tool", folder="INBOX")
        for name in set(TOOLS) - set(allowed):
            assert caller.call(name, folder="INBOX").bytes == unknown.bytes


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, '"folder" is required'),
        ({"folder": 7}, '"folder"'),
        ({"folder": "INBOX", "query": ["from", "bob"]}, '"query"'),
        ({"folder": "IN\x00BOX"}, '"folder": must not contain NUL'),
        ({"folder": "x" * 5_000}, '"folder"'),
        ({"folder": "INBOX", "query": "x" * 50_000}, '"query"'),
    ],
)
def test_a_bad_argument_is_named_and_its_value_is_not_repeated(
    door: Door, arguments: dict[str, object], named: str
) -> None:
    answer = door.caller().call("list_messages", **arguments)
    assert answer.is_error
    assert named in answer.text
    assert len(answer.text) < 300


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_a_lone_surrogate_is_refused_without_a_traceback(
    door: Door, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    for arguments in ({"folder": "\ud800"}, {"folder": "INBOX", "query": "from \udfff"}):
        answer = door.caller(era=era).call("list_messages", **arguments)
        assert answer.status >= 400 or answer.is_error or "code" in answer.result
    assert "Traceback" not in caplog.text


def test_list_folders_gives_every_visible_name_verbatim(door: Door) -> None:
    caller = door.caller()
    answer = caller.call("list_folders").value
    assert answer["folders"] == ["INBOX", 'Projekte/Entwürfe & "Co"', "Sent"]
    for name in answer["folders"]:
        assert not caller.call("list_messages", folder=name).is_error


def test_a_noselect_container_is_left_out(door: Door) -> None:
    caller = door.caller()
    assert "Projekte" not in caller.call("list_folders").value["folders"]
    assert caller.call("list_messages", folder="Projekte").is_error


def test_inbox_is_found_in_any_case_and_other_names_are_not(door: Door) -> None:
    caller = door.caller()
    assert subjects(caller.call("list_messages", folder="Inbox")) == subjects(
        caller.call("list_messages", folder="INBOX")
    )
    assert caller.call("list_messages", folder="sent").is_error


@pytest.mark.parametrize(
    "tool", ["list_messages", "search_messages", "read_message", "read_messages", "update_message_flags"]
)
def test_a_hidden_and_a_missing_folder_give_the_same_bytes(door: Door, tool: str) -> None:
    caller = door.caller()
    every: dict[str, dict[str, object]] = {
        "list_messages": {},
        "search_messages": {"query": "subject plan"},
        "read_message": {"uid": uid_of(caller, "Lunch")},
        "read_messages": {"uids": [uid_of(caller, "Lunch")]},
        "update_message_flags": {"uid": uid_of(caller, "Lunch"), "flags": ["seen"], "action": "add"},
    }
    arguments = every[tool]
    hidden = caller.call(tool, folder="Secret plans", **arguments)
    missing = caller.call(tool, folder="Secret plan", **arguments)
    assert hidden.is_error
    assert hidden.bytes == missing.bytes


def test_an_envelope_says_what_it_should(door: Door) -> None:
    report, invoice, lunch = door.caller().call("list_messages", folder="INBOX").value["messages"]
    assert set(report) == {"uid", "subject", "from", "to", "date", "flags", "has_attachments", "size", "preview"}
    assert (report["has_attachments"], invoice["has_attachments"]) == (True, False)
    assert (report["flags"], invoice["flags"], lunch["flags"]) == ([], ["flagged"], ["seen"])
    assert (invoice["from"], invoice["to"]) == ("Carol <carol@shop.example>", ["alice@example.org"])
    assert invoice["date"] == "2026-03-01T12:02:00+00:00"
    assert invoice["size"] == len(INBOX[1].raw)
    assert lunch["preview"] == "Shall we eat at noon?"


def test_a_display_name_cannot_pass_for_the_address(data_dir: Path) -> None:
    with opened(data_dir, Folder("INBOX", [Mail(sender='"boss@corp.example" <mallory@evil.example>')])) as door:
        [message] = door.caller().call("list_messages", folder="INBOX").value["messages"]
        assert message["from"] == '"boss@corp.example" <mallory@evil.example>'


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (20, [20]), (21, [20, 1]), (40, [20, 20])])
def test_pages_are_full_and_a_cursor_is_given_only_when_more_exist(
    data_dir: Path, count: int, sizes: list[int]
) -> None:
    mails = [Mail(f"number {each}", minutes=each) for each in range(count)]
    with opened(data_dir, Folder("INBOX", mails)) as door:
        found = pages(door.caller(), folder="INBOX")
        assert [len(page) for page in found] == sizes
        assert [subject for page in found for subject in page] == [f"number {each}" for each in reversed(range(count))]


def test_paging_shows_each_message_once_while_mail_comes_and_goes(data_dir: Path) -> None:
    mails = [Mail(f"number {each}", minutes=each) for each in range(50)]
    with opened(data_dir, Folder("INBOX", mails)) as door:
        caller = door.caller()
        first = caller.call("list_messages", folder="INBOX")
        fill_mirror(door.settings, "alice", "work", [Folder("INBOX", [Mail("new", minutes=99)])])
        with Store(door.settings.mirror_dir("alice", "work")) as store:
            store.remove(store.folders()[0].id, [1, 50])
        second = caller.call("list_messages", folder="INBOX", cursor=first.value["next_cursor"])
        third = caller.call("list_messages", folder="INBOX", cursor=second.value["next_cursor"])
        assert subjects(first) + subjects(second) + subjects(third) == [f"number {each}" for each in range(49, 0, -1)]


def test_a_cursor_is_good_for_its_own_request_only(data_dir: Path) -> None:
    mails = [Mail(f"number {each}", minutes=each) for each in range(30)]
    other = {**ASSISTANT, "content": {}}
    with opened(data_dir, Folder("INBOX", mails), Folder("Other", mails), assistant=ASSISTANT, other=other) as door:
        fill_mirror(door.settings, "alice", "home", [Folder("INBOX", mails)])
        caller = door.caller()
        cursor = str(caller.call("search_messages", folder="INBOX", query="subject number").value["next_cursor"])
        good = caller.call("search_messages", folder="INBOX", query=" subject number ", cursor=cursor)
        assert len(good.value["messages"]) == 10
        bad = [
            caller.call("search_messages", folder="Other", query="subject number", cursor=cursor),
            caller.call("search_messages", folder="INBOX", query="subject numbe", cursor=cursor),
            caller.call("list_messages", folder="INBOX", query="subject number", cursor=cursor),
            door.caller(provider="home").call("search_messages", folder="INBOX", query="subject number", cursor=cursor),
            door.caller(profile="other").call("search_messages", folder="INBOX", query="subject number", cursor=cursor),
            *(
                caller.call("search_messages", folder="INBOX", query="subject number", cursor=forged)
                for forged in (
                    "",
                    "x",
                    cursor[:-1],
                    cursor + "A",
                    cursor.swapcase(),
                    "A" * 400,
                    uid_of(caller, "number 29"),
                )
            ),
        ]
        assert {answer.text for answer in bad} == {"cursor is not valid for this request; start again without a cursor"}
        assert len({answer.bytes for answer in bad}) == 1


@pytest.mark.parametrize("order", ["date", "from desc", "to", "subject desc", "subject from to date desc"])
def test_every_order_can_be_paged_through_within_512_characters_of_cursor(data_dir: Path, order: str) -> None:
    long = "ü" * 40
    mails = [Mail(f"{long} {each:03}", f"{long} <{each}@example.org>", minutes=each) for each in range(45)]
    with opened(data_dir, Folder("INBOX", mails)) as door:
        caller = door.caller()
        found: list[str] = []
        cursor = None
        while True:
            answer = caller.call("list_messages", folder="INBOX", query=f"order by {order}", cursor=cursor)
            found += subjects(answer)
            cursor = answer.value.get("next_cursor")
            if cursor is None:
                break
            assert len(cursor) <= 512
        assert len(found) == len(set(found)) == 45


@pytest.mark.parametrize("query", [None, "", "   "])
def test_search_needs_a_query_and_listing_takes_a_blank_one_as_none(door: Door, query: str | None) -> None:
    caller = door.caller()
    arguments = {} if query is None else {"query": query}
    refused = caller.call("search_messages", folder="INBOX", **arguments)
    assert refused.is_error
    assert '"query"' in refused.text
    assert len(subjects(caller.call("list_messages", folder="INBOX", **arguments))) == 3


def test_a_query_filters_and_sorts(door: Door) -> None:
    caller = door.caller()
    assert subjects(caller.call("search_messages", folder="INBOX", query="from bob order by subject")) == [
        "Lunch",
        "Report",
    ]
    assert subjects(caller.call("list_messages", folder="INBOX", query="not flag seen")) == ["Report", "Invoice 17"]
    assert subjects(caller.call("search_messages", folder="INBOX", query="body noon")) == ["Lunch"]


def test_a_syntax_error_says_where_what_and_how(door: Door) -> None:
    answer = door.caller().call("search_messages", folder="INBOX", query="from:bob")
    assert answer.is_error
    assert "position 4" in answer.text
    assert "expected" in answer.text
    assert "from bob" in answer.text


def test_reading_gives_body_headers_and_attachment_descriptors(door: Door) -> None:
    caller = door.caller()
    answer = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "Report")).value
    assert answer["body"].strip() == "The monthly report."
    assert (answer["subject"], answer["from"]) == ("Report", "Bob Example <bob@example.org>")
    [attachment] = answer["attachments"]
    assert attachment.keys() == {"id", "filename", "media_type", "size", "url"}
    assert (attachment["filename"], attachment["media_type"], attachment["size"]) == (
        "report.pdf",
        "application/pdf",
        4,
    )
    assert attachment["url"] == f"{door.url}/attachments/{attachment['id']}"


@pytest.mark.parametrize("uid", ["1", "3", "", "INBOX", "<id@example.org>", "A" * 22, "=" * 22, "é" * 22])
def test_only_virtual_uids_name_messages(door: Door, uid: str) -> None:
    caller = door.caller()
    assert caller.call("read_message", folder="INBOX", uid=uid).text == (
        "No such message in this folder. List or search it again for current uids."
    )


def test_while_the_mirror_cannot_be_written_a_missing_text_is_said_to_come(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror.database.BUSY_TIMEOUT", 0.1)
    monkeypatch.setattr("server.reading.TEXT_WAIT", 0.2)
    with opened(data_dir, Folder("INBOX", [Mail("early", state=State.HEADERS)]), assistant=ASSISTANT) as door:
        caller = door.caller()
        uid = uid_of(caller, "early")
        cleaning = sqlite3.connect(door.settings.mirror_dir("alice", "work") / "mirror.db", isolation_level=None)
        cleaning.execute("BEGIN IMMEDIATE")
        answer = caller.call("read_message", folder="INBOX", uid=uid).value
        cleaning.close()
        assert (answer["subject"], answer["body"]) == ("early", None)
        assert "not mirrored yet" in answer["note"]


def test_foreign_hidden_gone_and_misplaced_uids_give_the_same_bytes(data_dir: Path) -> None:
    hiding = {**ASSISTANT, "content": {"from_deny": ["mallory@*"]}}
    mails = [Mail("kept"), Mail("hidden", "mallory@evil.example", minutes=1), Mail("gone", minutes=2)]
    with opened(data_dir, Folder("INBOX", mails), Folder("Other"), assistant=ASSISTANT, hiding=hiding) as door:
        fill_mirror(door.settings, "alice", "home", [Folder("INBOX", [Mail("kept")])])
        everything, restricted = door.caller(), door.caller(profile="hiding")
        with door.parts.mailboxes.mirrors.reading("alice", "work") as reader:
            ids = {message.subject: message.id for message in reader.page(1, None, None, 9).messages}
            epoch = reader.epoch
        caller = restricted
        seal = door.parts.mailboxes.seal(Authenticator(door.live, door.state).by_name("alice", "hiding", "work"))
        kept, hidden, gone = seal.uids(epoch, [ids["kept"], ids["hidden"], ids["gone"]])
        with Store(door.settings.mirror_dir("alice", "work")) as store:
            store.remove(1, [3])
        assert not caller.call("read_message", folder="INBOX", uid=kept).is_error
        bad = [
            caller.call("read_message", folder="INBOX", uid=hidden),
            caller.call("read_message", folder="INBOX", uid=gone),
            caller.call("read_message", folder="Other", uid=kept),
            caller.call("read_message", folder="INBOX", uid=uid_of(everything, "kept")),
            caller.call("read_message", folder="INBOX", uid=uid_of(door.caller(provider="home"), "kept")),
        ]
        assert len({answer.bytes for answer in bad}) == 1
        assert bad[0].is_error


def test_findings_are_told_beside_the_content(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port())
    odd = Mail("odd", '"ceo@example.org" <eve@evil.example>', text="Hello\u200b")
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [odd, Mail("plain", minutes=1)])])
    with Door(settings) as door:
        caller = door.caller()
        uids = [uid_of(caller, "odd"), uid_of(caller, "plain")]
        one = caller.call("read_message", folder="INBOX", uid=uids[0]).value
        several = caller.call("read_messages", folder="INBOX", uids=uids).value["messages"]
    assert one["findings"]["display_name_has_other_address"] == 1
    assert several[0]["findings"] == one["findings"]
    assert "findings" not in several[1]


def test_read_messages_keeps_the_order_collapses_repetitions_and_reports_what_is_missing(door: Door) -> None:
    caller = door.caller()
    lunch, report = uid_of(caller, "Lunch"), uid_of(caller, "Report")
    answer = caller.call("read_messages", folder="INBOX", uids=[report, "A" * 22, lunch, report]).value
    assert [message["uid"] for message in answer["messages"]] == [report, "A" * 22, lunch]
    assert answer["messages"][1] == {
        "uid": "A" * 22,
        "error": "No such message in this folder. List or search it again for current uids.",
    }
    assert answer["messages"][2]["body"].strip() == "Shall we eat at noon?"


@pytest.mark.parametrize("count", [0, 21])
def test_read_messages_takes_1_to_20_uids(door: Door, count: int) -> None:
    answer = door.caller().call("read_messages", folder="INBOX", uids=["A" * 22] * count)
    assert answer.is_error
    assert '"uids"' in answer.text


def test_one_uid_in_place_of_a_list_is_not_split_into_letters(door: Door) -> None:
    caller = door.caller()
    uid = uid_of(caller, "Lunch")
    assert [each["uid"] for each in caller.call("read_messages", folder="INBOX", uids=uid).value["messages"]] == [uid]


def test_a_long_body_is_cut_between_words_and_read_on_by_offset(data_dir: Path) -> None:
    text = " ".join(f"word{number}" for number in range(5_000))
    profile = {**ASSISTANT, "content": {"max_body_chars": 1_000}}
    with opened(data_dir, Folder("INBOX", [Mail(text=text)]), assistant=profile) as door:
        caller = door.caller()
        uid = uid_of(caller, "hello")
        pieces, offset = [], 0
        while True:
            answer = caller.call("read_message", folder="INBOX", uid=uid, offset=offset).value
            pieces.append(answer["body"])
            assert len(answer["body"]) <= 1_000
            assert answer["body_chars"] == len(text.strip()) or answer["body_chars"] >= len(text)
            if "next_offset" not in answer:
                break
            assert answer["body"].endswith(" ")
            assert str(answer["body_chars"]) in answer["note"]
            offset = answer["next_offset"]
        assert "".join(pieces).strip() == text


def test_many_long_bodies_share_one_answer(data_dir: Path) -> None:
    mails = [Mail(f"long {each}", text="word " * 4_000, minutes=each) for each in range(19)] + [
        Mail("short", text="short")
    ]
    with opened(data_dir, Folder("INBOX", mails)) as door:
        caller = door.caller()
        uids = [message["uid"] for message in caller.call("list_messages", folder="INBOX").value["messages"]]
        answer = caller.call("read_messages", folder="INBOX", uids=uids).value
        bodies = {message["subject"]: message["body"] for message in answer["messages"]}
        assert sum(map(len, bodies.values())) <= ContentPolicy().max_answer_chars
        assert bodies["short"].strip() == "short"
        assert all(len(body) > 4_000 for subject, body in bodies.items() if subject != "short")


def test_answers_say_how_fresh_and_whether_complete(data_dir: Path) -> None:
    waiting = Mail("listed only", minutes=5, state=State.HEADERS)
    with opened(data_dir, Folder("INBOX", INBOX), Folder("Late", [waiting])) as door:
        caller = door.caller()
        whole = caller.call("list_messages", folder="INBOX").value
        late = caller.call("search_messages", folder="Late", query="subject listed").value
        assert (whole["complete"], late["complete"]) == (True, False)
        assert "complete_back_to" not in whole
        assert late["complete_back_to"] == "2026-03-02"
        assert whole["as_of"].endswith("Z")
        account = caller.call("list_folders").value
        assert (account["complete"], account["complete_back_to"]) == (False, "2026-03-02")


def test_a_folder_that_the_server_keeps_closed_says_so_and_the_account_is_complete_without_it(data_dir: Path) -> None:
    with opened(data_dir, Folder("INBOX", INBOX), Folder("Shared")) as door:
        with Store(door.settings.mirror_dir("alice", "work")) as store:
            [shared] = [folder.id for folder in store.folders() if folder.name == "Shared"]
            store._connection.execute("UPDATE folder SET as_of = NULL, enumerated = 0 WHERE id = ?", (shared,))
            store.set_folder_error(shared, "EXAMINE was refused: host mail.internal says no", closed_until=2.0**31)
        caller = door.caller()
        answer = caller.call("list_messages", folder="Shared").value
        assert (answer["complete"], answer["as_of"]) == (False, None)
        assert "does not let this account open" in answer["folder_note"]
        assert "mail.internal" not in str(answer)
        account = caller.call("list_folders").value
        assert account["complete"]
        assert account["as_of"] is not None
        assert "Shared" in account["folders"]


def test_a_body_that_is_not_mirrored_is_asked_for_and_says_so(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.reading.TEXT_WAIT", 0.3)
    with opened(data_dir, Folder("INBOX", [Mail("soon", state=State.HEADERS)])) as door:
        caller = door.caller()
        answer = caller.call("read_message", folder="INBOX", uid=uid_of(caller, "soon")).value
        assert answer["body"] is None
        assert "not mirrored yet" in answer["note"]
        with Store(door.settings.mirror_dir("alice", "work")) as store:
            assert [hole.uid for _, hole in store.wanted_holes(9)] == [1]


def test_a_mailbox_without_a_mirror_says_so(data_dir: Path) -> None:
    with Door(settings_for(data_dir, free_port())) as door:
        caller = door.caller()
        assert caller.call("list_folders").value == {"folders": [], "as_of": None, "complete": False}
        assert (
            caller.call("list_messages", folder="INBOX").text
            == "This mailbox is not mirrored yet. Try again in a minute."
        )


def test_a_mirror_that_is_rebuilt_ends_old_uids(door: Door) -> None:
    caller = door.caller()
    uid = uid_of(caller, "Lunch")
    mirror = door.settings.mirror_dir("alice", "work")
    for file in mirror.iterdir():
        file.unlink()
    fill_mirror(door.settings, "alice", "work", FOLDERS)
    assert caller.call("read_message", folder="INBOX", uid=uid).is_error
    assert uid_of(caller, "Lunch") != uid


def test_bodies_are_withheld_and_cannot_be_searched_where_the_policy_says_so(data_dir: Path) -> None:
    headers_only = {**ASSISTANT, "content": {"bodies": False}}
    with opened(data_dir, Folder("INBOX", INBOX), assistant=headers_only) as door:
        caller = door.caller()
        listed = caller.call("list_messages", folder="INBOX").value["messages"]
        assert {message["preview"] for message in listed} == {""}
        assert subjects(caller.call("search_messages", folder="INBOX", query="body noon")) == []
        answer = caller.call("read_message", folder="INBOX", uid=listed[0]["uid"])
        assert answer.value["body"] is None
        assert "monthly" not in answer.text


def test_hidden_senders_subjects_and_ages_are_nowhere(data_dir: Path) -> None:
    mails = [
        Mail(f"number {each}", "mallory@evil.example" if each % 2 else "bob@example.org", minutes=each)
        for each in range(60)
    ]
    mails += [
        Mail("PRIVATE matter", minutes=61),
        Mail("ancient", minutes=-int(timedelta(days=900).total_seconds() / 60)),
    ]
    hiding = {
        **ASSISTANT,
        "content": {"from_deny": ["*@EVIL.example"], "subject_deny": ["private*"], "max_age": "52w"},
    }
    with opened(data_dir, Folder("INBOX", mails), assistant=hiding) as door:
        caller = door.caller()
        found = pages(caller, folder="INBOX")
        assert [len(page) for page in found] == [20, 10]
        assert [subject for page in found for subject in page] == [f"number {each}" for each in range(58, -1, -2)]
        for query in ("from mallory", "subject private", "subject ancient", "not from bob", "subject 59"):
            answer = caller.call("search_messages", folder="INBOX", query=query)
            assert answer.value["messages"] == []


def test_attachments_are_withheld_where_the_policy_does_not_grant_them(data_dir: Path) -> None:
    text_only = {**ASSISTANT, "content": {"attachments": {"types": ["text/*"]}}}
    none = {**ASSISTANT, "content": {}}
    attachments = (("a.txt", "text/plain", b"text"), ("b.pdf", "application/pdf", b"%PDF"))
    with opened(data_dir, Folder("INBOX", [Mail(attachments=attachments)]), text_only=text_only, none=none) as door:
        some, nothing = door.caller(profile="text_only"), door.caller(profile="none")
        answer = some.call("read_message", folder="INBOX", uid=uid_of(some, "hello")).value
        assert [each["filename"] for each in answer["attachments"]] == ["a.txt"]
        answer = nothing.call("read_message", folder="INBOX", uid=uid_of(nothing, "hello")).value
        assert "attachments" not in answer
        assert answer["has_attachments"] is False


def test_a_fault_of_ours_gives_a_reference_that_is_in_the_log_and_nothing_else(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("Attack at dawn /etc/passwd")

    monkeypatch.setattr("server.envelopes.envelope", broken)
    answer = door.caller().call("list_messages", folder="INBOX")
    assert answer.is_error
    reference = answer.text.removeprefix("Internal error, reference ").partition(".")[0]
    assert reference in caplog.text
    for leak in ("dawn", "passwd", "Traceback"):
        assert leak not in answer.text
        assert leak not in caplog.text


def test_the_log_holds_no_subject_body_address_or_token(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    caller = door.caller()
    caller.call("read_message", folder="INBOX", uid=uid_of(caller, "Invoice 17"))
    caller.call("send_message", from_="alice@example.org", to=["bob@example.org"], subject="Geheim", body="Nachricht")
    for secret in (
        "Invoice 17",
        "20.04",
        "carol@shop.example",
        "bob@example.org",
        "Geheim",
        "Nachricht",
        caller.secret,
    ):
        assert secret not in caplog.text
