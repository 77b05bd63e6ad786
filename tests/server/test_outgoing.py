"""What a profile may send: content rules, and people who have written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from config.profile import OutboundPolicy
from config.settings import ConfigError, parse_settings
from server.outgoing import Words, check_outbound
from server.policy import Recipient, parse_recipient
from tests.server.door import ASSISTANT, Answered, Caller, Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port
from tests.servers.smtp import SmtpSink

BOB = parse_recipient("bob@example.org")


def nobody(_: Recipient) -> bool:
    """Nobody has written."""
    return False


def denied(words: Words, *rules: str) -> str | None:
    """The rule that a mail with these words breaks."""
    policy = OutboundPolicy(to_allow=("*",), content_deny=rules)
    found = check_outbound([BOB], words, policy, nobody)
    return None if found is None else found.reason


@pytest.mark.parametrize(
    "words",
    [
        Words("project falcon", ""),
        Words("", "About PROJECT Falcon, as said"),
        Words("", "About project\nfalcon"),
        Words("", "Pro\u200bject\u00a0\uff26alc\u00f6n"),
        Words("", "", "<p>Project <b>Fal</b>con</p>"),
        Words("", "", "<p>Project&nbsp;Falcon</p>"),
        Words("", "", "Project<br>Falcon"),
        Words("", "", beside=("project falcon.pdf",)),
    ],
)
def test_denied_content_is_found_however_it_is_written(words: Words) -> None:
    assert denied(words, "harmless", r"project\s+falcon") == (
        "content not allowed by the outbound policy, rule 2 of content_deny"
    )


def test_other_content_may_be_sent() -> None:
    assert denied(Words("project", "falcon"), r"project\s+falcon", r"\d{16}") is None


def test_a_content_rule_that_cannot_be_used_is_named_when_the_file_is_read() -> None:
    text = "[profiles.a.outbound]\nto_allow = ['*']\ncontent_deny = ['ok', '(']"
    with pytest.raises(ConfigError, match=r"content_deny\.1: .*missing \)"):
        parse_settings(text, Path("postmirror.toml"))


@pytest.mark.parametrize(
    "page",
    [
        "<b>pro</b>ject falcon",
        "pro<b title='>'>ject falcon</b>",
        'pro<b title="<">ject falcon</b>',
        "pro<b title=a'b>ject falcon</b>",
        "pro<!-- > -->ject falcon",
        "project<br title='>'>falcon",
    ],
)
def test_tags_do_not_keep_a_words_letters_apart(page: str) -> None:
    assert denied(Words("", "", html=page), "project falcon") is not None


def test_html_counts_for_the_length() -> None:
    policy = OutboundPolicy(to_allow=("*",), max_chars=10)
    assert check_outbound([BOB], Words("1234", "56", "78"), policy, nobody) is None
    assert check_outbound([BOB], Words("1234", "56", "78901"), policy, nobody) is not None


def send(caller: Caller, *to: str) -> Answered:
    """Send a mail to these people."""
    return caller.call("send_message", from_="alice@example.org", to=list(to), subject="Re", body="Yes.")


@pytest.fixture
def open_door(data_dir: Path, smtp_sink: SmtpSink) -> Callable[[dict[str, object]], Door]:
    """The application over a mailbox that several people have written to."""

    def start(content: dict[str, object]) -> Door:
        outbound = {"to_allow": ["*"], "reply_only": True, "per_hour": 2}
        profile = {**ASSISTANT, "content": content, "outbound": outbound}
        settings = settings_for(data_dir, free_port(), smtp_port=smtp_sink.port, profiles={"assistant": profile})
        folders = [
            Folder(
                "INBOX", [Mail(sender="Bob <Bob@XN--BCHER-KVA.example>"), Mail(sender="jim.bob@example.org", minutes=1)]
            ),
            Folder("Secret", [Mail(sender="eve@example.org")]),
            Folder("Sent", [Mail(sender="sent@example.org")], role="\\Sent"),
            Folder("Spam", [Mail(sender="spammer@example.org")], role="\\Junk"),
        ]
        fill_mirror(settings, "alice", "work", folders)
        return Door(settings)

    return start


def test_a_profile_that_may_only_reply_writes_to_people_whose_mail_it_reads(
    open_door: Callable[[dict[str, object]], Door], smtp_sink: SmtpSink
) -> None:
    with open_door({}) as door:
        caller = door.caller()
        strangers = (
            "bob@example.org",
            "eve@example.org",
            "sent@example.org",
            "spammer@example.org",
            "im.bob@example.org",
        )
        for stranger in strangers:
            refused = send(caller, "jim.bob@example.org", stranger)
            assert "may only write to people whose mail it can read here" in refused.text
            assert stranger in refused.text
            assert "jim.bob" not in refused.text.replace(stranger, "")
        assert smtp_sink.commands == []
        # What the policy refused counts for nothing: both mails of this hour are still there.
        assert not send(caller, "bob@b\u00fccher.example").is_error
        assert not send(caller, "JIM.BOB@Example.org").is_error
        assert "hourly limit" in send(caller, "jim.bob@example.org").text


@pytest.mark.parametrize(
    "content",
    [
        {"from_deny": ["jim.bob@*"]},
        {"max_age": "1s"},
        {"redact": [{"pattern": "(?i)jim"}]},
    ],
)
def test_mail_that_a_profile_does_not_see_makes_nobody_known(
    open_door: Callable[[dict[str, object]], Door], content: dict[str, object], smtp_sink: SmtpSink
) -> None:
    with open_door(content) as door:
        assert "may only write to people" in send(door.caller(), "jim.bob@example.org").text
    assert smtp_sink.commands == []


def test_without_a_mirror_nobody_is_known(data_dir: Path, smtp_sink: SmtpSink) -> None:
    profile = {**ASSISTANT, "outbound": {"to_allow": ["*"], "reply_only": True}}
    settings = settings_for(data_dir, free_port(), smtp_port=smtp_sink.port, profiles={"assistant": profile})
    with Door(settings) as door:
        assert "may only write to people" in send(door.caller(), "bob@example.org").text
