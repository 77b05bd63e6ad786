"""`postmirror policy show`: what an operator reads is what the token's client gets."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from config.settings import load_settings
from server.cli import main
from tests.server.door import Door, Folder, Mail, fill_mirror

CONFIGURATION = r"""
[server]
data_dir = "data"
port = 1

[users.alice.providers.work]
address = "alice@example.org"
imap = { host = "127.0.0.1", port = 9, security = "plain" }

[profiles.narrow]
allow = ["list_folders", "list_messages", "read_message"]
folders = [
    { match = "Secret*", access = "hidden" },
    { match = "INBOX", access = "write" },
    { match = "*", access = "read" },
]
outbound = { to_allow = ["*"] }

[profiles.narrow.content]
from_deny = ["mallory@*"]
redact = ["ibans", { pattern = 'K-\d{6}' }]
links = "domain"
attachments = { types = ["image/*"] }

[profiles.owner]
tools = "gateway"
folders = [{ match = "*", access = "write" }]

[[tokens]]
name = "desk"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
user = "alice"
profile = "narrow"

[[tokens]]
name = "house"
sha256 = "1111111111111111111111111111111111111111111111111111111111111111"
user = "alice"
profile = "owner"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file with the token desk."""
    path = tmp_path / "postmirror.toml"
    path.write_text(CONFIGURATION, "utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture
def mirrored(config: Path) -> Path:
    """The same, with a mirror."""
    mails = [Mail(minutes=1), Mail(sender="mallory@evil.example", minutes=2), Mail("about K-123456", minutes=3)]
    folders = [
        Folder("INBOX", mails),
        Folder("Secret plans", [Mail()]),
        Folder("[Gmail]/All Mail", mails, role="\\All"),
        Folder("[Gmail]", selectable=False),
        Folder("Open/Secret child", [Mail()]),
    ]
    fill_mirror(load_settings(config), "alice", "work", folders)
    return config


def show(config: Path, name: str, *options: str) -> Result:
    """The command's output."""
    return CliRunner().invoke(main, ["policy", "show", name, "--config", str(config), *options])


def shown(config: Path, name: str) -> Any:
    """What it says for programs."""
    return json.loads(show(config, name, "--json").stdout)


def test_each_folder_is_shown_with_what_the_token_sees_of_it(mirrored: Path) -> None:
    [mailbox] = shown(mirrored, "desk")["mailboxes"]
    assert [(each["folder"], each["access"], each["messages"], each["visible"]) for each in mailbox["folders"]] == [
        ("INBOX", "write", 3, 2),
        ("Open/Secret child", "read", 1, 1),
        ("Secret plans", "hidden", 1, 0),
        ("[Gmail]/All Mail", "read", 3, 2),
    ]


def test_the_counts_and_tools_are_those_that_a_client_meets(mirrored: Path) -> None:
    found = shown(mirrored, "desk")
    visible = {
        each["folder"]: each["visible"] for each in found["mailboxes"][0]["folders"] if each["access"] != "hidden"
    }
    with Door(load_settings(mirrored)) as door:
        caller = door.caller(profile="narrow")
        offered = [tool["name"] for tool in caller.request("tools/list").result["tools"]]
        names = caller.call("list_folders").value["folders"]
        counts = {name: len(caller.call("list_messages", folder=name).value["messages"]) for name in names}
    assert found["may"]["tools"] == ", ".join(offered)
    assert counts == visible


def test_rules_are_said_by_their_keys_and_what_may_surprise_is_noted(mirrored: Path) -> None:
    found = shown(mirrored, "desk")
    assert found["condition"] == "valid"
    assert found["sees"]["redact"] == r"ibans, K-\d{6}"
    assert found["sees"]["links"] == "domain"
    assert found["may"]["reply_only"] == "strangers too"
    notes = " ".join(found["warnings"])
    assert "Open/Secret child is shown: Secret* is compared with the whole name" in notes
    assert "Secret plans is shown" not in notes
    for note in ("holds the mail of every folder", "may be sent to anybody", "nothing is left out of attachments"):
        assert note in notes


def test_the_table_shows_folders_rules_and_notes(mirrored: Path) -> None:
    text = show(mirrored, "desk").stdout
    for piece in ("desk: valid", "INBOX", "[Gmail]/All Mail", "write", "hidden", r"K-\d{6}", "note: "):
        assert piece in text


def test_a_gateway_token_is_offered_what_its_profile_grants(mirrored: Path) -> None:
    tools = shown(mirrored, "house")["may"]["tools"].split(", ")
    assert "search_emails" in tools
    assert "send_email" not in tools


def test_the_limits_that_a_gateway_has_by_default_are_shown_for_it_alone(config: Path) -> None:
    said = {}
    for name in ("house", "desk"):
        shown = CliRunner().invoke(main, ["policy", "show", name, "--json", "--config", str(config)])
        said[name] = json.loads(shown.stdout)["may"]
    assert said["house"]["imap_per_minute"] == "60"
    assert said["house"]["smtp_per_hour"] == "100"
    assert said["house"]["count_reads"] == "reads do not count"
    assert "imap_per_minute" not in said["desk"]


def test_without_a_mirror_the_rules_are_shown_all_the_same(config: Path) -> None:
    [mailbox] = shown(config, "desk")["mailboxes"]
    assert (mailbox["is_mirrored"], mailbox["folders"]) == (False, [])
    assert "not mirrored yet" in show(config, "desk").stdout


def test_a_revoked_token_is_said_to_be_revoked(config: Path) -> None:
    CliRunner().invoke(main, ["token", "revoke", "desk", "--config", str(config)])
    assert shown(config, "desk")["condition"] == "revoked"


def test_a_token_that_nobody_knows_is_an_error(config: Path) -> None:
    refused = show(config, "phone")
    assert refused.exit_code == 1
    assert "there is no token 'phone'" in refused.output
