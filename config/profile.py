"""What a token may see and do: folders, content, recipients, limits, tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from config.kinds import Duration, FolderPattern, Frozen
from config.pattern import Pattern


def _built_in(value: object) -> object:
    if value not in BUILT_IN_REDACTIONS:
        raise ValueError(
            f"there is no built-in set of that name; there are {', '.join(BUILT_IN_REDACTIONS)}; a pattern of your own "
            "is a table: { pattern = 'K-\\d{6}', with = '[customer]' }"
        )
    return value


class FolderRule(Frozen):
    r"""Access to the folders whose name matches a shell glob, or whose special use is named (`\Sent`)."""

    match: FolderPattern
    access: Literal["hidden", "read", "write"]


class AttachmentRule(Frozen):
    """Which attachments may be downloaded. The default size is that of the largest mail: every attachment."""

    types: tuple[str, ...] = ("*/*",)
    max_size: Annotated[int, Field(ge=0)] = 50_000_000


BuiltInRedaction = Literal["one_time_codes", "card_numbers", "ibans"]
BUILT_IN_REDACTIONS: tuple[BuiltInRedaction, ...] = ("one_time_codes", "card_numbers", "ibans")


class Redaction(Frozen):
    """A pattern of one's own to leave out, and the words that stand in its place."""

    pattern: Pattern
    with_: Annotated[str, Field(alias="with"), StringConstraints(max_length=40, pattern=r"^[^\x00-\x1f\x7f]*$")] = (
        "[redacted]"
    )


RedactionRule = Annotated[
    Annotated[BuiltInRedaction, BeforeValidator(_built_in), Tag("name")] | Annotated[Redaction, Tag("rule")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "rule"),
]


class ContentPolicy(Frozen):
    """What of a message may be seen.

    links: of their addresses, everything, the domain, or nothing. quoted: history below a reply, kept or left out.
    """

    bodies: bool = True
    html: bool = False
    max_age: Duration | None = None
    from_allow: tuple[str, ...] = ()
    from_deny: tuple[str, ...] = ()
    subject_deny: tuple[str, ...] = ()
    redact: Annotated[tuple[RedactionRule, ...], Field(max_length=24)] = ()
    links: Literal["keep", "domain", "strip"] = "keep"
    quoted: Literal["keep", "strip"] = "keep"
    max_body_chars: Annotated[int, Field(ge=200, le=400_000)] = 20_000
    max_answer_chars: Annotated[int, Field(ge=1_000, le=1_000_000)] = 100_000
    attachments: Literal[False] | AttachmentRule = False
    attachment_links: Literal["bearer", "signed"] = "bearer"

    @model_validator(mode="after")
    def _attachments_are_granted_by_type(self) -> "ContentPolicy":
        if self.rewrites and self.attachments is not False and "types" not in self.attachments.model_fields_set:
            raise ValueError(
                "redact, links and quoted do not reach into attachments: name the types that may be downloaded all the "
                'same, such as attachments = { types = ["image/*"] }, or leave attachments out'
            )
        return self

    @property
    def rewrites(self) -> bool:
        """Whether texts are shown otherwise than they were written."""
        return bool(self.redact) or self.links != "keep" or self.quoted != "keep"


class OutboundPolicy(Frozen):
    """What may be sent, and to whom. A profile without one sends nothing."""

    to_allow: Annotated[tuple[str, ...], Field(min_length=1)]
    to_deny: tuple[str, ...] = ()
    reply_only: bool = False
    content_deny: Annotated[tuple[Pattern, ...], Field(max_length=100)] = ()
    max_recipients: Annotated[int, Field(ge=1, le=1_000)] = 10
    max_chars: Annotated[int, Field(ge=1, le=1_000_000)] = 50_000
    per_hour: Annotated[int, Field(ge=0, le=10_000)] = 20


class Limits(Frozen):
    """How many requests one token may make: in a minute, and at the same time. None: any number.

    With the gateway tools also how often the servers of one account may be reached; count_reads: by reads of the mirror
    as well, which reach none.
    """

    calls_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    concurrent: Annotated[int, Field(ge=1, le=10_000)] | None = None
    imap_per_minute: Annotated[int, Field(ge=1, le=100_000)] = 60
    smtp_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 100
    count_reads: bool = False


@dataclass(frozen=True, slots=True)
class ToolSet:
    """Names of tools. usual: those that write and are there by default; rare: those that a profile has to name."""

    reading: tuple[str, ...]
    usual: tuple[str, ...]
    rare: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every one."""
        return self.reading + self.usual + self.rare

    def named(self, word: str) -> tuple[str, ...]:
        """Those that a word of a profile means: a name, or the verb that names begin with."""
        return tuple(name for name in self.names if name == word or name.startswith(f"{word}_"))


TOOL_SETS: Mapping[str, ToolSet] = {
    "relay": ToolSet(
        ("list_folders", "list_messages", "search_messages", "read_message", "read_messages"),
        ("send_message", "update_message_flags"),
    ),
    "gateway": ToolSet(
        ("list_accounts", "list_folders", "search_emails", "get_email"),
        ("send_email", "reply_email", "move_email", "delete_email", "mark_email_read", "download_attachment"),
        ("create_folder", "append_email"),
    ),
}


class Profile(Frozen):
    """What a token may see and do.

    allow: the tools there are, by name or verb; a list that names no reading tool leaves all of those. None: the usual.
    """

    tools: Literal["relay", "gateway"] = "relay"
    allow: tuple[str, ...] | None = None
    folders: tuple[FolderRule, ...] = ()
    content: ContentPolicy = ContentPolicy()
    outbound: OutboundPolicy | None = None
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _allows_tools_of_its_set(self) -> "Profile":
        known = TOOL_SETS[self.tools]
        if unknown := [word for word in self.allow or () if not known.named(word)]:
            names = ", ".join(known.names)
            raise ValueError(f"allow: the {self.tools} tools have no {unknown[0]!r}; there are {names}")
        return self

    @model_validator(mode="after")
    def _of_the_gateway(self) -> "Profile":
        of_accounts = self.limits.model_fields_set & {"imap_per_minute", "smtp_per_hour", "count_reads"}
        if self.tools != "gateway" and of_accounts:
            raise ValueError('imap_per_minute, smtp_per_hour and count_reads are for tools = "gateway": remove them')
        return self

    @model_validator(mode="after")
    def _answers_only_who_has_written(self) -> "Profile":
        if self.allows("append_email") and self.outbound is not None and self.outbound.reply_only:
            raise ValueError(
                "allow: append stores mail from whomever a client likes, who could be written to then: "
                "remove it, or reply_only"
            )
        return self

    def allows(self, tool: str) -> bool:
        """Whether a tool of its set is there, as far as the list of tools goes."""
        known = TOOL_SETS[self.tools]
        if self.allow is None:
            return tool in known.reading + known.usual
        named = {name for word in self.allow for name in known.named(word)}
        return tool in named or (tool in known.reading and named.isdisjoint(known.reading))
