"""What a profile may send, and to whom. Pure: data in, decision out.

Content rules read what a person would see: a text as it was written, in its plain form, and folded as searches fold,
each also with its blanks and line ends as single blanks; of HTML also what is between the tags.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html.parser import HTMLParser

from config.pattern import Patterns
from config.profile import OutboundPolicy
from mirror.fold import fold_keeping_separators
from server.policy import Recipient
from server.redaction.plain import plain
from server.spelling import allows, denies

_TAG = re.compile("<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a mail may not be sent, which recipients are to blame, and the rule that says so, for the audit log."""

    reason: str
    recipients: tuple[str, ...] = ()
    rule: str = "form"


@dataclass(frozen=True, slots=True)
class Words:
    """What a mail says: its subject, its body in every form, and whatever else of it is free text.

    beside: names of people and files, ids of other mails.
    """

    subject: str
    text: str
    html: str = ""
    beside: tuple[str, ...] = ()

    @property
    def characters(self) -> int:
        """How long the subject and the body are."""
        return len(self.subject) + len(self.text) + len(self.html)

    def each(self) -> Iterator[str]:
        """Every text that a recipient may read."""
        yield self.subject
        yield self.text
        yield from self.beside
        if self.html:
            yield self.html
            yield html.unescape(_TAG.sub("", self.html))
            yield html.unescape(_TAG.sub(" ", self.html))
            pieces = _texts_between_tags(self.html)
            yield "".join(pieces)
            yield " ".join(pieces)


def check_outbound(
    recipients: Sequence[Recipient],
    words: Words,
    policy: OutboundPolicy | None,
    has_written: Callable[[Recipient], bool],
) -> Denial | None:
    """None when a mail with these words may go to all of them. has_written: whether one has written to this mailbox."""
    if policy is None:
        return Denial("this token may not send mail", rule="outbound")
    if denied := check_recipients(recipients, policy):
        return Denial("recipient not allowed by the outbound policy", denied, "to_allow, to_deny")
    if len(recipients) > policy.max_recipients:
        return Denial(f"too many recipients: at most {policy.max_recipients} per mail", rule="max_recipients")
    if words.characters > policy.max_chars:
        return Denial(
            f"too long: subject and body may have {policy.max_chars} characters, these have {words.characters}",
            rule="max_chars",
        )
    rule = _denied_content(words, policy.content_deny) if policy.content_deny else None
    if rule is not None:
        return Denial(
            f"content not allowed by the outbound policy, rule {rule + 1} of content_deny", rule="content_deny"
        )
    if policy.reply_only and (strangers := tuple(each.address for each in recipients if not has_written(each))):
        return Denial("this token may only write to people whose mail it can read here", strangers, "reply_only")
    return None


def check_recipients(recipients: Iterable[Recipient], policy: OutboundPolicy) -> tuple[str, ...]:
    """The addresses a policy does not let through, in their order."""
    return tuple(recipient.address for recipient in recipients if not _may_receive(recipient, policy))


def _may_receive(recipient: Recipient, policy: OutboundPolicy) -> bool:
    return allows(policy.to_allow, recipient.address) and not denies(policy.to_deny, recipient.address)


def _denied_content(words: Words, rules: tuple[str, ...]) -> int | None:
    """Which rule matches what a mail says, the first of them."""
    patterns = _patterns(rules)
    found = (patterns.first_in(form) for text in words.each() for form in _forms(text))
    return min((rule for rule in found if rule is not None), default=None)


class _Texts(HTMLParser):
    """What stands between tags, as a browser tells them apart: values of attributes may hold < and >."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        """One more text."""
        self.pieces.append(data)


def _texts_between_tags(page: str) -> list[str]:
    parser = _Texts()
    parser.feed(page)
    parser.close()
    return parser.pieces


def _forms(text: str) -> set[str]:
    spellings = {text, plain(text).text, fold_keeping_separators(plain(text).text)}
    return {form for each in spellings for form in (each, " ".join(each.split()))}


@lru_cache(maxsize=64)
def _patterns(rules: tuple[str, ...]) -> Patterns:
    return Patterns(rules, ignore_case=True)
