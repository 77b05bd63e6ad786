"""What a profile may see, and who a mail may go to. Pure: data in, decision out.

`visible` can only drop a message, drop a field of it or leave out spans of its texts. It defines what is right: an
answer under a policy equals the unrestricted answer over `[visible(message) for message in mailbox]`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import idna

from config.kinds import GMAIL_VIEWS
from config.profile import AttachmentRule, ContentPolicy, Profile
from mirror.message import MAX_MESSAGE, Attachment
from mirror.mirrored import FolderState, MirroredMessage
from mirror.query.tree import Query, Size, conditions
from server.redaction.rewriting import rewriting_of
from server.remembered import Remembered
from server.spelling import allows, denies_sender, denies_subject, matches, narrow_form

Access = Literal["hidden", "read", "write"]
# Percent and bang are routes to old servers, and "=?" may begin an encoded word (RFC 2047).
_OF_THE_SENDER = ("display_name_has_other_address", "mixed_script_name", "idn_sender", "several_senders")
_LOCAL_PART = re.compile(r"(?!.*=\?)[^\x00-\x20\x7f-\xa0\"(),:;<>@\[\\\]%!\uff20\ufe6b]{1,64}")
_GMAIL = ("[gmail]/", "[google mail]/")
_UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")


def folder_access(folder: FolderState, profile: Profile) -> Access:
    """What a profile may do in a folder: the first rule that matches decides, and none hides it."""
    for rule in profile.folders:
        if _names(rule.match, folder):
            return rule.access
    return "hidden"


def _names(match: str, folder: FolderState) -> bool:
    if match.casefold() == GMAIL_VIEWS.casefold():
        return folder.name.casefold().startswith(_GMAIL)
    if match.startswith("\\"):
        return match.casefold() == folder.role.casefold()
    name, pattern = unicodedata.normalize("NFC", folder.name), unicodedata.normalize("NFC", match)
    if name.upper() == "INBOX":
        return matches(pattern.upper(), "INBOX")
    return matches(pattern, name)


def restricts(policy: ContentPolicy) -> bool:
    """Whether a policy changes what a query can find, so that its answers must be computed through `visible`.

    HTML and attachments are withheld from answers, but no query asks about them.
    """
    return bool(
        not policy.bodies
        or policy.max_age
        or policy.from_allow
        or policy.from_deny
        or policy.subject_deny
        or policy.rewrites
    )


_DROPPING = frozenset({"max_age", "from_allow", "from_deny", "subject_deny"})
_UNASKED = frozenset({"html", "attachments", "attachment_links", "max_body_chars", "max_answer_chars"})
"""Keys of a policy that drop messages by their envelope, and those about what no query asks for."""


def shows_whole(policy: ContentPolicy, query: Query | None) -> bool:
    """Whether messages are shown as they are or not at all, as far as a query can tell, without a look at their text.

    Then the index answers for it as it does without a policy. A key that is not known here means no.
    """
    return _changed(policy) <= _DROPPING | _UNASKED and (shows_true_size(policy) or not _asks_for_size(query))


@lru_cache(maxsize=256)
def _changed(policy: ContentPolicy) -> frozenset[str]:
    """The keys of a policy that are not as they are by default."""
    default = ContentPolicy()
    return frozenset(name for name in ContentPolicy.model_fields if getattr(policy, name) != getattr(default, name))


def _asks_for_size(query: Query | None) -> bool:
    return query is not None and any(isinstance(each, Size) for each in conditions(query.filter))


def visible(message: MirroredMessage, policy: ContentPolicy, now: datetime) -> MirroredMessage | None:
    """The message as this policy shows it, None when it shows nothing of it.

    Marks (`server.redaction.markers`) stand where something was left out.
    """
    return Sight(policy, now)(message)


Seen = Remembered[MirroredMessage | None]
"""What policies showed of messages, their age apart."""


class Sight:
    """`visible` for many messages, with what depends on the policy alone worked out once.

    seen: where what is shown of a message is found again, for messages that come often.
    """

    def __init__(self, policy: ContentPolicy, now: datetime, seen: Seen | None = None) -> None:
        self._policy = policy
        self._seen = seen
        self._oldest = None if policy.max_age is None else now - policy.max_age
        self._rewriting = rewriting_of(policy)
        self._is_whole = shows_true_size(policy)
        # Nothing of a message but its HTML is left out then.
        self._is_open = self._is_whole and not restricts(policy)

    def __call__(self, message: MirroredMessage) -> MirroredMessage | None:
        """The message as the policy shows it, None when it shows nothing of it."""
        policy = self._policy
        if self._is_open:
            return message if message.html is None or policy.html else message._replace(html=None)
        if self._oldest is not None and message.internaldate < self._oldest:
            return None
        if self._seen is None:
            return self._shown(message)
        known = self._seen.find((policy, message))
        if known is not None:
            return known[0]
        shown = self._shown(message)
        self._seen.keep([((policy, message), shown)])
        return shown

    def _shown(self, message: MirroredMessage) -> MirroredMessage | None:
        policy = self._policy
        if not _sender_allowed(message, policy) or denies_subject(policy.subject_deny, message.subject):
            return None
        changes: dict[str, Any] = {}
        if not policy.bodies and (message.text or message.preview):
            changes |= {"preview": "", "text": None if message.text is None else ""}
        if message.html is not None and not (policy.bodies and policy.html):
            changes["html"] = None
        allowed = allowed_attachments(message.attachments, policy.attachments)
        if allowed != message.attachments:
            changes["attachments"] = allowed
        has_all = allowed == tuple(message.attachments)
        findings = {name: count for name, count in message.findings.items() if _may_be_told(name, policy, has_all)}
        if findings != message.findings:
            changes["findings"] = findings
        shown = message._replace(**changes) if changes else message
        if self._rewriting is not None:
            shown = self._rewriting.message(shown)
        return shown if self._is_whole else shown._replace(size=_octets(shown, policy))


def shows_true_size(policy: ContentPolicy) -> bool:
    """Whether nothing of any message is withheld but its HTML, so that the size upstream tells nothing more."""
    rule = policy.attachments
    return (
        policy.bodies
        and not policy.rewrites
        and rule is not False
        and "*/*" in rule.types
        and rule.max_size >= MAX_MESSAGE
    )


def _octets(shown: MirroredMessage, policy: ContentPolicy) -> int:
    """The size of what is shown. The size upstream would tell how much was withheld."""
    if not policy.bodies:
        text = 0
    elif shown.text is not None:
        text = len(shown.text.encode("utf-8"))
    else:
        text = shown.text_octets
    return text + sum(attachment.size for attachment in shown.attachments)


def _may_be_told(finding: str, policy: ContentPolicy, has_all_attachments: bool) -> bool:
    """Whether a finding is about something that the policy shows. One about attachments may be about any of them."""
    if finding.startswith("att_"):
        return policy.attachments is not False and has_all_attachments
    return policy.bodies or finding in _OF_THE_SENDER


def view(
    policy: ContentPolicy, now: datetime, query: Query | None = None, seen: Seen | None = None
) -> Callable[[MirroredMessage], MirroredMessage | None] | None:
    """`visible` for a query to be computed from, None when the query's answer does not depend on it."""
    if not restricts(policy) and not (_asks_for_size(query) and not shows_true_size(policy)):
        return None
    return Sight(policy, now, seen)


