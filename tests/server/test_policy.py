"""What a profile may see and send: the pure rules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.identity import ContentPolicy, OutboundPolicy, Profile
from mirror.message import Address, Attachment
from mirror.mirrored import FolderState, MirroredMessage, State
from server.policy import (
    NotAnAddress,
    check_outbound,
    check_recipients,
    folder_access,
    parse_recipient,
    restricts,
    visible,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PDF = Attachment("2", "a.pdf", "application/pdf", 5_000)
MESSAGE = MirroredMessage(
    id=1,
    folder="INBOX",
    folder_id=1,
    uid=1,
    content=1,
    state=State.WHOLE,
    flags=frozenset(),
    internaldate=NOW - timedelta(days=10),
    size=100,
    subject="Salary 2026",
    from_=(Address("Bob", "Bob@Example.ORG"),),
    preview="Hello",
    attachments=(PDF,),
    text="Hello",
    html="<p>Hello</p>",
)


def folder(name: str, role: str = "") -> FolderState:
    """A folder of that name and special use."""
    return FolderState(1, name.encode(), name, "/", (), role, True, 1, None, True, 0, 0, 0, "")


@pytest.mark.parametrize(
    ("rules", "name", "role", "access"),
    [
        ([], "INBOX", "", "hidden"),
        ([("*", "read")], "Anything/deep", "", "read"),
        ([("Private*", "hidden"), ("*", "write")], "Private/x", "", "hidden"),
        ([("Private*", "hidden"), ("*", "write")], "private", "", "write"),
        ([("*", "read"), ("INBOX", "write")], "INBOX", "", "read"),
        ([("inbox", "write")], "INBOX", "", "write"),
        ([("INBOX", "write")], "Inbox", "", "write"),
        ([("In*", "write")], "INBOX", "", "write"),
        ([("inbox/*", "write")], "INBOX/x", "", "hidden"),
        ([("\\Sent", "read")], "Gesendet", "\\Sent", "read"),
        ([("\\sent", "read")], "Gesendet", "\\Sent", "read"),
        ([("\\Sent", "read")], "Sent", "", "hidden"),
        ([("Archive/202?", "read")], "Archive/2024", "", "read"),
        ([("[Gmail]/*", "hidden"), ("*", "read")], "[Gmail]/All Mail", "", "hidden"),
        ([("[Gmail]/*", "read")], "G/All Mail", "", "hidden"),
        ([("Entwu\u0308rfe", "read")], "Entw\u00fcrfe", "", "read"),
    ],
)
def test_the_first_rule_that_matches_decides(rules: list[tuple[str, str]], name: str, role: str, access: str) -> None:
    profile = Profile.model_validate({"folders": [{"match": match, "access": access} for match, access in rules]})
    assert folder_access(folder(name, role), profile) == access


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        ({}, True),
        ({"max_age": "11d"}, True),
        ({"max_age": "9d"}, False),
        ({"from_deny": ["bob@example.org"]}, False),
        ({"from_deny": ["*@EXAMPLE.org"]}, False),
        ({"from_deny": ["*@example.com"]}, True),
        ({"from_allow": ["*@example.org"]}, True),
        ({"from_allow": ["*@example.com"]}, False),
        ({"from_allow": ["*@example.org"], "from_deny": ["bob@*"]}, False),
        ({"subject_deny": ["*SALARY*"]}, False),
        ({"subject_deny": ["salary"]}, True),
    ],
)
def test_a_message_is_seen_or_not(policy: dict[str, Any], seen: bool) -> None:
    assert (visible(MESSAGE, ContentPolicy.model_validate(policy), NOW) is not None) == seen


def test_one_denied_sender_of_several_hides_and_none_at_all_is_not_allowed() -> None:
    two = replace(MESSAGE, from_=(Address("", "a@x.example"), Address("", "b@y.example")))
    nobody = replace(MESSAGE, from_=())
    assert visible(two, ContentPolicy(from_deny=("*@y.example",)), NOW) is None
    assert visible(two, ContentPolicy(from_allow=("*@x.example",)), NOW) is None
    assert visible(nobody, ContentPolicy(from_allow=("*",)), NOW) is None
    assert visible(nobody, ContentPolicy(from_deny=("*",)), NOW) is not None


def test_fields_are_withheld_one_by_one() -> None:
    plain = visible(MESSAGE, ContentPolicy(), NOW)
    assert plain is not None
    assert (plain.text, plain.html, plain.attachments) == ("Hello", None, ())
    rich = visible(MESSAGE, ContentPolicy.model_validate({"html": True, "attachments": {}}), NOW)
    assert rich == MESSAGE
    headers = visible(MESSAGE, ContentPolicy(bodies=False, html=True), NOW)
    assert headers is not None
    assert (headers.text, headers.preview, headers.html) == ("", "", None)


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ({}, True),
        ({"types": ["application/*"]}, True),
        ({"types": ["APPLICATION/PDF"]}, True),
        ({"types": ["image/*", "text/plain"]}, False),
        ({"max_size": 5_000}, True),
        ({"max_size": 4_999}, False),
    ],
)
def test_attachments_are_allowed_by_type_and_size(rule: dict[str, Any], allowed: bool) -> None:
    shown = visible(MESSAGE, ContentPolicy.model_validate({"attachments": rule}), NOW)
    assert shown is not None
    assert shown.attachments == ((PDF,) if allowed else ())


policies = st.builds(
    ContentPolicy,
    bodies=st.booleans(),
    html=st.booleans(),
    max_age=st.none() | st.integers(1, 20).map(lambda days: timedelta(days=days)),
    from_allow=st.sampled_from([(), ("*@example.org",), ("*@example.com",)]),
    from_deny=st.sampled_from([(), ("bob@*",)]),
    subject_deny=st.sampled_from([(), ("*2026*",)]),
)


@given(policies)
def test_visible_is_idempotent_and_never_adds(policy: ContentPolicy) -> None:
    once = visible(MESSAGE, policy, NOW)
    if once is not None:
        assert visible(once, policy, NOW) == once
        assert (once.subject, once.from_, once.flags, once.size) == (
            MESSAGE.subject,
            MESSAGE.from_,
            MESSAGE.flags,
            MESSAGE.size,
        )
    if not restricts(policy):
        assert once is not None
        assert (once.text, once.preview) == (MESSAGE.text, MESSAGE.preview)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("bob@example.org", "bob@example.org"),
        (" bob@EXAMPLE.org ", "bob@example.org"),
        ("Bob.X+tag@example.org", "Bob.X+tag@example.org"),
        ("bob@b\u00fccher.example", "bob@xn--bcher-kva.example"),
        ("bob@XN--BCHER-KVA.example", "bob@xn--bcher-kva.example"),
        ("j\u00f6rg@example.org", "j\u00f6rg@example.org"),
    ],
)
def test_a_plain_address_is_brought_to_one_spelling(text: str, address: str) -> None:
    assert parse_recipient(text).address == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bob",
        "@example.org",
        "bob@",
        "a@b@example.org",
        "bob@example..org",
        "bob@example.org.",
        "bob@[127.0.0.1]",
        "bob@exa mple.org",
        '"a b"@example.org',
        ".bob@example.org",
        "bob.@example.org",
        "b..b@example.org",
        "bob@example.org>",
        "<bob@example.org>",
        "bob@example.org\r\nRCPT TO:<eve@example.org>",
        "bob\u00a0@example.org",
        "bob@example.org,eve@example.org",
        "b@" + "x" * 64 + ".org",
        "x" * 65 + "@example.org",
    ],
)
def test_what_is_not_one_plain_address_is_refused(text: str) -> None:
    with pytest.raises(NotAnAddress):
        parse_recipient(text)


@pytest.mark.parametrize(
    ("allow", "deny", "denied"),
    [
        (["*"], [], []),
        (["*@example.org"], [], ["carol@other.example"]),
        (["BOB@EXAMPLE.ORG"], [], ["carol@other.example"]),
        (["*"], ["*@other.example"], ["carol@other.example"]),
        (["*"], ["*"], ["bob@example.org", "carol@other.example"]),
        (["example.org"], [], ["bob@example.org", "carol@other.example"]),
    ],
)
def test_recipients_are_denied_by_name(allow: list[str], deny: list[str], denied: list[str]) -> None:
    policy = OutboundPolicy(to_allow=tuple(allow), to_deny=tuple(deny))
    recipients = [parse_recipient("bob@example.org"), parse_recipient("carol@other.example")]
    assert list(check_recipients(recipients, policy)) == denied


def test_without_an_outbound_policy_nothing_may_be_sent() -> None:
    assert check_outbound([parse_recipient("bob@example.org")], 1, None) is not None
