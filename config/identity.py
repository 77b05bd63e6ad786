"""The whole configuration as frozen models: where the program runs, who there is, and what each token stands for.

Everything here is data that was checked on the way in. Reading the file is `config.settings`.
"""

from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints, model_validator

from config.kinds import LOOPBACK, Digest, Duration, Frozen, Port, Slug
from config.profile import Profile
from config.provider import Provider


def _network(value: str) -> str:
    try:
        ip_network(value)
    except ValueError:
        raise ValueError('write an address or a network, for example "192.0.2.7" or "10.0.0.0/8"') from None
    return value


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
