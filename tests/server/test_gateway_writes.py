"""The gateway tools that send, change and save, against a real Dovecot and a real SMTP server."""

import base64
import email
import email.policy
import json
import os
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from server.gateway.limits import HOUR, MINUTE
from server.passes import sync_now
from tests.server.door import Answered, Caller, Door, Mail, settings_for
from tests.server.test_gateway_reads import OWNER, found, id_of, notes, told
from tests.servers.dovecot import Dovecot
from tests.servers.ports import free_port
from tests.servers.second_client import Incoming, SecondClient
from tests.servers.smtp import SmtpSink

PAGE = [
    "list_accounts", "list_folders", "search_emails", "get_email", "send_email", "reply_email", "move_email",
    "delete_email", "mark_email_read", "download_attachment",
]  # fmt: skip
ALL = ["send", "reply", "move", "delete", "mark", "download", "create_folder", "append"]
PDF = b"%PDF-1.7\n" + os.urandom(20_000)
MAILS = [
    Mail("first", minutes=0),
    Mail("second", minutes=1),
    Mail(
        "attached",
        minutes=2,
        attachments=(
            ("Résumé.pdf", "application/pdf", PDF),
            ("note.txt", "text/plain", b"one"),
            ("note.txt", "text/plain", b"two"),
            ("../../evil.txt", "text/plain", b"evil"),
        ),
    ),
    Mail("fourth", minutes=3),
]
FULL: dict[str, object] = {
    **OWNER,
    "allow": ALL,
    "folders": [
        {"match": "Secret*", "access": "hidden"},
        {"match": "Sent", "access": "read"},
        {"match": "*", "access": "write"},
    ],
    "outbound": {"to_allow": ["*@example.org", "*@bücher.example"], "to_deny": ["mallory@*"], "per_hour": 50},
}
LIMITED = {**FULL, "limits": {"imap_per_minute": 2, "smtp_per_hour": 2}}


@pytest.fixture
def house(
    dovecot: Dovecot, user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch, smtp_sink: SmtpSink
) -> Iterator[Door]:
    """The application over MAILS in Dovecot's INBOX, mirrored, sending to a real SMTP server."""
    monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", dovecot.password)
    settings = settings_for(
        data_dir,
        free_port(),
        imap_port=dovecot.port,
        smtp_port=smtp_sink.port,
        username=user,
        password={"env": "POSTMIRROR_TEST_PASSWORD"},
        sync={"attachments": {"max_size": 10_000}},
        profiles={"full": FULL, "page": OWNER, "limited": LIMITED, "narrow": {**FULL, "content": {"max_age": "1d"}}},
    )
    with dovecot.client(user) as client:
        for folder in ("Archive", "Secret plans"):
            client.create(folder)
        client.append("INBOX", *(Incoming(mail.raw, mail.flags, mail.received) for mail in MAILS))
    assert [outcome.error for outcome in sync_now(settings, ["alice/work"])] == [""]
    with Door(settings) as running:
        yield running


@pytest.fixture
def agent(house: Door) -> Caller:
    """Alice with everything that a profile can grant."""
    return house.caller("alice", "full", None)


@pytest.fixture
def other(dovecot: Dovecot, user: str, house: Door) -> Iterator[SecondClient]:
    """Another mail program on the same mailbox."""
    with dovecot.client(user) as client:
        yield client


def call(agent: Caller, tool: str, **arguments: object) -> Answered:
    """One call for the account work."""
    return agent.call(tool, account="work", **arguments)


def workspace(house: Door) -> Path:
    """Alice's workspace."""
    return house.settings.server.workspace / "alice"


def parsed(raw: bytes) -> EmailMessage:
    """A mail as a mail program reads it."""
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def upstream_subjects(client: SecondClient, folder: str = "INBOX") -> list[str]:
    """What is in a folder upstream, by the corpus it came from."""
    import hashlib

    by_digest = {hashlib.sha256(mail.raw).hexdigest(): mail.subject for mail in MAILS}
    return [by_digest.get(each.sha256, "?") for each in client.listing(folder)]


def test_the_tools_of_the_page_are_there_by_default_and_two_more_by_grant(house: Door, agent: Caller) -> None:
    page = house.caller("alice", "page", None)
    assert [tool["name"] for tool in page.request("tools/list").result["tools"]] == PAGE
    tools = {tool["name"]: tool for tool in agent.request("tools/list").result["tools"]}
    assert list(tools) == [*PAGE, "create_folder", "append_email"]
    for tool in tools.values():
        assert tool["inputSchema"]["additionalProperties"] is False
    required = {name: set(tool["inputSchema"].get("required", ())) for name, tool in tools.items()}
    assert required["send_email"] == {"account", "to", "subject", "body"}
    assert required["reply_email"] == {"account", "to", "subject", "body", "in_reply_to"}
    assert required["download_attachment"] == {"account", "message_id", "filename", "output_dir"}
    assert required["append_email"] == {"account", "raw_message"}


