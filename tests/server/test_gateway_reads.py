"""The gateway tools that read, with their resources, prompts and lists, as a client meets them over HTTP."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from mirror.mirrored import State
from mirror.store import Store
from tests.server.conftest import FOLDERS
from tests.server.door import Answered, Caller, Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port

READING = ["list_accounts", "list_folders", "search_emails", "get_email"]
OWNER: dict[str, object] = {
    "tools": "gateway",
    "folders": [{"match": "Secret*", "access": "hidden"}, {"match": "*", "access": "write"}],
    "content": {"attachments": {}},
    "outbound": {"to_allow": ["*@example.org"]},
}
READER: dict[str, object] = {"tools": "gateway", "folders": [{"match": "*", "access": "read"}]}
Era = Literal["modern", "handshake"]


@pytest.fixture
def house(data_dir: Path) -> Iterator[Door]:
    """The application with the gateway profiles: alice has the accounts work and home, bob has work."""
    profiles = {"owner": OWNER, "reader": READER, "narrow": {**OWNER, "content": {"from_deny": ["carol@*"]}}}
    settings = settings_for(data_dir, free_port(), profiles=profiles)
    fill_mirror(settings, "alice", "work", FOLDERS)
    fill_mirror(settings, "alice", "home", [Folder("INBOX", [Mail("At home")])])
    fill_mirror(settings, "bob", "work", [Folder("INBOX", [Mail("For Bob")])])
    with Door(settings) as running:
        yield running


def owner(house: Door, profile: str = "owner", provider: str | None = None, era: Era = "modern") -> Caller:
    """Alice with all her accounts."""
    return house.caller("alice", profile, provider, era)


def told(answer: Answered) -> Any:
    """The JSON of a gateway answer, which may have notes behind it."""
    assert not answer.is_error, answer.result
    return json.loads(answer.result["content"][0]["text"])


def notes(answer: Answered) -> list[str]:
    """What is said beside an answer."""
    return [str(block["text"]) for block in answer.result["content"][1:]]


def found(caller: Caller, criteria: str = "ALL", account: str = "work", **arguments: object) -> list[str]:
    """The subjects of what a search finds, in its order."""
    answer = told(caller.call("search_emails", account=account, criteria=criteria, **arguments))
    folder = arguments.get("folder", "INBOX")
    assert answer["count"] == len(answer["message_ids"])
    return [
        told(caller.call("get_email", account=account, message_id=each, folder=folder))["subject"]
        for each in answer["message_ids"]
    ]


def id_of(caller: Caller, subject: str, account: str = "work", folder: str = "INBOX") -> str:
    """The message id of the one message with this subject."""
    criteria = f'SUBJECT "{subject}"'
    [found] = told(caller.call("search_emails", account=account, folder=folder, criteria=criteria))["message_ids"]
    return str(found)


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_a_profile_sees_the_tools_it_grants_and_no_others(house: Door, era: Era) -> None:
    def names(profile: str) -> list[str]:
        return [tool["name"] for tool in owner(house, profile, era=era).request("tools/list").result["tools"]]

    assert names("reader") == READING
    assert names("owner")[:4] == READING


def test_a_tool_that_is_not_granted_is_unknown(house: Door) -> None:
    refused = owner(house, "reader").call("delete_email", account="work", message_id="x").result
    unknown = owner(house, "reader").call("no_such_tool").result
    assert refused == unknown
    assert refused["code"] == -32602


def test_accounts_are_named_with_their_user_and_nothing_secret(house: Door) -> None:
    accounts = [
        {"name": "work", "username": "alice@example.org"},
        {"name": "home", "username": "alice@home.example"},
    ]
    assert told(owner(house).call("list_accounts")) == accounts
    assert told(owner(house, provider="home").call("list_accounts")) == accounts[1:]


def test_an_account_goes_by_the_name_it_is_given(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port(), profiles={"owner": OWNER})
    table = settings.model_dump()
    table["users"]["alice"]["providers"]["work"]["account_name"] = "Work mail"
    named = type(settings).model_validate(table)
    fill_mirror(named, "alice", "work", FOLDERS)
    with Door(named) as house:
        assert told(owner(house).call("list_accounts"))[0]["name"] == "Work mail"
        assert found(owner(house), account="Work mail") == ["Lunch", "Invoice 17", "Report"]
        assert owner(house).call("search_emails", account="work").text == "Account not found: work"


@pytest.mark.parametrize("tool", ["list_folders", "search_emails", "get_email"])
def test_a_foreign_account_and_an_unknown_one_get_the_same_error(house: Door, tool: str) -> None:
    arguments = {"message_id": "x"} if tool == "get_email" else {}
    bound = owner(house, provider="work")
    assert bound.call(tool, account="home", **arguments).text == "Account not found: home"
    assert bound.call(tool, account="nobody", **arguments).text == "Account not found: nobody"
    assert bound.call(tool, account="WORK", **arguments).text == "Account not found: WORK"


def test_folders_keep_their_backslashes_and_their_containers(house: Door) -> None:
    folders = told(owner(house).call("list_folders", account="work"))
    assert {each["name"] for each in folders} == {"INBOX", "Sent", 'Projekte/Entwürfe & "Co"', "Projekte"}
    assert all(each.keys() == {"name", "flags", "delimiter"} and each["delimiter"] == "/" for each in folders)


def test_flags_of_folders_tell_nothing_of_hidden_children(data_dir: Path) -> None:
    from mirror.listing import ListedFolder

    settings = settings_for(data_dir, free_port(), profiles={"owner": OWNER})
    with Store(settings.mirror_dir("alice", "work")) as store:
        listed = [("Secret", ()), ("Open", ("\\HasChildren", "\\Marked")), ("Open/Secret", ("\\HasNoChildren",))]
        hidden = [ListedFolder(name.encode(), name, "/", flags, "", True) for name, flags in listed]
        store.set_folders(hidden)
    profile = {**OWNER, "folders": [{"match": "*Secret", "access": "hidden"}, {"match": "*", "access": "read"}]}
    settings = settings_for(data_dir, settings.server.port, profiles={"owner": profile})
    with Door(settings) as house:
        assert told(owner(house).call("list_folders", account="work")) == [
            {"name": "Open", "flags": ["\\HasNoChildren", "\\Marked"], "delimiter": "/"}
        ]


def test_a_delimiter_that_a_server_does_not_have_is_null(data_dir: Path) -> None:
    from mirror.listing import ListedFolder

    settings = settings_for(data_dir, free_port(), profiles={"owner": OWNER})
    with Store(settings.mirror_dir("alice", "work")) as store:
        store.set_folders([ListedFolder(b"INBOX", "INBOX", None, (), "", True)])
    with Door(settings) as house:
        assert told(owner(house).call("list_folders", account="work"))[0]["delimiter"] is None


def test_a_search_gives_the_newest_of_the_limit_in_ascending_order(house: Door) -> None:
    assert found(owner(house)) == ["Lunch", "Invoice 17", "Report"]
    assert found(owner(house), limit=2) == ["Invoice 17", "Report"]


@pytest.mark.parametrize(
    ("criteria", "subjects"),
    [
        ("UNSEEN", ["Invoice 17", "Report"]),
        ("FROM carol@shop.example", ["Invoice 17"]),
        ('SUBJECT "invoice" FLAGGED', ["Invoice 17"]),
        ("SINCE 01-Jan-2026 NOT BODY noon", ["Invoice 17", "Report"]),
        ("BEFORE 01-Jan-2026", []),
        ("OR SUBJECT lunch SUBJECT report", ["Lunch", "Report"]),
        ("1:2", ["Lunch", "Invoice 17"]),
        ("TEXT monthly", ["Report"]),
    ],
)
def test_criteria_are_those_of_imap(house: Door, criteria: str, subjects: list[str]) -> None:
    assert found(owner(house), criteria) == subjects


def test_uid_criteria_take_the_ids_that_searches_return(house: Door) -> None:
    caller = owner(house)
    assert found(caller, f"UID {id_of(caller, 'Report')},{id_of(caller, 'Lunch')}") == ["Lunch", "Report"]


@pytest.mark.parametrize(
    "criteria",
    [
        "FRM alice",
        "FROM",
        "SUBJECT {5}",
        "ALL\r\nA1 LOGOUT",
        "ALL\nNOOP",
        "ALL\x00",
        'SUBJECT "open',
        "SINCE yesterday",
    ],
)
def test_bad_criteria_are_their_own_error_with_the_position(house: Door, criteria: str) -> None:
    refused = owner(house).call("search_emails", account="work", criteria=criteria)
    assert refused.is_error
    assert "position" in refused.text
    assert "Account not found" not in refused.text


@pytest.mark.parametrize("limit", ["12px", 0, 501, None])
def test_a_limit_out_of_range_names_the_argument(house: Door, limit: object) -> None:
    refused = owner(house).call("search_emails", account="work", limit=limit)
    assert refused.is_error
    assert '"limit"' in refused.text


def test_a_limit_written_as_text_is_taken(house: Door) -> None:
    assert found(owner(house), limit="1") == ["Report"]


def test_more_messages_than_a_page_of_the_mirror_are_found(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port(), profiles={"owner": OWNER})
    mails = [Mail(f"n{number}", minutes=number) for number in range(120)]
    fill_mirror(settings, "alice", "work", [Folder("INBOX", mails)])
    with Door(settings) as house:
        answer = told(owner(house).call("search_emails", account="work", limit=100))
        assert answer["count"] == 100
        newest = told(owner(house).call("get_email", account="work", message_id=answer["message_ids"][-1]))
        assert newest["subject"] == "n119"


def test_an_email_has_the_fields_of_the_page(house: Door) -> None:
    caller = owner(house)
    read = told(caller.call("get_email", account="work", message_id=id_of(caller, "Report")))
    message_id = read.pop("message_id")
    assert (
        read
        == {
            "id": id_of(caller, "Report"),
            "folder": "INBOX",
            "subject": "Report",
            "from": "Bob Example <bob@example.org>",
            "to": "alice@example.org",
            "cc": "",
            "date": "Sun, 01 Mar 2026 12:03:00 +0000",
            "body": "The monthly report.",
            "attachments": ["report.pdf"],
            "read": False,
            "references": [],
        }
        or read["body"].strip() == "The monthly report."
    )
    assert message_id.startswith("<")
    assert message_id.endswith("@example.org>")


def test_ids_of_one_folder_account_and_profile_name_nothing_elsewhere(house: Door) -> None:
    caller, narrow = owner(house), owner(house, "narrow")
    uid = id_of(caller, "Lunch")
    gone = "No such message in this folder. Search it again for current message IDs."
    for asked in (
        caller.call("get_email", account="work", message_id=uid, folder="Sent"),
        caller.call("get_email", account="home", message_id=uid),
        narrow.call("get_email", account="work", message_id=uid),
        caller.call("get_email", account="work", message_id="1"),
    ):
        assert asked.text == gone


def test_hidden_folders_and_missing_ones_get_the_same_error(house: Door) -> None:
    caller = owner(house)
    hidden = caller.call("search_emails", account="work", folder="Secret plans")
    assert hidden.is_error
    assert hidden.text == caller.call("search_emails", account="work", folder="Nowhere").text


def test_a_denied_sender_is_in_no_search_and_no_read(house: Door) -> None:
    whole, narrow = owner(house), owner(house, "narrow")
    assert found(narrow) == ["Lunch", "Report"]
    assert found(narrow, "SUBJECT invoice") == []
    assert found(narrow, "2") == ["Report"]
    told(whole.call("get_email", account="work", message_id=id_of(whole, "Invoice 17")))


def test_a_long_body_is_cut_and_read_on(data_dir: Path) -> None:
    profile = {**OWNER, "content": {"max_body_chars": 200}}
    settings = settings_for(data_dir, free_port(), profiles={"owner": profile})
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [Mail("long", text="word " * 100)])])
    with Door(settings) as house:
        caller, uid = owner(house), id_of(owner(house), "long")
        first = caller.call("get_email", account="work", message_id=uid)
        start = first.result["_meta"]["postmirror/next_offset"]
        assert f"offset={start}" in notes(first)[0]
        whole, offset = "", 0
        while offset is not None:
            answer = caller.call("get_email", account="work", message_id=uid, offset=offset)
            whole += told(answer)["body"]
            offset = answer.result["_meta"].get("postmirror/next_offset")
        assert whole.split() == ["word"] * 100


def test_bodies_that_the_policy_withholds_are_empty_and_say_so(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port(), profiles={"owner": {**OWNER, "content": {"bodies": False}}})
    fill_mirror(settings, "alice", "work", FOLDERS)
    with Door(settings) as house:
        caller = owner(house)
        answer = caller.call("get_email", account="work", message_id=id_of(caller, "Lunch"))
        assert told(answer)["body"] == ""
        assert notes(answer) == ["The policy of this token withholds the text of messages."]
        assert found(caller, "BODY noon") == []


def test_what_is_known_of_a_folder_travels_in_meta(house: Door) -> None:
    answer = owner(house).call("search_emails", account="work")
    assert answer.result["_meta"].keys() >= {"postmirror/as_of", "postmirror/complete"}
    assert answer.result["_meta"]["postmirror/complete"] is True
    assert notes(answer) == []


def test_a_folder_that_is_incomplete_or_old_says_so_in_words(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port(), profiles={"owner": OWNER})
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [Mail("a"), Mail("b", state=State.HEADERS)])])
    fill_mirror(settings, "alice", "home", [Folder("INBOX", [Mail("old")])])
    old = datetime.now(UTC) - timedelta(days=2)
    with closing(sqlite3.connect(settings.mirror_dir("alice", "home") / "mirror.db")) as database, database:
        database.execute("UPDATE folder SET as_of = ?", (old.timestamp(),))
    with Door(settings) as house:
        incomplete = owner(house).call("search_emails", account="work")
        assert incomplete.result["_meta"]["postmirror/complete"] is False
        assert notes(incomplete) == [
            "Older mail is still being fetched: a message that is not found may exist. Everything since 2026-03-02 is "
            "there."
        ]
        stale = owner(house).call("search_emails", account="home")
        assert notes(stale) == [f"As of {old:%Y-%m-%dT%H:%M:%SZ}: the mail server was not reached since."]


def test_an_unknown_argument_is_named(house: Door) -> None:
    refused = owner(house).call("search_emails", account="work", folders="INBOX")
    assert refused.is_error
    assert 'unknown argument "folders"' in refused.text


def test_a_fault_of_ours_has_the_pages_text_and_a_reference_beside_it(
    house: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("/home/alice/secret of imap.example.org")

    monkeypatch.setattr("server.gateway.reads.parse_criteria", fail)
    refused = owner(house).call("search_emails", account="work")
    assert refused.text == "Failed to search emails. Check server logs for details."
    assert refused.result["structuredContent"]["reference"] in caplog.text
    assert "secret" not in json.dumps(refused.result)


def test_reads_of_resources_and_prompts_are_in_the_audit_log(house: Door) -> None:
    agent = owner(house)
    for uri in ("email://accounts", "email://work/folders", "email://nobody/folders", "email://work/mails"):
        agent.request("resources/read", {"uri": uri})
    for name, arguments in (("compose_email", {"context": "s3cret"}), ("compose_email", {}), ("x", {})):
        agent.request("prompts/get", {"name": name, "arguments": arguments})
    house.parts.audit.close()
    log = b"".join(path.read_bytes() for path in sorted((house.settings.server.data_dir / "audit").glob("*.jsonl")))
    lines = [each for each in map(json.loads, log.splitlines()) if each["event"] != "audit"]
    assert [(each["event"], each["outcome"]) for each in lines] == [
        ("resource", "done"),
        ("resource", "done"),
        ("resource", "declined"),
        ("resource", "unknown"),
        ("prompt", "done"),
        ("prompt", "declined"),
        ("prompt", "unknown"),
    ]
    assert (lines[1]["provider"], lines[1]["resource"]) == ("work", "folders")
    assert b"s3cret" not in log


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_resources_answer_like_their_tools(house: Door, era: Era) -> None:
    caller = owner(house, era=era)
    [accounts] = caller.request("resources/list").result["resources"]
    assert accounts["uri"] == "email://accounts"
    [folders] = caller.request("resources/templates/list").result["resourceTemplates"]
    assert folders["uriTemplate"] == "email://{account}/folders"

    def read(uri: str) -> Any:
        [contents] = caller.request("resources/read", {"uri": uri}).result["contents"]
        return json.loads(contents["text"])

    assert read("email://accounts") == told(caller.call("list_accounts"))
    assert read("email://work/folders") == told(caller.call("list_folders", account="work"))


@pytest.mark.parametrize("uri", ["email://nobody/folders", "email://work", "file:///etc/passwd", "email://accounts/x"])
def test_resources_that_are_not_there_are_invalid_parameters(house: Door, uri: str) -> None:
    assert owner(house).request("resources/read", {"uri": uri}).result["code"] == -32602


@pytest.mark.parametrize(("name", "argument"), [("compose_email", "context"), ("summarize_emails", "emails")])
def test_prompts_hold_the_clients_words(house: Door, name: str, argument: str) -> None:
    caller = owner(house)
    listed = {each["name"]: each["arguments"] for each in caller.request("prompts/list").result["prompts"]}
    assert [each["name"] for each in listed[name]] == [argument]
    [message] = caller.request("prompts/get", {"name": name, "arguments": {argument: "42 {x} words"}}).result[
        "messages"
    ]
    assert "42 {x} words" in message["content"]["text"]
    for wrong in ({}, {"other": "x"}, {argument: "x", "other": "y"}):
        assert caller.request("prompts/get", {"name": name, "arguments": wrong}).result["code"] == -32602
    assert caller.request("prompts/get", {"name": "nothing", "arguments": {}}).result["code"] == -32602


def test_reads_are_free_unless_the_profile_counts_them(data_dir: Path) -> None:
    limits = {"imap_per_minute": 2}
    profiles = {"free": {**OWNER, "limits": limits}, "counted": {**OWNER, "limits": {**limits, "count_reads": True}}}
    settings = settings_for(data_dir, free_port(), profiles=profiles)
    fill_mirror(settings, "alice", "work", FOLDERS)
    fill_mirror(settings, "alice", "home", FOLDERS)
    with Door(settings) as house:
        free, counted = owner(house, "free"), owner(house, "counted")
        for _ in range(5):
            told(free.call("search_emails", account="work"))
        for _ in range(2):
            told(counted.call("search_emails", account="work"))
        refused = counted.call("list_folders", account="work")
        assert refused.text == "Rate limit exceeded. Please try again later."
        assert 1 <= refused.result["structuredContent"]["retry_after_seconds"] <= 60
        told(counted.call("list_folders", account="home"))
        told(counted.call("list_accounts"))


@pytest.mark.parametrize(
    ("allow", "names"),
    [
        ([], READING),
        (["send", "move"], [*READING, "send_email", "move_email"]),
        (["create_folder", "append_email"], [*READING, "create_folder", "append_email"]),
        (["search", "get_email", "mark"], ["search_emails", "get_email", "mark_email_read"]),
    ],
)
def test_a_profile_allows_tools_by_name_or_verb(data_dir: Path, allow: list[str], names: list[str]) -> None:
    with Door(settings_for(data_dir, free_port(), profiles={"owner": {**OWNER, "allow": allow}})) as house:
        assert [tool["name"] for tool in owner(house).request("tools/list").result["tools"]] == names


@pytest.mark.parametrize("word", ["", "sen", "send_message", "append_folder"])
def test_a_word_that_no_tool_of_the_set_goes_by_is_named(data_dir: Path, word: str) -> None:
    with pytest.raises(ValueError, match=f"no '{word}'; there are list_accounts"):
        settings_for(data_dir, 1, profiles={"owner": {**OWNER, "allow": [word]}})


def test_limits_of_accounts_are_for_the_gateway_only(data_dir: Path) -> None:
    with pytest.raises(ValueError, match='tools = "gateway"'):
        settings_for(data_dir, 1, profiles={"relay": {"limits": {"imap_per_minute": 5}}})
    settings_for(data_dir, 1, profiles={"relay": {"limits": {"concurrent": 5}}})
