"""Who there is and what each may do, as frozen models: the shape of the configuration file.

Everything here is data that was checked on the way in. Reading the file is `config.settings`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from config.pattern import Pattern
from config.secret import SecretSource

_DURATION = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
SPECIAL_USES = ("\\All", "\\Archive", "\\Drafts", "\\Flagged", "\\Important", "\\Junk", "\\Sent", "\\Trash")
"""What a folder can be for (RFC 6154 2, RFC 8457 3), as servers say it."""
GMAIL_VIEWS = "\\Gmail"
"""In a rule: the folders that Gmail makes by itself, below [Gmail] or [Google Mail]; others are a user's labels."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _duration(value: object) -> object:
    if isinstance(value, str):
        if match := _DURATION.fullmatch(value.strip()):
            return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
        raise ValueError('write a number and a unit, for example "30s", "2m", "12h", "7d"')
    if isinstance(value, timedelta):
        return value
    raise ValueError('write a number and a unit in quotes, for example "2m"')


def _at_least_ten_seconds(value: timedelta) -> timedelta:
    if value < timedelta(seconds=10):
        raise ValueError('use at least "10s": every pass asks the mail server')
    return value


def _start(value: object) -> object:
    if value == "all":
        return None
    if isinstance(value, date | None):
        return value
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError('write "all" or a day such as "2024-01-31"')


def _folder_pattern(value: str) -> str:
    if value.startswith("\\") and value.casefold() not in {use.casefold() for use in (*SPECIAL_USES, GMAIL_VIEWS)}:
        raise ValueError(f"there is no special use {value}; there are {' '.join(SPECIAL_USES)}, and {GMAIL_VIEWS}")
    return value


def _built_in(value: object) -> object:
    if value not in BUILT_IN_REDACTIONS:
        raise ValueError(
            f"there is no built-in set of that name; there are {', '.join(BUILT_IN_REDACTIONS)}; a pattern of your own "
            "is a table: { pattern = 'K-\\d{6}', with = '[customer]' }"
        )
    return value


def _network(value: str) -> str:
    try:
        ip_network(value)
    except ValueError:
        raise ValueError('write an address or a network, for example "192.0.2.7" or "10.0.0.0/8"') from None
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Interval = Annotated[Duration, AfterValidator(_at_least_ten_seconds)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
MailAddress = Annotated[str, StringConstraints(pattern=r"^[^\s@<>\"(),:;]+@[^\s@<>\"(),:;]+$", max_length=320)]
FolderPattern = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_folder_pattern)]
HttpsUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s]+$", max_length=2_000)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Frozen(BaseModel):
    """A model that cannot change and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Server(Frozen):
    """Where the MCP server listens and where its files live."""

    host: str = "127.0.0.1"
    port: Port = 8765
    public_url: str = ""
    data_dir: Path = Path("~/.local/share/postmirror")
    workspace: Path = Path("~/postmirror-workspace")
    workspace_by_user: bool = True
    workspace_quota: Annotated[int, Field(ge=0)] = 2_000_000_000
    behind_proxy: bool = False
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ("127.0.0.1", "::1")
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    reload_grace: Duration = timedelta(minutes=10)

    @model_validator(mode="after")
    def _reachable_only_over_tls(self) -> "Server":
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: set both or neither")
        if self.host not in LOOPBACK and not self.behind_proxy and self.tls_cert_file is None:
            raise ValueError(
                "host is not a loopback address: set tls_cert_file and tls_key_file, or behind_proxy = true when a "
                "proxy in front speaks TLS; bearer tokens must not cross a network in clear"
            )
        return self

    @property
    def url(self) -> str:
        """The address clients use, without a slash at the end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_cert_file else 'http'}://{host}:{self.port}"


class AuditRule(Frozen):
    """How much of the audit log is kept: bytes of one file, and so many files."""

    file_size: Annotated[int, Field(ge=100_000, le=1_000_000_000)] = 16_000_000
    files: Annotated[int, Field(ge=2, le=10_000)] = 64


class SyncSettings(Frozen):
    """How the sync worker uses this machine."""

    workers: Annotated[int, Field(ge=1, le=32)] = 4
    parse_children: Annotated[int, Field(ge=1, le=8)] = 2