def test_a_mail_goes_out_with_all_its_parts(house: Door, agent: Caller, smtp_sink: SmtpSink) -> None:
    workspace(house).mkdir(parents=True)
    (workspace(house) / "a.pdf").write_bytes(PDF)
    answer = call(
        agent,
        "send_email",
        to=["bob@example.org"],
        cc=["carol@example.org"],
        bcc=["dave@example.org"],
        subject="Grüße €",
        body="plain €",
        html_body="<p>rich €</p>",
        attachments=["a.pdf"],
    )
    assert told(answer) == {"status": "sent", "recipients": 3}
    [sent] = smtp_sink.wait_for(1)
    assert sent.recipients == ("bob@example.org", "carol@example.org", "dave@example.org")
    assert b"dave" not in sent.raw
    mail = parsed(sent.raw)
    assert mail["Subject"] == "Grüße €"
    assert mail["Message-ID"] == answer.result["_meta"]["postmirror/message_id"]
    assert mail.get_content_type() == "multipart/mixed"
    alternative, attached = mail.iter_parts()
    assert [part.get_content_type() for part in alternative.iter_parts()] == ["text/plain", "text/html"]
    assert attached.get_filename() == "a.pdf"
    assert attached.get_content() == PDF


def test_one_recipient_as_text_is_one_recipient(agent: Caller, smtp_sink: SmtpSink) -> None:
    assert told(call(agent, "send_email", to="bob@example.org", subject="s", body="b"))["recipients"] == 1
    assert smtp_sink.wait_for(1)[0].recipients == ("bob@example.org",)


UNSENDABLE: list[tuple[dict[str, object], str]] = [
    ({"to": ["eve@evil.example"]}, "eve@evil.example"),
    ({"cc": ["mallory@example.org"]}, "mallory@example.org"),
    ({"bcc": ["mallory@example.org"]}, "mallory@example.org"),
    ({"subject": "a\r\nBcc: eve@evil.example"}, "line break"),
    ({"to": []}, '"to"'),
    ({"attachments": ["/etc/passwd"]}, "workspace"),
    ({"attachments": ["../../etc/passwd"]}, "workspace"),
    ({"attachments": ["link"]}, "workspace"),
    ({"attachments": ["missing.txt"]}, "no such file"),
    ({"append_folder": "Archive"}, "append_to_sent"),
    ({"append_folder": "Archive", "append_to_sent": True}, "Sent folder only"),
    ({"append_folder": "Nowhere", "append_to_sent": True}, "No such folder"),
]


def test_what_may_not_be_sent_reaches_no_server(house: Door, agent: Caller, smtp_sink: SmtpSink) -> None:
    workspace(house).mkdir(parents=True)
    (workspace(house) / "link").symlink_to("/etc/passwd")
    for changes, said in UNSENDABLE:
        refused = call(agent, "send_email", **{"to": ["bob@example.org"], "subject": "s", "body": "b", **changes})
        assert refused.is_error
        assert said in refused.text
        assert "root:" not in refused.text
    assert smtp_sink.commands == []


def test_a_copy_is_kept_in_sent_once(house: Door, agent: Caller, other: SecondClient, smtp_sink: SmtpSink) -> None:
    mail: dict[str, object] = {"to": ["bob@example.org"], "subject": "s", "body": "b"}
    told(call(agent, "send_email", **mail, append_to_sent=True, append_folder="Sent"))
    assert len(smtp_sink.wait_for(1)) == 1
    assert len(other.listing("Sent")) == 1


def test_a_key_sends_once(agent: Caller, smtp_sink: SmtpSink) -> None:
    mail: dict[str, object] = {"to": ["bob@example.org"], "subject": "s", "body": "b", "idempotency_key": "k1"}
    first, again = call(agent, "send_email", **mail), call(agent, "send_email", **mail)
    assert told(first) == told(again)
    assert "not sent again" in notes(again)[0]
    assert len(smtp_sink.messages) == 1
    other = call(agent, "send_email", **{**mail, "body": "another"})
    assert other.is_error
    assert len(smtp_sink.messages) == 1


