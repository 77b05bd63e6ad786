"""Search is no oracle: a restricted profile's answers are those of an unrestricted one over what it may see.

Two mirrors: one of everything, read under the policy; one of `visible(message)` for each message, read without. Every
page of every query must be the same, uids and cursors aside.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from config.identity import ContentPolicy
from mirror.content import read_content
from mirror.listing import Listed, ListedFolder
from mirror.mirrored import MirroredMessage
from mirror.mirrored import State as Mirrored
from mirror.query.reader import Reader
from mirror.store import Checkpoint, Store
from server.app import Parts
from server.auth import Authenticator, Caller
from server.live import LiveSettings
from server.policy import visible
from server.relay import Relay
from server.relay_arguments import ListMessages
from server.state import State
from server.tool import Declined
from tests.server.door import Folder, Mail, fill_mirror, settings_for

SENDERS = ("Bob <bob@example.org>", "Carol <carol@shop.example>", "mallory@evil.example", "Alice <alice@example.org>")
WORDS = ("invoice", "noon", "secret", "Zw\u00f6lf")
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
mails = st.lists(
    st.builds(
        Mail,
        subject=words,
        sender=st.sampled_from(SENDERS),
        to=st.sampled_from(("alice@example.org", "Team <team@example.org>")),
        text=words,
        flags=st.sampled_from(((), ("\\Seen",), ("\\Flagged", "\\Seen"))),
        attachments=st.sampled_from(((), (("a.pdf", "application/pdf", b"%PDF"),))),
    ),
    max_size=45,
).map(lambda drawn: [replace(mail, minutes=number * 40_000) for number, mail in enumerate(drawn, -len(drawn))])
policies = st.fixed_dictionaries(
    {},
    optional={
        "bodies": st.just(False),
        "max_age": st.sampled_from(["300d", "500d"]),
        "from_allow": st.sampled_from([["*@example.org"], ["*example*"]]),
        "from_deny": st.sampled_from([["mallory@*"], ["*@example.org"]]),
        "subject_deny": st.sampled_from([["*secret*"], ["invoice"]]),
        "attachments": st.sampled_from([{}, {"types": ["text/*"]}]),
    },
)
conditions = st.one_of(
    st.builds("{} {}".format, st.sampled_from(("subject", "body")), st.sampled_from((*WORDS, "oic", "n"))),
    st.builds("from {}".format, st.sampled_from(("bob", "mallory", "example"))),
    st.builds("flag {}".format, st.sampled_from(("seen", "flagged"))),
    st.sampled_from(("after 2025-06-01", "before 2025-01-01", "to team")),
)
filters = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner).map(lambda text: text.replace("not (", "not (", 1)),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
    ),
    max_leaves=4,
)
orders = st.sampled_from(("", " order by subject", " order by from desc date", " order by date", " order by to"))
queries = st.one_of(st.just(""), st.builds("{}{}".format, filters, orders), orders.map(str.strip))


class TwoMirrors:
    """The tools over a mirror of everything, restricted, and over one of what is visible, unrestricted."""

    def __init__(self, folder: Path, mailbox: Sequence[Mail], policy: Mapping[str, Any], stack: ExitStack) -> None:
        profile = {"folders": [{"match": "*", "access": "read"}]}
        configuration = settings_for(
            folder,
            1,
            profiles={
                "restricted": {**profile, "content": policy},
                "open": {**profile, "content": {"attachments": {}}},
            },
        )
        live = LiveSettings.fixed(configuration)
        state = State(folder)
        stack.callback(state.close)
        parts = Parts.open(live, state)
        stack.callback(parts.close)
        fill_mirror(configuration, "alice", "work", [Folder("INBOX", mailbox)])
        with Reader(configuration.mirror_dir("alice", "work") / "mirror.db") as reader:
            page = reader.page(1, None, None, 1_000)
            everything = [reader.message(1, message.id) for message in page.messages]
        shown = [
            (by_minute(mailbox)[message.internaldate], seen)
            for message in everything
            if message is not None
            and (seen := visible(message, ContentPolicy.model_validate(policy), datetime.now(UTC))) is not None
        ]
        fill_with_visible(configuration.mirror_dir("alice", "home"), shown)
        authenticator = Authenticator(live, state)
        self._relay = Relay(parts.mailboxes, parts.outbound, "http://x")
        self.restricted = authenticator.by_name("alice", "restricted", "work")
        self.unrestricted = authenticator.by_name("alice", "open", "home")

    def pages(self, caller: Caller, query: str) -> list[object]:
        """Every answer to a query, page by page, without what only its own identity can use."""
        answers: list[object] = []
        cursor: Any = None
        while True:
            try:
                asked = ListMessages(folder="INBOX", query=query, cursor=cursor)
                answer = dict(self._relay.list_messages(caller, asked))
            except Declined as exc:
                return [*answers, str(exc)]
            messages: Any = answer["messages"]
            cursor = answer.pop("next_cursor", None)
            answers.append(
                (
                    [{name: value for name, value in message.items() if name != "uid"} for message in messages],
                    cursor is not None,
                    answer["complete"],
                )
            )
            if cursor is None:
                return answers


def by_minute(mailbox: Sequence[Mail]) -> dict[datetime, Mail]:
    """The mails by when they came in."""
    return {mail.received: mail for mail in mailbox}


def fill_with_visible(folder: Path, shown: Sequence[tuple[Mail, MirroredMessage]]) -> None:
    """A mirror of messages as a policy shows them."""
    with Store(folder) as store:
        store.set_folders([ListedFolder(b"INBOX", "INBOX", "/", (), "", True)])
        by_uid = dict(enumerate(shown, 1))
        store.add_listed(
            1, [Listed(uid, mail.flags, mail.received, len(mail.raw)) for uid, (mail, _) in by_uid.items()]
        )
        contents = []
        for hole in store.holes(1, Mirrored.TEXT, 1_000):
            mail, seen = by_uid[hole.uid]
            content = replace(
                read_content(mail.raw), text=seen.text or "", preview=seen.preview, attachments=seen.attachments
            )
            contents.append((hole.content, hashlib.sha256(mail.raw).digest(), content))
        store.set_texts(contents)
        store.checkpoint(1, Checkpoint(1, len(shown) + 1, None, len(shown)), reconciled=True)


def check(mailbox: Sequence[Mail], policy: Mapping[str, Any], asked: Sequence[str]) -> None:
    """Compare every page of these queries."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        mirrors = TwoMirrors(Path(folder), mailbox, policy, stack)
        for query in asked:
            assert mirrors.pages(mirrors.restricted, query) == mirrors.pages(mirrors.unrestricted, query), query


sample = given(mails, policies, st.lists(queries, min_size=1, max_size=8))
steady = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=(Phase.generate,)
)


@steady
@sample
def test_a_restricted_answer_is_the_unrestricted_one_over_what_is_visible(
    mailbox: list[Mail], policy: dict[str, Any], asked: list[str]
) -> None:
    check(mailbox, policy, asked)


@pytest.mark.soak
@settings(steady, max_examples=2_000, derandomize=False)
@sample
def test_a_restricted_answer_is_the_unrestricted_one_over_what_is_visible_2000_times(
    mailbox: list[Mail], policy: dict[str, Any], asked: list[str]
) -> None:
    check(mailbox, policy, asked)
