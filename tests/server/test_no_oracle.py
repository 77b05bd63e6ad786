"""Search is no oracle: a restricted profile's answers are those of an unrestricted one over what it may see.

Two mirrors: one of everything, read under the policy; one of `visible(message)` for each message, read without. Every
answer to a sequence of calls must be the same, uids, cursors and attachment ids aside: each becomes the place where it
was first seen.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from config.profile import ContentPolicy
from mirror.content import Content, Envelope
from mirror.errors import QueryError
from mirror.listing import Listed, ListedFolder
from mirror.mirrored import MirroredMessage
from mirror.mirrored import State as Mirrored
from mirror.query.criteria import parse_criteria
from mirror.query.reader import Reader
from mirror.recording import record_of
from mirror.store import Checkpoint, Store
from server.app import Parts
from server.auth import Authenticator, Caller
from server.live import LiveSettings
from server.policy import visible
from server.redaction.markers import told
from server.relay import Relay
from server.relay_arguments import ListMessages, ReadMessage, ReadMessages
from server.said import Written
from server.shown import envelope
from server.state.store import State
from server.tool import Declined
from tests.server.door import Folder, Mail, fill_mirror, settings_for

CARD = "4111 1111 1111 1111"
SECRETS = (
    CARD,
    "\uff14\uff11\uff11\uff11-1111.1111 1111",
    "DE89 3704 0044 0532 0130 00",
    "Your verification code is 482913.",
    "K-123456",
    "noteK-123456note",
    "k\u0301K-123456\u0301z",
    "https://bob:pw@shop.example/reset?token=s3cret",
    "www.shop.example/noon#invoice",
    "On Mon, 2 Mar 2026 Bob wrote:\n> secret noon\n> K-123456\nbelow",
    "-----Original Message-----\nsecret below",
)
WORDS = ("invoice", "noon", "secret", "Zw\u00f6lf", "below")
SENDERS = (
    "Bob <bob@example.org>",
    "Carol <carol@shop.example>",
    "mallory@evil.example",
    "Alice <alice@example.org>",
    '"K-123456 Dave" <dave@example.org>',
    "K-777777@example.org",
)
FILES = (("a.pdf", "application/pdf", b"%PDF"), ("K-123456.txt", "text/plain", b"noon"))
PATTERNS = st.one_of(
    st.sampled_from((*WORDS, "oic", "n", "note", "shop", "wrote:", "z", "x", "is ")),
    st.sampled_from(("4111", "1111 1111", "123456", "K-", "s3c", "> secret", "482913", " 0130", "\u00ed")),
    st.sampled_from(("redacted", "card", "code", "[", "\u2026", "\ufdd1", "\ufdd8", "\ufdda", "note\ufdd8note")),
)
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
texts = st.lists(st.one_of(words, st.sampled_from(SECRETS)), min_size=1, max_size=4).flatmap(
    lambda pieces: st.sampled_from((" ", "\n", "")).map(lambda between: between.join(pieces))
)
subjects = st.one_of(words, texts.map(lambda text: " ".join(text.split())))
mail = st.builds(
    Mail,
    subject=subjects,
    sender=st.sampled_from(SENDERS),
    to=st.sampled_from(("alice@example.org", "Team <team@example.org>", '"Team K-123456" <t@example.org>')),
    text=st.one_of(texts, texts, st.builds(lambda text, count: f"{text}\n" * count, texts, st.integers(1, 12))),
    flags=st.sampled_from(((), ("\\Seen",), ("\\Flagged", "\\Seen"))),
    attachments=st.sampled_from(((), FILES[:1], FILES)),
)
mails = st.one_of(st.lists(mail, min_size=5, max_size=12), st.lists(mail, max_size=45)).map(
    lambda drawn: [replace(each, minutes=number * 40_000) for number, each in enumerate(drawn, -len(drawn))]
)
rules = st.lists(
    st.sampled_from(
        (
            "one_time_codes",
            "card_numbers",
            "ibans",
            {"pattern": r"K-\d{6}"},
            {"pattern": "(?i)secret", "with": ""},
            {"pattern": r"\d{3}", "with": "noon"},
            {"pattern": "^invoice", "with": "invoice"},
        )
    ),
    min_size=1,
    max_size=4,
    unique_by=str,
)
drops = st.sampled_from(
    (
        *({}, {}, {}, {"bodies": False}, {"max_age": "300d"}, {"max_age": "500d"}, {"from_allow": ["*example*"]}),
        *({"from_allow": ["*@example.org"]}, {"from_deny": ["mallory@*"]}, {"from_deny": ["*@example.org"]}),
        *({"subject_deny": ["*secret*"]}, {"subject_deny": ["invoice"], "from_deny": ["mallory@*"], "max_age": "500d"}),
    )
)
policies = st.builds(
    lambda limits, drop, rewriting: {**limits, **drop, **rewriting},
    st.fixed_dictionaries(
        {"max_body_chars": st.sampled_from([200, 20_000]), "max_answer_chars": st.sampled_from([1_000, 100_000])}
    ),
    drops,
    st.fixed_dictionaries(
        {},
        optional={
            "redact": rules,
            "links": st.sampled_from(["domain", "strip"]),
            "quoted": st.just("strip"),
            "attachments": st.sampled_from(
                [{"types": ["*/*"]}, {"types": ["text/*"]}, {"types": ["*/*"], "max_size": 3}]
            ),
        },
    ),
)
quoted = PATTERNS.map(lambda text: f'"{text}"')
conditions = st.one_of(
    st.builds("body {}".format, quoted),
    st.builds("{} {}".format, st.sampled_from(("subject", "body")), quoted),
    st.builds("{} {}".format, st.sampled_from(("from", "to")), st.sampled_from(("bob", "mallory", "123456", "dave"))),
    st.sampled_from(("flag seen", "flag flagged", "after 2025-06-01", "before 2025-01-01", "to team")),
)
filters = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
    ),
    max_leaves=4,
)
orders = st.sampled_from(("", " order by subject", " order by from desc date", " order by date", " order by to"))
queries = st.one_of(st.just(""), st.builds("{}{}".format, filters, orders), orders.map(str.strip))
criteria = st.one_of(
    st.builds(
        "{}{} {}".format, st.sampled_from(("", "NOT ")), st.sampled_from(("TEXT", "BODY", "SUBJECT", "FROM")), quoted
    ),
    st.builds("HEADER {} {}".format, st.sampled_from(("X-Note", "Subject", "To", "Message-ID")), quoted),
    st.builds("{} {}".format, st.sampled_from(("LARGER", "SMALLER")), st.sampled_from((5, 20, 60, 400, 1_500))),
    st.sampled_from(("1:3", "2,4", "*", "NOT 1:2")),
)
calls = st.one_of(
    st.tuples(st.just("list"), queries),
    st.tuples(st.just("list"), st.builds("{}{}".format, conditions, orders)),
    st.tuples(st.just("criteria"), criteria),
    st.tuples(st.just("read"), st.integers(0, 60)),
    st.tuples(st.just("read_many"), st.lists(st.integers(0, 60), min_size=1, max_size=20)),
)
Call = tuple[str, Any]


@dataclass
class Reading:
    """One profile's answers to a sequence of calls, with uids as the order in which they were first given."""

    relay: Relay
    parts: Parts
    caller: Caller
    policy: ContentPolicy
    seen: list[str] = field(default_factory=list)

    def answers(self, call: Call) -> Iterator[str]:
        """The bytes of every answer to a call, page by page, without what only its own identity can use."""
        kind, asked = call
        if kind == "list":
            yield from self._pages(asked)
        elif kind == "criteria":
            yield from self._found(asked)
        elif kind == "read":
            yield from self._pieces(self._uid(asked))
        else:
            uids = [self._uid(number) for number in asked]
            yield self._told(self.relay.read_messages, ReadMessages(folder="INBOX", uids=uids))

    def _uid(self, number: int) -> str:
        return self.seen[number] if number < len(self.seen) else "A" * 22

    def _pages(self, query: str) -> Iterator[str]:
        cursor: Any = None
        while True:
            asked = ListMessages(folder="INBOX", query=query, cursor=cursor)
            try:
                answer = self.relay.list_messages(self.caller, asked)
                cursor = json.loads(answer.text).get("next_cursor")
            except Declined:
                cursor = None
            yield self._told(self.relay.list_messages, asked)
            if cursor is None:
                return

    def _found(self, text: str) -> Iterator[str]:
        after = None
        with self.parts.mailboxes.open(self.caller) as mailbox:
            folder = mailbox.folder("INBOX")
            while True:
                try:
                    page = mailbox.page(folder, parse_criteria(text), after, 20)
                except QueryError as exc:
                    yield str(exc)
                    return
                uids = mailbox.uids(page.messages)
                yield self._mapped([envelope(uid, each) for uid, each in zip(uids, page.messages, strict=True)])
                after = page.after
                if after is None:
                    return

    def _pieces(self, uid: str) -> Iterator[str]:
        offset: Any = 0
        while offset is not None:
            asked = ReadMessage(folder="INBOX", uid=uid, offset=offset)
            yield self._told(self.relay.read_message, asked)
            try:
                answer: Any = self.relay.read_message(self.caller, asked)
                offset = answer.get("next_offset")
            except Declined:
                return

    def _told(self, tool: Any, asked: Any) -> str:
        try:
            return self._mapped(tool(self.caller, asked))
        except Declined as exc:
            return str(exc)

    def _mapped(self, value: Any) -> str:
        plain = self._plain(json.loads(value.text) if isinstance(value, Written) else value)
        return json.dumps(plain, sort_keys=True)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._plain(each) for each in value]
        if not isinstance(value, dict):
            return value
        plain = {name: self._plain(each) for name, each in value.items() if name not in ("as_of", "id", "url")}
        if "uid" in plain:
            if plain["uid"] not in self.seen and "error" not in plain:
                self.seen.append(plain["uid"])
            plain["uid"] = self.seen.index(plain["uid"]) if plain["uid"] in self.seen else "none"
        if "next_cursor" in plain:
            plain["next_cursor"] = "more"
        # What a policy says of itself: that bodies or attachments are withheld.
        if not self.policy.bodies:
            for name in ("body", "body_chars", "note"):
                plain.pop(name, None)
        if self.policy.attachments is False:
            plain.pop("attachments", None)
        return plain