def test_a_reply_threads_and_marks_what_it_replies_to(agent: Caller, smtp_sink: SmtpSink, other: SecondClient) -> None:
    parent = told(call(agent, "get_email", message_id=id_of(agent, "second")))
    answer = call(
        agent, "reply_email", to="bob@example.org", subject="Re: second", body="b", in_reply_to=parent["message_id"]
    )
    assert told(answer) == {"status": "sent", "recipients": 1}
    mail = parsed(smtp_sink.wait_for(1)[0].raw)
    assert mail["In-Reply-To"] == parent["message_id"]
    assert mail["References"] == parent["message_id"]
    assert mail["Subject"] == "Re: second"
    assert found(agent, "ANSWERED") == ["second"]
    assert sum("\\Answered" in each.flags for each in other.listing("INBOX")) == 1


def test_references_are_the_parents_and_the_parent(
    house: Door, agent: Caller, smtp_sink: SmtpSink, other: SecondClient
) -> None:
    thread = "<a@x.example> <b@x.example> <c@x.example>"
    raw = (
        f"From: bob@example.org\r\nSubject: deep\r\nMessage-ID: <d@x.example>\r\nReferences: {thread}\r\n\r\nhello\r\n"
    )
    other.append("INBOX", Incoming(raw.encode()))
    assert [outcome.error for outcome in sync_now(house.settings, ["alice/work"])] == [""]
    reply: dict[str, object] = {
        "to": "bob@example.org",
        "subject": "Re: deep",
        "body": "b",
        "in_reply_to": "<d@x.example>",
    }
    told(call(agent, "reply_email", **reply))
    told(call(agent, "reply_email", **reply, references=["<b@x.example>"]))
    told(call(agent, "reply_email", **{**reply, "in_reply_to": "<unknown@x.example>"}))
    sent = [parsed(each.raw)["References"].split() for each in smtp_sink.wait_for(3)]
    assert sent == [[*thread.split(), "<d@x.example>"], ["<b@x.example>", "<d@x.example>"], ["<unknown@x.example>"]]


def test_a_parent_that_the_profile_does_not_see_gives_no_references(house: Door, smtp_sink: SmtpSink) -> None:
    narrow, whole = house.caller("alice", "narrow", None), house.caller("alice", "full", None)
    parent = told(call(whole, "get_email", message_id=id_of(whole, "second")))
    told(call(narrow, "reply_email", to="bob@example.org", subject="s", body="b", in_reply_to=parent["message_id"]))
    assert smtp_sink.wait_for(1)
    assert found(whole, "ANSWERED") == []


def test_ids_without_brackets_are_refused(agent: Caller, smtp_sink: SmtpSink) -> None:
    reply: dict[str, object] = {"to": "bob@example.org", "subject": "s", "body": "b", "in_reply_to": "<a@b>"}
    for wrong in ("id@example.org", "<a@b> <c@d>", "<a@b>\r\nBcc: x@y", "<>", ""):
        for changes in ({"in_reply_to": wrong}, {"references": ["<x@y>", wrong]}):
            refused = call(agent, "reply_email", **{**reply, **changes})
            assert refused.is_error
            assert "angle brackets" in refused.text
    assert smtp_sink.commands == []


def test_a_moved_message_keeps_its_id_and_others_stay(agent: Caller, other: SecondClient) -> None:
    uid = id_of(agent, "second")
    moved = told(call(agent, "move_email", message_id=uid, source_folder="INBOX", dest_folder="Archive"))
    assert moved == {"status": "moved", "message_id": moved["message_id"], "dest_folder": "Archive"}
    assert found(agent) == ["first", "attached", "fourth"]
    assert found(agent, folder="Archive") == ["second"]
    assert told(call(agent, "get_email", message_id=moved["message_id"], folder="Archive"))["subject"] == "second"
    assert upstream_subjects(other, "Archive") == ["second"]


def test_a_move_needs_two_writable_folders(agent: Caller, other: SecondClient) -> None:
    uid = id_of(agent, "second")
    pairs = [("INBOX", "Sent"), ("INBOX", "Secret plans"), ("INBOX", "Nowhere"), ("Nowhere", "INBOX")]
    said = [
        call(agent, "move_email", message_id=uid, source_folder=source, dest_folder=target).text
        for source, target in pairs
    ]
    no_folder = "No such folder. list_folders names the folders there are."
    assert said == ["This folder may be read only.", no_folder, no_folder, no_folder]
    assert len(other.listing("INBOX")) == len(MAILS)