class Endpoint(Frozen):
    """One upstream server: IMAP or SMTP."""

    host: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^\s/]+$")]
    port: Port
    security: Literal["tls", "starttls", "plain"] = "tls"
    username: str | None = None
    password: SecretSource | None = None
    server_name: str | None = None
    ca_file: Path | None = None
    disable: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9=+.-]{1,40}$")], ...] = ()

    @model_validator(mode="after")
    def _plain_only_on_loopback(self) -> "Endpoint":
        if self.security == "plain" and self.host not in LOOPBACK:
            raise ValueError('security = "plain" is for loopback only: use "tls" or "starttls"')
        return self


class OAuth(Frozen):
    """Signing in by OAuth 2, with a client of the operator's own. Presets know everything but client_id.

    redirect_host: what the provider accepts as this machine's name in the address it sends the browser back to.
    parameters: what else the provider wants to hear when somebody signs in.
    """

    client_id: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    client_secret: SecretSource | None = None
    authorization_url: HttpsUrl
    token_url: HttpsUrl
    device_url: HttpsUrl | None = None
    scopes: tuple[str, ...] = ()
    redirect_host: Literal["127.0.0.1", "localhost"] = "127.0.0.1"
    parameters: Mapping[str, str] = Field(default_factory=dict)


class OfflineAttachments(Frozen):
    """Which attachments are kept beside the mirror: bytes of one, and of all together (the least used go first)."""

    max_size: Annotated[int, Field(ge=0, le=50_000_000)] = 1_000_000
    total: Annotated[int, Field(ge=0)] = 500_000_000


class SyncRule(Frozen):
    """What of a provider is mirrored, and how often.

    daily_bytes: octets fetched on a day before the rest of a backlog waits for the next; None for the limit that is
    known of the server, 0 for none.
    """

    interval: Interval = timedelta(minutes=2)
    idle: bool = True
    since: Annotated[date | None, BeforeValidator(_start)] = None
    folders: tuple[FolderPattern, ...] = ("*",)
    exclude: tuple[FolderPattern, ...] = ()
    attachments: OfflineAttachments = OfflineAttachments()
    daily_bytes: Annotated[int, Field(ge=0)] | None = None

    def starts(self) -> datetime | None:
        """The first moment that is mirrored, in UTC; None for everything."""
        return None if self.since is None else datetime(self.since.year, self.since.month, self.since.day, tzinfo=UTC)


class Provider(Frozen):
    """One upstream mailbox: its address and the servers that hold and send its mail."""

    address: MailAddress
    display_name: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    account_name: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    aliases: tuple[MailAddress, ...] = ()
    username: str | None = None
    password: SecretSource | None = None
    auth: Literal["password", "oauth2"] = "password"
    oauth: OAuth | None = None
    imap: Endpoint
    smtp: Endpoint | None = None
    sent_copy: Literal["auto", "append", "none"] = "auto"
    sync: SyncRule = SyncRule()

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> "Provider":
        if self.oauth is not None and self.password is not None:
            raise ValueError("oauth and password are two ways to log in: leave one out")
        return self

    def is_signed_in(self, endpoint: Endpoint) -> bool:
        """Whether this endpoint is logged in to with what a sign-in by OAuth 2 left: unless it has a password."""
        return self.oauth is not None and endpoint.password is None

    def takes_token(self, endpoint: Endpoint) -> bool:
        """Whether the secret of this endpoint is an access token and no password."""
        return self.is_signed_in(endpoint) or self.auth == "oauth2"

    def login(self, endpoint: Endpoint) -> tuple[str, SecretSource | None]:
        """User name and secret for this endpoint: its own where it has them, else the provider's."""
        return endpoint.username or self.username or self.address, endpoint.password or self.password

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address this provider may send from, its main one first."""
        return (self.address, *self.aliases)


class User(Frozen):
    """A person or agent owner."""

    providers: Mapping[Slug, Provider]

    @model_validator(mode="after")
    def _accounts_differ(self) -> "User":
        if len(self.accounts) != len(self.providers):
            raise ValueError("two providers have the same account_name: give each its own")
        return self

    @property
    def accounts(self) -> dict[str, str]:
        """The name of each provider, by what the gateway tools call it."""
        return {provider.account_name or name: name for name, provider in self.providers.items()}


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

    def allows(self, tool: str) -> bool:
        """Whether a tool of its set is there, as far as the list of tools goes."""
        known = TOOL_SETS[self.tools]
        if self.allow is None:
            return tool in known.reading + known.usual
        named = {name for word in self.allow for name in known.named(word)}
        return tool in named or (tool in known.reading and named.isdisjoint(known.reading))


class Token(Frozen):
    """A bearer token, known by its digest, and the identity it stands for."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]*$")]
    sha256: Digest
    user: Slug
    provider: Slug | None = None
    profile: Slug
    expires: AwareDatetime | None = None


