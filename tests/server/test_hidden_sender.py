"""A sender that the policy hides is hidden everywhere, also from what was given out before."""

from pathlib import Path

import pytest

from config.settings import load_settings
from server.live import LiveSettings
from server.relay import BAD_CURSOR, NO_MESSAGE
from tests.server.door import ONE_ACCOUNT, Door, Folder, Mail, fill_mirror
from tests.servers.ports import free_port

CONFIG = (
    ONE_ACCOUNT
    + """
[profiles.assistant]
folders = [{{ match = "*", access = "write" }}]
content = {{ from_deny = [{denied}], attachments = {{}}, attachment_links = "signed" }}
"""
)
MALLORY = "Mallory <mallory@evil.example>"
REPORT = (("mallory.pdf", "application/pdf", b"%PDF"),)


def test_a_sender_hidden_by_an_edit_is_hidden_everywhere(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.live.STABLE_SECONDS", 0.0)
    path, fixed = data_dir.parent / "postmirror.toml", {"data_dir": data_dir, "port": free_port()}
    path.touch(mode=0o600)
    path.write_text(CONFIG.format(**fixed, denied=""))
    live = LiveSettings(path, load_settings)
    hidden = [Mail(f"mallory {each}", MALLORY, minutes=each, attachments=REPORT) for each in range(25)]
    kept = [Mail(f"kept {each}", minutes=100 + each) for each in range(3)]
    fill_mirror(live.in_force().settings, "alice", "work", [Folder("INBOX", [*hidden, *kept])])
    with Door(live) as door:
        caller = door.caller()
        page = caller.call("list_messages", folder="INBOX").value
        uid = next(each["uid"] for each in page["messages"] if each["subject"].startswith("mallory"))
        [attachment] = caller.call("read_message", folder="INBOX", uid=uid).value["attachments"]
        path.write_text(CONFIG.format(**fixed, denied='"*@evil.example"'))
        answers = [
            caller.call("list_messages", folder="INBOX"),
            caller.call("list_messages", folder="INBOX", query="from mallory"),
            caller.call("list_messages", folder="INBOX", query="not subject nothing order by from"),
            caller.call("search_messages", folder="INBOX", query="subject mallory"),
            caller.call("search_messages", folder="INBOX", query="body hello order by date"),
            caller.call("read_message", folder="INBOX", uid=uid),
            caller.call("read_messages", folder="INBOX", uids=[uid]),
            caller.call("update_message_flags", folder="INBOX", uid=uid, flags=["seen"], action="add"),
            caller.call("list_messages", folder="INBOX", cursor=page["next_cursor"]),
            caller.call("list_folders"),
        ]
        assert not [answer for answer in answers if b"mallory" in answer.bytes.lower()]
        assert [len(answer.value["messages"]) for answer in answers[:5]] == [3, 0, 3, 0, 3]
        assert not [answer for answer in answers[:5] if "next_cursor" in answer.value]
        assert answers[5].text == answers[7].text == NO_MESSAGE
        assert answers[6].value["messages"] == [{"uid": uid, "error": NO_MESSAGE}]
        assert answers[8].text == BAD_CURSOR
        downloads = [caller.get(attachment["url"]), door.http.get(attachment["signed_url"])]
        assert {(each.status_code, each.content) for each in downloads} == {(404, b'{"error":"not_found"}')}