def test_an_id_names_the_same_message_after_others_went(agent: Caller, other: SecondClient) -> None:
    uid = id_of(agent, "attached")
    told(call(agent, "delete_email", message_id=id_of(agent, "first")))
    assert told(call(agent, "get_email", message_id=uid))["subject"] == "attached"
    told(call(agent, "delete_email", message_id=uid))
    assert found(agent) == ["second", "fourth"]
    assert upstream_subjects(other) == ["second", "fourth"]


def test_deleting_one_message_leaves_what_others_marked(agent: Caller, other: SecondClient) -> None:
    assert told(call(agent, "delete_email", message_id=id_of(agent, "first"), expunge=False))["status"] == "deleted"
    assert upstream_subjects(other) == ["first", "second", "attached", "fourth"]
    assert found(agent, "DELETED") == ["first"]
    told(call(agent, "delete_email", message_id=id_of(agent, "second")))
    assert upstream_subjects(other) == ["first", "attached", "fourth"]


def test_marking_as_read_is_idempotent(agent: Caller, other: SecondClient) -> None:
    uid = id_of(agent, "second")
    for _ in range(2):
        assert told(call(agent, "mark_email_read", message_id=uid)) == {"status": "marked_read", "message_id": uid}
    assert told(call(agent, "get_email", message_id=uid))["read"] is True
    assert sum("\\Seen" in each.flags for each in other.listing("INBOX")) == 1
    refused = call(agent, "mark_email_read", message_id=uid, folder="Sent")
    assert refused.text == "This folder may be read only."


def test_a_folder_is_created_and_used_at_once(agent: Caller) -> None:
    assert told(call(agent, "create_folder", folder_name="Rechnungen/März")) == {
        "status": "created",
        "folder": "Rechnungen/März",
    }
    assert "Rechnungen/März" in [each["name"] for each in told(call(agent, "list_folders"))]
    assert call(agent, "create_folder", folder_name="Archive").text == "There is a folder of that name already."
    for name in ("Secret more", "INBOX\r\nX", "a*b", "/", "x//y"):
        assert call(agent, "create_folder", folder_name=name).is_error


def test_a_message_is_stored_as_it_is(agent: Caller, other: SecondClient) -> None:
    raw = base64.b64encode(MAILS[0].raw).decode()
    stored = call(agent, "append_email", folder="Archive", raw_message=raw, flags=["\\Seen"])
    assert told(stored) == {"status": "appended", "folder": "Archive"}
    [listed] = other.listing("Archive")
    assert listed.flags == {"\\Seen"}
    assert upstream_subjects(other, "Archive") == ["first"]
    assert call(agent, "append_email", raw_message=raw).text == "This folder may be read only."
    for wrong in ({"raw_message": "***"}, {"raw_message": base64.b64encode(b"no mail").decode()}, {"raw_message": ""}):
        assert call(agent, "append_email", folder="Archive", **wrong).is_error
    assert call(agent, "append_email", folder="Archive", raw_message=raw, flags=["\\Deleted"]).is_error
    assert len(other.listing("Archive")) == 1


def test_an_attachment_is_saved_in_the_workspace(house: Door, agent: Caller) -> None:
    uid = id_of(agent, "attached")
    names = told(call(agent, "get_email", message_id=uid))["attachments"]
    assert names == ["Résumé.pdf", "note.txt", "note (2).txt", "evil.txt"]

    def saved(filename: str, output_dir: str = "inbox/new") -> Path:
        answer = told(call(agent, "download_attachment", message_id=uid, filename=filename, output_dir=output_dir))
        path = Path(answer["path"])
        assert answer["filename"] == path.name
        assert path.parent == workspace(house) / output_dir
        return path

    assert saved("Résumé.pdf").read_bytes() == PDF
    assert saved("Re\u0301sume\u0301.PDF").name == "Résumé (2).pdf"
    assert saved("note.txt").read_bytes() == b"one"
    assert saved("note (2).txt", "").read_bytes() == b"two"
    assert saved("../../evil.txt").read_bytes() == b"evil"
    told(call(agent, "send_email", to="bob@example.org", subject="s", body="b", attachments=[str(saved("note.txt"))]))


