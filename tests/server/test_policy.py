"""What a profile may see and send: the pure rules."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.profile import AttachmentRule, ContentPolicy, OutboundPolicy, Profile
from mirror.message import Address, Attachment
from mirror.mirrored import FolderState, MirroredMessage, State
from mirror.query.tree import Contains, Not, Query, Size
from server.outgoing import Words, check_outbound, check_recipients
from server.policy import (
    NotAnAddress,
    folder_access,
    parse_recipient,
    restricts,
    shows_whole,
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
        ([("\\Gmail", "hidden"), ("*", "read")], "[Gmail]/All Mail", "\\All", "hidden"),
        ([("\\gmail", "hidden"), ("*", "read")], "[Google Mail]/Alle Nachrichten", "\\All", "hidden"),
        ([("\\Gmail", "hidden"), ("*", "read")], "Receipts", "", "read"),
        ([("\\Important", "read")], "[Gmail]/Wichtig", "\\Important", "read"),
        ([("\\All", "hidden"), ("*", "read")], "[Gmail]/Todos", "\\All", "hidden"),
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
    two = MESSAGE._replace(from_=(Address("", "a@x.example"), Address("", "b@y.example")))
    nobody = MESSAGE._replace(from_=())
    assert visible(two, ContentPolicy(from_deny=("*@y.example",)), NOW) is None
    assert visible(two, ContentPolicy(from_allow=("*@x.example",)), NOW) is None
    assert visible(nobody, ContentPolicy(from_allow=("*",)), NOW) is None
    assert visible(nobody, ContentPolicy(from_deny=("nobody@x",)), NOW) is None


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
        assert (once.subject, once.from_, once.flags) == (MESSAGE.subject, MESSAGE.from_, MESSAGE.flags)
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
    assert check_outbound([parse_recipient("bob@example.org")], Words("", ""), None, lambda _: True) is not None


@pytest.mark.parametrize(
    ("allow", "deny", "address", "may"),
    [
        ("sam@example.org", "x@x", "SAM@Example.ORG", True),
        ("sam@example.org", "x@x", "\u017fam@example.org", False),
        ("boss@example.org", "x@x", "bo\u00df@example.org", False),
        ("bo\u00df@example.org", "x@x", "boss@example.org", False),
        ("*@b\u00fccher.example", "x@x", "bob@xn--bcher-kva.example", True),
        ("*@xn--bcher-kva.example", "x@x", "bob@B\u00dcCHER.example", True),
        ("*@*.b\u00fccher.example", "x@x", "bob@mail.xn--bcher-kva.example", True),
        ("*", "J\u00d6RG@*", "j\u00f6rg@example.org", False),
        ("*", "sam@*", "\u017fam@example.org", False),
        ("*", "*@*b\u00fccher.example", "bob@xn--bcher-kva.example", False),
        ("*", "*@secret.example.", "bob@secret.example", False),
    ],
)
def test_what_allows_a_recipient_is_narrow_and_what_denies_is_wide(
    allow: str, deny: str, address: str, may: bool
) -> None:
    policy = OutboundPolicy(to_allow=(allow,), to_deny=(deny,))
    assert (check_recipients([parse_recipient(address)], policy) == ()) is may


@pytest.mark.parametrize(
    "sender",
    [
        Address("", "ceo@secret.example"),
        Address("", "CEO@Secret.Example."),
        Address("", "'ceo@secret.example'"),
        Address("", "[ceo@secret.example]"),
        Address("", '"ceo"@secret.example'),
        Address("ceo@secret.example", ""),
        Address("CEO <ceo@secret.example>", ""),
        Address("the 'ceo@secret.example'", "x@other.example"),
        Address("ceo\uff20secret.example", ""),
        Address("", "\uff43eo@secret.example"),
        Address("", "ceo@secret\u3002example"),
        Address("CEO", ""),
    ],
)
def test_a_denied_sender_stays_denied_in_every_spelling(sender: Address) -> None:
    message = MESSAGE._replace(from_=(sender,))
    assert visible(message, ContentPolicy(from_deny=("ceo@secret.example",)), NOW) is None
    assert visible(message, ContentPolicy(from_deny=("*@SECRET.example.",)), NOW) is None


@pytest.mark.parametrize("pattern", ["*@b\u00fccher.example", "*@xn--bcher-kva.example", "*@BU\u0308CHER.example"])
@pytest.mark.parametrize("address", ["a@b\u00fccher.example", "a@XN--BCHER-KVA.example", "a@bu\u0308cher.example."])
def test_a_sender_rule_names_both_spellings_of_a_domain(pattern: str, address: str) -> None:
    message = MESSAGE._replace(from_=(Address("", address),))
    assert visible(message, ContentPolicy(from_deny=(pattern,)), NOW) is None
    assert visible(message, ContentPolicy(from_allow=(pattern,)), NOW) is not None


@pytest.mark.parametrize(
    "subject", ["\uff33alary r\u00e9sum\u00e9", "SALARY RE\u0301SUME\u0301", "a salary r\u00e9sum\u00e9"]
)
@pytest.mark.parametrize("pattern", ["*salary r\u00e9sum\u00e9*", "*Salary re\u0301sume\u0301*"])
def test_a_denied_subject_stays_denied_in_every_spelling(subject: str, pattern: str) -> None:
    assert visible(MESSAGE._replace(subject=subject), ContentPolicy(subject_deny=(pattern,)), NOW) is None


@pytest.mark.parametrize("address", ["o'brien@example.org", "bob@example.org", "weird@x", "a@b@c"])
def test_a_deny_rule_for_others_hides_no_ordinary_sender(address: str) -> None:
    message = MESSAGE._replace(from_=(Address("Bob (work)", address),))
    assert visible(message, ContentPolicy(from_deny=("ceo@secret.example",)), NOW) is not None


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (ContentPolicy(attachments=AttachmentRule()), {"hidden_chars", "idn_sender", "att_path"}),
        (ContentPolicy(), {"hidden_chars", "idn_sender"}),
        (ContentPolicy(bodies=False), {"idn_sender"}),
    ],
)
def test_findings_about_what_is_withheld_are_withheld_too(policy: ContentPolicy, told: set[str]) -> None:
    message = MESSAGE._replace(findings={"hidden_chars": 3, "idn_sender": 1, "att_path": 1})
    shown = visible(message, policy, NOW)
    assert shown is not None
    assert set(shown.findings) == told


def test_a_finding_about_attachments_is_withheld_where_one_of_them_is() -> None:
    message = MESSAGE._replace(attachments=(Attachment("2", "run.exe", "application/octet-stream", 9),))
    flagged = message._replace(findings={"att_active_type": 1})
    shown = visible(flagged, ContentPolicy(attachments=AttachmentRule(types=("application/pdf",))), NOW)
    assert shown is not None
    assert (shown.attachments, dict(shown.findings)) == ((), {})


@pytest.mark.parametrize(
    ("policy", "is_whole"),
    [
        (ContentPolicy(), True),
        (ContentPolicy(quoted="strip"), False),
        (ContentPolicy(links="domain", from_deny=("a@example.org",)), False),
        (ContentPolicy(from_deny=("a@example.org",), subject_deny=("x*",), max_age=timedelta(days=3), html=True), True),
        (ContentPolicy(bodies=False), False),
        (ContentPolicy(bodies=False, from_allow=("a@example.org",)), False),
    ],
)
def test_only_a_policy_that_drops_messages_shows_them_whole(policy: ContentPolicy, is_whole: bool) -> None:
    assert shows_whole(policy, Query(Contains("body", "x"))) == is_whole
    assert not shows_whole(policy, Query(Not(Size(">", 9))))
