"""One upstream mailbox: its servers, and what of it is mirrored."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from config.kinds import LOOPBACK, FolderPattern, Frozen, HttpsUrl, Interval, MailAddress, Port
from config.secret import SecretSource


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