def test_nothing_is_made_or_fetched_for_a_bad_folder(house: Door, agent: Caller, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    workspace(house).mkdir(parents=True)
    (workspace(house) / "link").symlink_to(tmp_path / "outside")
    uid = id_of(agent, "attached")
    for folder in ("../../outside", "/tmp/outside", "link", "link/deeper", "a\x01b", "..", "/"):
        refused = call(agent, "download_attachment", message_id=uid, filename="note.txt", output_dir=folder)
        assert refused.is_error
        assert "workspace" in refused.text
        assert str(tmp_path) not in refused.text
    assert not list((tmp_path / "outside").iterdir())
    assert [each.name for each in workspace(house).iterdir()] == ["link"]


def test_a_missing_attachment_has_the_pages_text(house: Door, agent: Caller) -> None:
    uid = id_of(agent, "attached")
    missing = call(agent, "download_attachment", message_id=uid, filename="x.pdf", output_dir="new")
    assert missing.text == "Attachment not found: x.pdf"
    assert not (workspace(house) / "new").exists()


def test_changes_count_against_the_minute_and_reads_do_not(house: Door) -> None:
    limited = house.caller("alice", "limited", None)
    uid = id_of(limited, "second")
    for _ in range(2):
        told(call(limited, "mark_email_read", message_id=uid))
    refused = call(limited, "mark_email_read", message_id=uid)
    assert refused.text == "Rate limit exceeded. Please try again later."
    assert 1 <= refused.result["structuredContent"]["retry_after_seconds"] <= MINUTE
    told(call(limited, "search_emails"))


def test_sends_count_against_the_hour_over_a_restart(house: Door, smtp_sink: SmtpSink) -> None:
    mail: dict[str, object] = {"to": ["bob@example.org"], "subject": "s", "body": "b"}
    limited = house.caller("alice", "limited", None)
    assert call(limited, "send_email", **{**mail, "to": ["eve@evil.example"]}).is_error
    for _ in range(2):
        told(call(limited, "send_email", **mail))
    refused = call(limited, "send_email", **mail)
    assert refused.text == "Rate limit exceeded. Please try again later."
    assert HOUR - 60 <= refused.result["structuredContent"]["retry_after_seconds"] <= HOUR
    assert len(smtp_sink.messages) == 2
    with Door(
        house.settings.model_copy(update={"server": house.settings.server.model_copy(update={"port": free_port()})})
    ) as again:
        limited = again.caller("alice", "limited", None)
        assert call(limited, "send_email", **mail).text == "Rate limit exceeded. Please try again later."
    assert len(smtp_sink.messages) == 2


def test_offline_reads_work_and_changes_are_not_confirmed(house: Door, agent: Caller, dovecot: Dovecot) -> None:
    uid = id_of(agent, "second")
    dovecot.stop()
    assert told(call(agent, "get_email", message_id=uid))["subject"] == "second"
    for tool, arguments in (
        ("mark_email_read", {"message_id": uid}),
        ("move_email", {"message_id": uid, "source_folder": "INBOX", "dest_folder": "Archive"}),
        ("delete_email", {"message_id": uid}),
        ("create_folder", {"folder_name": "New"}),
    ):
        refused = call(agent, tool, **arguments)
        assert refused.is_error
        assert "cannot be reached" in refused.text
    big = call(agent, "download_attachment", message_id=id_of(agent, "attached"), filename="Résumé.pdf", output_dir="")
    assert "cannot be reached" in big.text
    kept = call(agent, "download_attachment", message_id=id_of(agent, "attached"), filename="note.txt", output_dir="")
    assert Path(told(kept)["path"]).read_bytes() == b"one"


def test_no_error_holds_a_host_a_secret_a_path_or_a_traceback(house: Door, agent: Caller, dovecot: Dovecot) -> None:
    said: list[Any] = []
    uid = id_of(agent, "second")
    for tool, arguments in (
        ("get_email", {"message_id": "../../etc"}),
        ("search_emails", {"criteria": "((("}),
        ("send_email", {"to": ["rcpt-550@example.org"], "subject": "s", "body": "b"}),
        ("send_email", {"to": ["hangup@example.org"], "subject": "s", "body": "b"}),
        ("send_email", {"to": ["bob@example.org"], "subject": "s", "body": "b", "attachments": ["/etc/shadow"]}),
        ("download_attachment", {"message_id": uid, "filename": "x", "output_dir": "/root"}),
        ("move_email", {"message_id": uid, "source_folder": "INBOX", "dest_folder": "x\r\ny"}),
    ):
        refused = call(agent, tool, **arguments)
        assert refused.is_error
        said.append(refused.result)
    text = json.dumps(said)
    for secret in (
        dovecot.password,
        "127.0.0.1",
        "Traceback",
        str(house.settings.server.data_dir),
        agent.secret,
        ".py",
    ):
        assert secret not in text
