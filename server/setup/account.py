"""What was settled on for one mailbox, and the TOML that says it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from config.identity import Settings
from config.provider import Provider
from config.secret import SecretSource
from config.settings import parse_settings
from server.setup.finding import Server

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


OAuthTable = Mapping[str, "str | tuple[str, ...] | SecretSource | None"]
"""Keys of an oauth table; those that are left out come of the preset."""


@dataclass(frozen=True, slots=True)
class Account:
    """One mailbox. server_name, ca_file: for both servers. password, smtp_password: where they are, never what."""

    user: str
    name: str
    address: str
    imap: Server
    smtp: Server | None
    preset: str = ""
    display_name: str = ""
    aliases: tuple[str, ...] = ()
    username: str = ""
    smtp_username: str = ""
    server_name: str = ""
    ca_file: Path | None = None
    auth: str = "password"
    password: SecretSource | None = None
    smtp_password: SecretSource | None = None
    oauth: OAuthTable = field(default_factory=dict)

    def provider(self, path: Path) -> Provider:
        """The account as the configuration file at path will have it. Raises ConfigError."""
        settings = parse_settings(self.as_toml(), path)
        return settings.users[self.user].providers[self.name]

    def with_password(self, source: SecretSource | None) -> "Account":
        """The same, with its password there."""
        return replace(self, password=source)

    def as_toml(self) -> str:
        """The tables of the account."""
        lines = [f"[users.{self.user}.providers.{self.name}]"]
        if self.preset:
            lines.append(_line("provider", _text(self.preset), "hosts, ports and security come with the program"))
        lines.append(_line("address", _text(self.address), "mail is sent from it"))
        if self.display_name:
            lines.append(_line("display_name", _text(self.display_name)))
        if self.aliases:
            lines.append(_line("aliases", _texts(self.aliases), "further addresses it may send from"))
        if self.username:
            lines.append(_line("username", _text(self.username), "the login name"))
        if self.password is not None:
            lines.append(_line("password", _source(self.password), "where the secret is, never the secret itself"))
        if self.oauth:
            table = _table({key: _value(value) for key, value in self.oauth.items()})
            lines.append(_line("oauth", table, "postmirror auth login signs in again"))
        if self.auth != "password":
            lines.append(_line("auth", _text(self.auth), "the secret is an access token"))
        for kind, server in (("imap", self.imap), ("smtp", self.smtp)):
            if table := self._server(kind, server):
                lines.append(_line(kind, table))
        if self.smtp is None:
            lines.append('# smtp = { host = "…", port = 465, security = "tls" } # without it nothing can be sent')
        lines.append('# sync = { since = "2024-01-31", exclude = ["Archive/*"] } # to mirror less than everything')
        return "\n".join(lines) + "\n"

    def _server(self, kind: str, server: Server | None) -> str:
        if server is None:
            return ""
        keys = {} if self.preset else {"host": _text(str(server["host"])), "port": str(server["port"])}
        if not self.preset:
            keys["security"] = _text(str(server["security"]))
        if kind == "smtp" and self.smtp_username:
            keys["username"] = _text(self.smtp_username)
        if kind == "smtp" and self.smtp_password is not None:
            keys["password"] = _source(self.smtp_password)
        if self.server_name:
            keys["server_name"] = _text(self.server_name)
        if self.ca_file is not None:
            keys["ca_file"] = _text(str(self.ca_file))
        return _table(keys)


def profile_toml(name: str) -> str:
    """A cautious profile: everything may be read but junk and trash, flags of INBOX may change, nothing can be sent."""
    return f"""\
# What a token of this profile may see and do. The first rule that matches decides; what none matches is hidden.
[profiles.{name}]
tools = "relay"                        # or "gateway": all accounts of the user, moving and deleting
[[profiles.{name}.folders]]
match = "\\\\Junk"                       # a special use: whatever the server calls this folder
access = "hidden"
[[profiles.{name}.folders]]
match = "\\\\Trash"
access = "hidden"
[[profiles.{name}.folders]]
match = "INBOX"
access = "write"                       # flags may change: seen, flagged, answered
[[profiles.{name}.folders]]
match = "*"
access = "read"
# [profiles.{name}.outbound]           # without this table nothing can be sent
# to_allow = ["*@example.org"]         # whom mail may go to
"""


def file_toml(account: Account, profile: str, port: int, data_dir: Path) -> str:
    """A whole configuration file."""
    return "\n".join(
        (
            f"# Postmirror's configuration, begun by `postmirror init` on {date.today().isoformat()}.\n"
            "# `postmirror config check` reads it back. Keep it private (chmod 600). Paths count from this file's\n"
            "# folder; a running postmirror follows every edit. All keys: docs/configuration.md.\n\n"
            "[server]\n"
            + _line("port", str(port), f"serves http://127.0.0.1:{port}/mcp, on this machine only")
            + "\n"
            + _line("data_dir", _text(str(data_dir)), "mirrors, tokens and journal; readable by you alone")
            + "\n",
            account.as_toml(),
            profile_toml(profile),
        )
    )


def added_toml(account: Account, settings: Settings, profile: str) -> str:
    """What is put behind an existing file: the account, and the profile where the file has none of that name."""
    parts = [account.as_toml()]
    if profile not in settings.profiles:
        parts.append(profile_toml(profile))
    return "\n" + "\n".join(parts)


def slug(text: str, default: str) -> str:
    """A name as the configuration takes it, made of a text."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:32].strip("-") or default


def _line(key: str, value: str, remark: str = "") -> str:
    line = f"{key} = {value}"
    return f"{line:<38} # {remark}" if remark else line


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _texts(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _value(value: "str | tuple[str, ...] | SecretSource | None") -> str:
    if isinstance(value, SecretSource):
        return _source(value)
    return _texts(value) if isinstance(value, tuple) else _text(value or "")


def _source(source: SecretSource) -> str:
    if source.env is not None:
        return _table({"env": _text(source.env)})
    if source.file is not None:
        return _table({"file": _text(str(source.file))})
    return _table({"command": _texts(source.command or ())})


def _table(keys: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{key} = {value}' for key, value in keys.items())} }}" if keys else ""