def readings(folder: Path, mailbox: Sequence[Mail], policy: Mapping[str, Any], stack: ExitStack) -> list[Reading]:
    """The tools over a mirror of everything, restricted, and over one of what is visible, unrestricted."""
    profile = {"folders": [{"match": "*", "access": "read"}]}
    limits = {name: policy[name] for name in ("max_body_chars", "max_answer_chars")}
    configuration = settings_for(
        folder,
        1,
        profiles={
            "restricted": {**profile, "content": policy},
            "open": {**profile, "content": {"attachments": {}, **limits}},
        },
    )
    checked = ContentPolicy.model_validate(policy)
    live = LiveSettings.fixed(configuration)
    state = State(folder)
    stack.callback(state.close)
    parts = Parts.open(live, state)
    stack.callback(parts.close)
    # The unrestricted profile has no words for marks; they are those of the restricted one.
    stack.enter_context(patch("server.mailbox.told", lambda message, _: told(message, checked)))
    fill_mirror(configuration, "alice", "work", [Folder("INBOX", mailbox)])
    with Reader(configuration.mirror_dir("alice", "work") / "mirror.db") as reader:
        ids = [message.id for message in reader.page(1, None, None, 1_000).messages]
        everything = reader.find(1, ids, with_headers=True)
    now = datetime.now(UTC)
    fill_with_visible(
        configuration.mirror_dir("alice", "home"),
        [seen for message in everything if (seen := visible(message, checked, now)) is not None],
    )
    authenticator = Authenticator(live, state)
    relay = Relay(parts.mailboxes, parts.outbound, "http://x")
    return [
        Reading(relay, parts, authenticator.by_name("alice", "restricted", "work"), checked),
        Reading(relay, parts, authenticator.by_name("alice", "open", "home"), checked),
    ]


