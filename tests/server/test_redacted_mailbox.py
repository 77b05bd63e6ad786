"""A mailbox under redaction, as a client meets it over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.door import ASSISTANT, Caller, Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port

NUMBER = "K-123456"
LONG = " ".join(f"word{number} {NUMBER}" for number in range(200))
MAILS = [
    Mail(f"About {NUMBER}", f'"{NUMBER} Bob" <bob@example.org>', text=f"It is {NUMBER}.", minutes=1),
    Mail("File", text="See file.", minutes=2, attachments=((f"{NUMBER}.txt", "text/plain", b"harmless"),)),
    Mail("Card", text="4111\u200b \uff11\uff11\uff11\uff11-1111.1111 ok", minutes=3),
    Mail("Your login code", text="482913", minutes=4),
    Mail("Link", text="Reset at https://shop.example/reset?token=s3cret now", minutes=5),
    Mail("Long", text=LONG, minutes=6),
]
CONTENT: dict[str, object] = {
    "redact": ["one_time_codes", "card_numbers", {"pattern": r"K-\d{6}", "with": "[customer]"}],
    "links": "domain",
    "max_body_chars": 200,
    "attachments": {"types": ["text/*"]},
}
CANARIES = ("123456", "4111", "1111", "482913", "s3cret", "\\uff11")


@pytest.fixture
def caller(data_dir: Path) -> Iterator[Caller]:
    """A client whose profile leaves things out."""
    settings = settings_for(data_dir, free_port(), profiles={"assistant": {**ASSISTANT, "content": CONTENT}})
    fill_mirror(settings, "alice", "work", [Folder("INBOX", MAILS)])
    with Door(settings) as door:
        yield door.caller()


def uids(caller: Caller) -> dict[str, str]:
    """The uid of each message, by its subject."""
    listed = caller.call("list_messages", folder="INBOX").value["messages"]
    return {message["subject"]: message["uid"] for message in listed}


def test_what_is_left_out_is_in_no_byte_of_any_answer(caller: Caller) -> None:
    known = uids(caller)
    answers = [
        caller.call("list_messages", folder="INBOX"),
        caller.call("search_messages", folder="INBOX", query="not subject nothing order by from subject"),
        caller.call("read_messages", folder="INBOX", uids=list(known.values())),
        *(caller.call("read_message", folder="INBOX", uid=uid) for uid in known.values()),
        caller.call("search_messages", folder="INBOX", query="subject"),
    ]
    for answer in answers:
        written = json.dumps(answer.result)
        assert not any(canary in written for canary in CANARIES)


def test_markers_stand_where_something_was_left_out(caller: Caller) -> None:
    known = uids(caller)
    bodies = {
        message["subject"]: message["body"].strip()
        for message in caller.call("read_messages", folder="INBOX", uids=list(known.values())).value["messages"]
    }
    assert bodies["About [customer]"] == "It is [customer]."
    assert bodies["Card"] == "[card number] ok"
    assert bodies["Your login code"] == "[code]"
    assert bodies["Link"] == "Reset at https://shop.example/\u2026 now"


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ('body "K-123456"', 0),
        ("body 123456", 0),
        ("subject K-1", 0),
        ("from K-123", 0),
        ("body 4111", 0),
        ("body s3cret", 0),
        ("body 482913", 0),
        ("body customer", 0),
        ('body "[code]"', 0),
        ("body \ufdd0", 0),
        ("body shop.example", 1),
        ("not body 123456", len(MAILS)),
        ("not body customer", len(MAILS)),
        ("body word", 1),
    ],
)
def test_what_is_left_out_cannot_be_found_and_what_is_left_can(caller: Caller, query: str, count: int) -> None:
    assert len(caller.call("search_messages", folder="INBOX", query=query).value["messages"]) == count


def test_a_long_body_is_read_on_by_offset_without_a_gap(caller: Caller) -> None:
    uid, pieces, offset = uids(caller)["Long"], [], 0
    while True:
        answer = caller.call("read_message", folder="INBOX", uid=uid, offset=offset).value
        pieces.append(answer["body"])
        if "next_offset" not in answer:
            break
        offset = answer["next_offset"]
    text = "".join(pieces)
    assert len(text) == answer["body_chars"]
    assert text.strip() == LONG.replace(NUMBER, "[customer]")
    for offset in range(300):
        piece = caller.call("read_message", folder="INBOX", uid=uid, offset=offset).value["body"]
        assert "123456" not in piece


def test_a_file_keeps_no_redacted_name(caller: Caller) -> None:
    message = caller.call("read_message", folder="INBOX", uid=uids(caller)["File"]).value
    [attachment] = message["attachments"]
    assert attachment["filename"] == "redacted.txt"
    assert message["size"] == len(message["body"].encode()) + attachment["size"]
    for asked in range(1, 3):
        assert "123456" not in str(caller.get(attachment["url"], Range=f"bytes=0-{asked}").headers)


@pytest.mark.parametrize("path", ["/", "/mcp/", "/MCP", "/mcp/x", "/attachments", "/attachments/", "/metrics"])
def test_nothing_is_served_beside_the_three_paths(caller: Caller, path: str) -> None:
    assert caller.get(path).status_code in (404, 405, 307)
    assert b"customer" not in caller.get(path).content
