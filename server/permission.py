"""What a token sees and may do at this moment, worked out over the mirrors that it reaches."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from config.identity import Settings, Token
from config.profile import ContentPolicy, Limits, Profile, Redaction
from mirror.errors import MirrorAbsent
from mirror.mirrored import FolderState
from mirror.query.reader import Reader
from server.amounts import counted
from server.policy import Access, Sight, folder_access
from server.spelling import matches

_PAGE = 1_000
_NO_LIMIT = "no limit"


@dataclass(frozen=True, slots=True)
class FolderView:
    """One folder as a profile has it. visible: how many of its messages the profile sees."""

    folder: str
    role: str
    access: Access
    messages: int
    visible: int


@dataclass(frozen=True, slots=True)
class MailboxView:
    """One mailbox as a profile has it. is_mirrored: whether there is a mirror of it yet."""

    provider: str
    address: str
    is_mirrored: bool
    folders: tuple[FolderView, ...]


@dataclass(frozen=True, slots=True)
class Permission:
    """Everything that a token stands for.

    sees, may: rules in words, by the key of the configuration they come from. warnings: what of it may surprise.
    """

    user: str
    profile: str
    mailboxes: tuple[MailboxView, ...]
    sees: Mapping[str, str]
    may: Mapping[str, str]
    warnings: tuple[str, ...]


def permission_of(token: Token, settings: Settings, tools: Sequence[str]) -> Permission:
    """What a token sees and may do. tools: the names that it is offered.

    Raises ValueError naming what the configuration lacks.
    """
    user, providers, profile = settings.resolve(token)
    mailboxes = tuple(_mailbox(settings, user, name, profile) for name in providers)
    return Permission(
        user=user,
        profile=token.profile,
        mailboxes=mailboxes,
        sees=_sees(profile.content),
        may={"tools": ", ".join(tools) or "none", **_sends(profile), **_asks(profile)},
        warnings=tuple(_warnings(profile, mailboxes)),
    )


def _mailbox(settings: Settings, user: str, provider: str, profile: Profile) -> MailboxView:
    address = settings.users[user].providers[provider].address
    try:
        with Reader(settings.mirror_dir(user, provider) / "mirror.db") as reader:
            folders = tuple(_folder(reader, folder, profile) for folder in reader.folders() if folder.selectable)
    except MirrorAbsent:
        return MailboxView(provider, address, is_mirrored=False, folders=())
    return MailboxView(provider, address, is_mirrored=True, folders=folders)


def _folder(reader: Reader, folder: FolderState, profile: Profile) -> FolderView:
    access = folder_access(folder, profile)
    visible = 0 if access == "hidden" else sum(1 for _ in _visible(reader, folder, profile.content))
    return FolderView(folder.name, folder.role, access, folder.messages, visible)


def _visible(reader: Reader, folder: FolderState, policy: ContentPolicy) -> Iterator[object]:
    # Texts are not needed: what is left out of them hides no message.
    sight = Sight(policy.model_copy(update={"redact": (), "links": "keep", "quoted": "keep"}), datetime.now(UTC))
    after = None
    while True:
        page = reader.page(folder.id, None, after, _PAGE)
        yield from filter(None, map(sight, page.messages))
        after = page.after
        if after is None:
            return


def _sees(policy: ContentPolicy) -> dict[str, str]:
    attachments = policy.attachments
    return {
        "bodies": f"as text, {policy.max_body_chars:,} characters of one" if policy.bodies else "withheld",
        "html": "as well" if policy.html and policy.bodies and not policy.rewrites else "withheld",
        "max_age": "any age" if policy.max_age is None else counted(policy.max_age.days, "day"),
        "from_allow": ", ".join(policy.from_allow) or "everybody",
        "from_deny": ", ".join(policy.from_deny) or "nobody",
        "subject_deny": ", ".join(policy.subject_deny) or "nothing",
        "redact": ", ".join(rule.pattern if isinstance(rule, Redaction) else rule for rule in policy.redact)
        or "nothing",
        "links": policy.links,
        "quoted": policy.quoted,
        "attachments": "withheld"
        if attachments is False
        else f"{', '.join(attachments.types)}, up to {attachments.max_size:,} bytes, {policy.attachment_links} links",
    }


def _sends(profile: Profile) -> dict[str, str]:
    policy = profile.outbound
    if policy is None:
        return {"outbound": "nothing may be sent"}
    return {
        "to_allow": ", ".join(policy.to_allow),
        "to_deny": ", ".join(policy.to_deny) or "nobody",
        "reply_only": "only people whose mail it can read" if policy.reply_only else "strangers too",
        "content_deny": ", ".join(policy.content_deny) or "nothing",
        "max_recipients": str(policy.max_recipients),
        "max_chars": f"{policy.max_chars:,}",
        "per_hour": str(policy.per_hour),
    }


def _asks(profile: Profile) -> dict[str, str]:
    limits = profile.limits
    return {
        "calls_per_minute": str(limits.calls_per_minute or _NO_LIMIT),
        "concurrent": str(limits.concurrent or _NO_LIMIT),
        **(_asks_upstream(limits) if profile.tools == "gateway" else {}),
    }


def _asks_upstream(limits: Limits) -> dict[str, str]:
    return {
        "imap_per_minute": str(limits.imap_per_minute),
        "smtp_per_hour": str(limits.smtp_per_hour),
        "count_reads": "reads count too" if limits.count_reads else "reads do not count",
    }


def _meant_to_hide(folder: FolderView, profile: Profile) -> str:
    """The pattern that would hide a folder that is shown, if it were compared with the last part of its name."""
    *above, last = re.split("[/.]", unicodedata.normalize("NFC", folder.folder))
    if not above or folder.access == "hidden":
        return ""
    rules = (each for each in profile.folders if matches(unicodedata.normalize("NFC", each.match), last))
    first = next(rules, None)
    return first.match if first is not None and first.access == "hidden" else ""


def _warnings(profile: Profile, mailboxes: Sequence[MailboxView]) -> Iterator[str]:
    for mailbox in mailboxes:
        hidden = [each.folder for each in mailbox.folders if each.access == "hidden"]
        for each in mailbox.folders:
            if pattern := _meant_to_hide(each, profile):
                yield f"{mailbox.provider}: {each.folder} is shown: {pattern} is compared with the whole name"
            if each.role == "\\All" and each.access != "hidden" and hidden:
                yield f"{mailbox.provider}: {each.folder} holds the mail of every folder, hidden ones too"
        if mailbox.folders and all(each.access == "hidden" for each in mailbox.folders):
            yield f"{mailbox.provider}: every folder is hidden"
    if profile.outbound is not None and "*" in profile.outbound.to_allow and not profile.outbound.reply_only:
        yield "mail may be sent to anybody: what it reads, it can send away"
    if profile.content.rewrites and profile.content.attachments is not False:
        yield "nothing is left out of attachments"
