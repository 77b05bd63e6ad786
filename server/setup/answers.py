"""What `postmirror init` was told by flags, and how it asks for the rest."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import click
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from config.kinds import MailAddress, Slug
from config.provider import Endpoint
from config.secret import SecretSource
from server.setup.account import OAuthTable
from server.setup.entry import ClientName
from server.setup.finding import Server

_PORTS = {("imap", "tls"): 993, ("imap", "starttls"): 143, ("smtp", "tls"): 465, ("smtp", "starttls"): 587}
_SECURITIES = ("tls", "starttls", "plain")
_FORM = "HOST, HOST:PORT or HOST:PORT:SECURITY, where SECURITY is tls, starttls or plain"


class Unanswered(click.ClickException):
    """There is nobody to ask: the text names the flag that answers."""


def server(kind: Literal["imap", "smtp"], text: str) -> Server:
    """A server as `HOST[:PORT[:SECURITY]]` says it. Raises ValueError naming the form."""
    host, port, security = (*text.strip().split(":"), "", "")[:3]
    if text.count(":") > 2 or (port and not port.isdigit()) or (security and security not in _SECURITIES):
        raise ValueError(f"write {_FORM}, not {text!r}")
    if not security:
        security = "starttls" if port in ("143", "587") else "tls"
    number = int(port) if port else _PORTS.get((kind, security), 0)
    try:
        Endpoint.model_validate({"host": host, "port": number, "security": security})
    except ValidationError as exc:
        reason = str(exc.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
        raise ValueError(f"{text!r}: {reason}; write {_FORM}") from None
    return {"host": host, "port": number, "security": security}


def _command(text: str | None) -> str | None:
    if text is not None and not shlex.split(text):
        raise ValueError("the command is empty")
    return text


class Answers(BaseModel):
    """The flags. Sources of a password are where it is already; password_stdin: it is said on standard input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: MailAddress | None = None
    config_path: Path | None = None
    data_dir: Path = Path("~/.local/share/postmirror")
    port: int = 8765
    user: Slug | None = None
    name: Slug | None = None
    profile: Slug = "assistant"
    provider: str | None = None
    imap: str | None = None
    smtp: str | None = None
    no_smtp: bool = False
    username: str | None = None
    smtp_username: str | None = None
    display_name: str | None = None
    aliases: tuple[MailAddress, ...] = ()
    server_name: str | None = None
    ca_file: Path | None = None
    auth: Literal["password", "oauth2"] | None = None
    password_env: str | None = None
    password_file: Path | None = None
    password_command: Annotated[str | None, AfterValidator(_command)] = None
    password_stdin: bool = False
    smtp_password_env: str | None = None
    smtp_password_file: Path | None = None
    smtp_password_command: Annotated[str | None, AfterValidator(_command)] = None
    store: Literal["file", "keyring"] | None = None
    oauth_client_id: str | None = None
    oauth_client_secret_env: str | None = None
    oauth_client_secret_file: Path | None = None
    oauth_client_secret_command: Annotated[str | None, AfterValidator(_command)] = None
    oauth_authorization_url: str | None = None
    oauth_token_url: str | None = None
    oauth_device_url: str | None = None
    oauth_scopes: tuple[str, ...] = ()
    way: Literal["browser", "device", "paste"] = "browser"
    no_browser: bool = False
    client: ClientName | None = None
    add: bool = False
    yes: bool = False
    dry_run: bool = False

    @property
    def password(self) -> SecretSource | None:
        """Where the password is already."""
        return _source(self.password_env, self.password_file, self.password_command)

    @property
    def smtp_password(self) -> SecretSource | None:
        """The same of a password that only the submission server takes."""
        return _source(self.smtp_password_env, self.smtp_password_file, self.smtp_password_command)

    @property
    def client_secret(self) -> SecretSource | None:
        """Where the secret of the OAuth client is."""
        return _source(self.oauth_client_secret_env, self.oauth_client_secret_file, self.oauth_client_secret_command)

    @property
    def oauth(self) -> OAuthTable:
        """What was said of the OAuth client, as keys of its table."""
        said: OAuthTable = {
            "client_id": self.oauth_client_id,
            "client_secret": self.client_secret,
            "authorization_url": self.oauth_authorization_url,
            "token_url": self.oauth_token_url,
            "device_url": self.oauth_device_url,
            "scopes": self.oauth_scopes or None,
        }
        return {key: value for key, value in said.items() if value is not None}


def _source(env: str | None, file: Path | None, command: str | None) -> SecretSource | None:
    if sum(each is not None for each in (env, file, command)) > 1:
        raise click.UsageError("give one of the env, file and command of a password, not several")
    if env is not None:
        return SecretSource(env=env)
    if file is not None:
        return SecretSource(file=file.expanduser().absolute())
    return None if command is None else SecretSource(command=tuple(shlex.split(command)))


class Asker:
    """Asks on the terminal. Without one, or after --yes, a question that has no default ends the command."""

    def __init__(self, *, is_terminal: bool, takes_defaults: bool) -> None:
        self.can_ask = is_terminal
        self._takes_defaults = takes_defaults

    def text(self, question: str, flag: str, default: str | None = None) -> str:
        """A line of text."""
        if default is not None and (self._takes_defaults or not self.can_ask):
            return default
        if not self.can_ask:
            raise Unanswered(f"{question}? There is no terminal to ask on: give {flag}")
        return str(click.prompt(question, default=default, err=True, show_default=bool(default)))

    def secret(self, question: str, flag: str) -> str:
        """A line that is not shown."""
        if not self.can_ask:
            raise Unanswered(f"{question}? There is no terminal to ask on: give {flag}")
        return str(click.prompt(question, hide_input=True, err=True))

    def choice(self, question: str, flag: str, choices: tuple[str, ...], default: str) -> str:
        """One of these."""
        if self._takes_defaults or not self.can_ask or len(choices) == 1:
            return default
        return str(click.prompt(question, type=click.Choice(choices), default=default, err=True))

    def is_agreed(self, question: str, flag: str) -> bool:
        """Yes or no. Without anybody to ask only --yes is a yes."""
        if self._takes_defaults:
            return True
        if not self.can_ask:
            raise Unanswered(f"{question} There is no terminal to ask on: give {flag}, or --yes")
        return bool(click.confirm(question, default=True, err=True))


def is_address(text: str) -> bool:
    """Whether this has the form of a mail address."""
    try:
        TypeAdapter(MailAddress).validate_python(text)
    except ValidationError:
        return False
    return True