class Settings(Frozen):
    """The whole configuration."""

    server: Server = Server()
    sync: SyncSettings = SyncSettings()
    audit: AuditRule = AuditRule()
    users: Mapping[Slug, User] = Field(default_factory=dict)
    profiles: Mapping[Slug, Profile] = Field(default_factory=dict)
    tokens: tuple[Token, ...] = ()

    @model_validator(mode="after")
    def _one_user_a_workspace(self) -> "Settings":
        if not self.server.workspace_by_user and len(self.users) > 1:
            raise ValueError("workspace_by_user = false is for one user: several must not share their files")
        return self

    @model_validator(mode="after")
    def _tokens_resolve(self) -> "Settings":
        for attribute in ("name", "sha256"):
            seen: set[str] = set()
            for token in self.tokens:
                value = getattr(token, attribute)
                if value in seen:
                    raise ValueError(f"two tokens share the {attribute} of {token.name!r}: give each its own")
                seen.add(value)
        for token in self.tokens:
            self.resolve(token)
        return self

    def resolve(self, token: Token) -> tuple[str, tuple[str, ...], Profile]:
        """User, providers and profile that a token stands for: one provider, or with gateway tools all of the user's.

        Raises ValueError naming what is missing when the configuration no longer has one of them.
        """
        if token.user not in self.users:
            raise ValueError(f"token {token.name!r}: there is no [users.{token.user}]")
        if token.profile not in self.profiles:
            raise ValueError(f"token {token.name!r}: there is no [profiles.{token.profile}]")
        providers, profile = self.users[token.user].providers, self.profiles[token.profile]
        if token.provider is None:
            if len(providers) != 1 and not (providers and profile.tools == "gateway"):
                raise ValueError(
                    f"token {token.name!r}: user {token.user!r} has {len(providers)} providers, so name one of them"
                )
            return token.user, tuple(providers), profile
        if token.provider not in providers:
            raise ValueError(f"token {token.name!r}: there is no [users.{token.user}.providers.{token.provider}]")
        return token.user, (token.provider,), profile

    def mirror_dir(self, user: str, provider: str) -> Path:
        """The folder that holds one mirror and nothing else."""
        return mirror_folder(self.server.data_dir, user, provider)

    def identities(self) -> list[tuple[str, str, Provider]]:
        """(user name, provider name, provider) of every mailbox, in the order of the file."""
        return [
            (user_name, provider_name, provider)
            for user_name, user in self.users.items()
            for provider_name, provider in user.providers.items()
        ]

    def accounts(self) -> dict[tuple[str, str], Provider]:
        """Every mailbox by user and provider name."""
        return {(user, name): provider for user, name, provider in self.identities()}


def mirror_folder(data_dir: Path, user: str, provider: str) -> Path:
    """Where below a data directory one mirror lies, and nothing else."""
    return data_dir / "mirrors" / user / provider


def with_preset(provider: dict[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """A provider table with the servers of a preset under its own keys, and the sign-in where it has one."""
    merged = {key: value for key, value in provider.items() if key != "provider"}
    for endpoint in ("imap", "smtp"):
        if endpoint in preset:
            own = merged.get(endpoint, {})
            merged[endpoint] = {**preset[endpoint], **own} if isinstance(own, dict) else own
    if "oauth" in preset and isinstance(merged.get("oauth"), dict):
        merged["oauth"] = {**preset["oauth"], **merged["oauth"]}
    return merged