def fill_with_visible(folder: Path, shown: Sequence[MirroredMessage]) -> None:
    """A mirror of messages as a policy shows them."""
    with Store(folder) as store:
        store.set_folders([ListedFolder(b"INBOX", "INBOX", "/", (), "", True)])
        by_uid = {message.uid: message for message in shown}
        store.add_listed(
            1,
            [
                Listed(uid, tuple(message.flags), message.internaldate, message.size)
                for uid, message in sorted(by_uid.items())
            ],
        )
        contents = []
        for hole in store.holes(1, Mirrored.TEXT, 1_000):
            message = by_uid[hole.uid]
            digest = hashlib.sha256(str(hole.uid).encode()).digest()
            contents.append((hole.content, digest, record_of(as_content(message))))
        store.set_texts(contents)
        store.checkpoint(1, Checkpoint(1, len(shown) + 1, None, len(shown)), reconciled=True)


def as_content(message: MirroredMessage) -> Content:
    """A message as the content that a mail with just that would have."""
    written = Envelope(
        message.subject,
        message.from_,
        message.to,
        message.cc,
        message.bcc,
        message.reply_to,
        message.date,
        message.message_id,
        message.in_reply_to,
        message.references,
        message.headers or (),
        {},
    )
    return Content(written, message.text or "", message.preview, message.attachments, "", dict(message.findings), b"")


def check(mailbox: Sequence[Mail], policy: Mapping[str, Any], asked: Sequence[Call]) -> None:
    """Compare every answer to these calls, after a listing that gives both the uids to read."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        restricted, unrestricted = readings(Path(folder), mailbox, policy, stack)
        for call in [("list", ""), *asked]:
            assert list(restricted.answers(call)) == list(unrestricted.answers(call)), call


sample = given(mails, policies, st.lists(calls, min_size=5, max_size=20))
steady = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=(Phase.generate,)
)


@steady
@sample
def test_a_restricted_answer_is_the_unrestricted_one_over_what_is_visible(
    mailbox: list[Mail], policy: dict[str, Any], asked: list[Call]
) -> None:
    check(mailbox, policy, asked)


@pytest.mark.soak
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("part", range(4))
def test_a_restricted_answer_is_the_unrestricted_one_over_what_is_visible_2000_times(part: int) -> None:
    cases = 0

    @settings(steady, max_examples=550, derandomize=False)
    @sample
    def each(mailbox: list[Mail], policy: dict[str, Any], asked: list[Call]) -> None:
        nonlocal cases
        check(mailbox, policy, asked)
        cases += 1

    each()
    sys.stdout.write(f"no oracle, part {part}: {cases} cases\n")
    assert cases >= 500