def _sender_allowed(message: MirroredMessage, policy: ContentPolicy) -> bool:
    if denies_sender(policy.from_deny, message.from_):
        return False
    senders = message.from_
    return not policy.from_allow or (bool(senders) and all(allows(policy.from_allow, each.address) for each in senders))


def allowed_attachments(
    attachments: Sequence[Attachment], rule: Literal[False] | AttachmentRule
) -> tuple[Attachment, ...]:
    """The attachments a rule lets through."""
    if rule is False:
        return ()
    return tuple(
        attachment
        for attachment in attachments
        if attachment.size <= rule.max_size and _any_glob(rule.types, attachment.media_type)
    )


def _any_glob(patterns: Iterable[str], text: str) -> bool:
    folded = text.casefold()
    return any(matches(pattern.casefold(), folded) for pattern in patterns)


class NotAnAddress(ValueError):
    """The text is not one plain mail address."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A mail address to send to. domain: lower case, as A-labels (RFC 5891), which is what travels."""

    local: str
    domain: str

    @property
    def address(self) -> str:
        """The address as it is put on the wire."""
        return f"{self.local}@{self.domain}"

    @property
    def is_ascii(self) -> bool:
        """Whether it can be sent to without SMTPUTF8 (RFC 6531)."""
        return self.local.isascii()

    @property
    def key(self) -> str:
        """What two spellings of one address share."""
        return narrow_form(self.address)


def parse_recipient(text: str) -> Recipient:
    """One plain address, its domain brought to the one spelling that is sent. Raises NotAnAddress.

    Quoted local parts, address literals, comments, display names, routes, encoded words and invisible characters are
    not taken: a policy could not tell what a server makes of them.
    """
    local, at, domain = text.strip().rpartition("@")
    if (
        not at
        or domain.endswith(".")
        or not _LOCAL_PART.fullmatch(local)
        or local.startswith(".")
        or local.endswith(".")
        or ".." in local
        or any(unicodedata.category(character) in _UNSEEN for character in local)
    ):
        raise NotAnAddress(text)
    try:
        return Recipient(local, idna.encode(domain.lower(), uts46=True).decode("ascii").lower())
    except idna.IDNAError:
        raise NotAnAddress(text) from None
