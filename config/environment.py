"""A configuration made from environment variables: those of simple-email-gw, whose users change one command.

    EMAIL_ACCOUNTS_JSON, a list of accounts; or one account by
    EMAIL_IMAP_HOST, _IMAP_PORT, _SMTP_HOST, _SMTP_PORT, _USERNAME, _PASSWORD, _ACCOUNT_NAME, _AUTH_METHOD and
        _OAUTH2_TOKEN
    EMAIL_RATE_LIMITS__IMAP_REQUESTS_PER_MINUTE, __SMTP_SENDS_PER_HOUR
    EMAIL_RECIPIENT_WHITELIST_DOMAINS, _ADDRESSES, _JSON
    EMAIL_WORKSPACE

Any whitelist variable that is set is a whitelist: one that allows nobody when it is empty. A name that looks like one
of these and is none is an error, since a limit that is misspelt does not hold. The result is the text of an ordinary
configuration file with names of variables in place of the secrets, so that everything else works as it does for one.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from config.kinds import LOOPBACK

USER = "me"
PROFILE = "gateway"
_SECRET = "POSTMIRROR_SECRET_{}"  # noqa: S105 - the name of a variable
_KNOWN = (
    *("EMAIL_ACCOUNTS_JSON", "EMAIL_ACCOUNT_NAME", "EMAIL_IMAP_HOST", "EMAIL_IMAP_PORT", "EMAIL_SMTP_HOST"),
    *("EMAIL_SMTP_PORT", "EMAIL_USERNAME", "EMAIL_PASSWORD", "EMAIL_AUTH_METHOD", "EMAIL_OAUTH2_TOKEN"),
    *("EMAIL_RATE_LIMITS__IMAP_REQUESTS_PER_MINUTE", "EMAIL_RATE_LIMITS__SMTP_SENDS_PER_HOUR", "EMAIL_RATE_LIMITS"),
    *("EMAIL_RECIPIENT_WHITELIST_DOMAINS", "EMAIL_RECIPIENT_WHITELIST_ADDRESSES", "EMAIL_RECIPIENT_WHITELIST_JSON"),
    *("EMAIL_WORKSPACE", "EMAIL_APPEND_MAX_SIZE"),
)
_TELLING = re.compile(r"WHITE|ALLOW|RECIPIENT|RATE|LIMIT|ACCOUNT")


M = TypeVar("M", bound=BaseModel)


class EnvironmentUnusable(ValueError):
    """The variables cannot be used; the text names the one to mend, and no secret."""


class _Account(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=100)
    imap_host: str
    imap_port: int = Field(default=993, ge=1, le=65_535)
    smtp_host: str
    smtp_port: int = Field(default=587, ge=1, le=65_535)
    username: str = Field(min_length=1)
    password: str | None = None
    oauth2_token: str | None = None
    auth_method: Literal["password", "oauth2"] = "password"
    use_ssl: bool = True


class _Whitelist(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    enabled: bool = True
    domains: list[str] = []
    addresses: list[str] = []


@dataclass(frozen=True, slots=True)
class Configured:
    """What the variables say. text: of a configuration file. secrets: variables that it names, with their values."""

    text: str
    secrets: Mapping[str, str]

    def write(self, data_dir: Path) -> Path:
        """Put the file into the data directory and the secrets into this process's environment."""
        path = data_dir / f"environment-{hashlib.sha256(self.text.encode()).hexdigest()[:16]}.toml"
        draft = path.with_suffix(f".{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self.text)
        draft.replace(path)
        os.environ.update(self.secrets)
        return path


def names_accounts(variables: Mapping[str, str]) -> bool:
    """Whether the variables say where mail is."""
    given = {name.upper() for name, value in variables.items() if value}
    return bool(given & {"EMAIL_ACCOUNTS_JSON", "EMAIL_IMAP_HOST"})


def from_environment(variables: Mapping[str, str], data_dir: Path) -> Configured:
    """A configuration with these variables' accounts. Raises EnvironmentUnusable."""
    given = {name.upper(): value for name, value in variables.items() if name.upper().startswith("EMAIL_")}
    _check_names(given)
    accounts = _accounts(given)
    secrets: dict[str, str] = {}
    tables = [_server(given, data_dir)]
    for number, account in enumerate(accounts):
        name = _SECRET.format(number)
        secret = account.oauth2_token if account.auth_method == "oauth2" else account.password
        if not secret:
            missing = "EMAIL_OAUTH2_TOKEN" if account.auth_method == "oauth2" else "EMAIL_PASSWORD"
            raise EnvironmentUnusable(f"account {account.name!r} has no secret: set {missing}")
        secrets[name] = secret
        tables.append(_provider(account, name))
    tables.append(_profile(given))
    return Configured("\n".join(tables), secrets)


def _check_names(given: Mapping[str, str]) -> None:
    for name in given.keys() - set(_KNOWN):
        alike = get_close_matches(name, _KNOWN, 1, 0.85)
        if alike or _TELLING.search(name):
            meant = f"; did you mean {alike[0]}?" if alike else ""
            raise EnvironmentUnusable(f"there is no variable {name}{meant}: correct or unset it, it would not count")


def _accounts(given: Mapping[str, str]) -> list[_Account]:
    if text := given.get("EMAIL_ACCOUNTS_JSON"):
        try:
            listed = json.loads(text)
        except ValueError:
            raise EnvironmentUnusable("EMAIL_ACCOUNTS_JSON is not JSON") from None
        if not isinstance(listed, list) or not listed:
            raise EnvironmentUnusable("EMAIL_ACCOUNTS_JSON must be a list of accounts")
        accounts = [_checked(_Account, each, "EMAIL_ACCOUNTS_JSON") for each in listed]
    else:
        one = {
            field: given[f"EMAIL_{field.upper()}"]
            for field in _Account.model_fields
            if given.get(f"EMAIL_{field.upper()}")
        }
        one["name"] = given.get("EMAIL_ACCOUNT_NAME") or "default"
        accounts = [_checked(_Account, one, "EMAIL_")]
    if len({account.name for account in accounts}) != len(accounts):
        raise EnvironmentUnusable("two accounts have the same name: give each its own")
    return accounts


def _server(given: Mapping[str, str], data_dir: Path) -> str:
    lines = ["[server]", f"data_dir = {_text(str(data_dir))}"]
    if workspace := given.get("EMAIL_WORKSPACE"):
        lines += [f"workspace = {_text(str(Path(workspace).absolute()))}", "workspace_by_user = false"]
    return "\n".join(lines) + "\n"


def _provider(account: _Account, secret: str) -> str:
    # Accounts that share a name but not a mailbox must not share a mirror.
    mark = hashlib.sha256("\0".join((account.name, account.imap_host, account.username)).encode()).hexdigest()[:8]
    slug = f"{re.sub('[^a-z0-9]+', '-', account.name.lower()).strip('-')[:20] or 'account'}-{mark}"
    address = account.username
    if "@" not in address:
        address = f"{address}@{account.imap_host.removeprefix('imap.').removeprefix('mail.')}"
    imap = "starttls" if account.imap_port == 143 else "tls"
    smtp = "starttls" if account.smtp_port == 587 else "tls"
    if smtp == "tls" and not account.use_ssl:
        smtp = "plain" if account.smtp_host in LOOPBACK else "starttls"
    return "\n".join(
        (
            f"[users.{USER}.providers.{slug}]",
            f"account_name = {_text(account.name)}",
            f"address = {_text(address)}",
            f"username = {_text(account.username)}",
            f"auth = {_text(account.auth_method)}",
            f"password = {{ env = {_text(secret)} }}",
            f'imap = {{ host = {_text(account.imap_host)}, port = {account.imap_port}, security = "{imap}" }}',
            f'smtp = {{ host = {_text(account.smtp_host)}, port = {account.smtp_port}, security = "{smtp}" }}',
            "",
        )
    )


def _profile(given: Mapping[str, str]) -> str:
    per_minute = _number(given, "EMAIL_RATE_LIMITS__IMAP_REQUESTS_PER_MINUTE", 60)
    per_hour = _number(given, "EMAIL_RATE_LIMITS__SMTP_SENDS_PER_HOUR", 100)
    lines = [
        f"[profiles.{PROFILE}]",
        'tools = "gateway"',
        'allow = ["send", "reply", "move", "delete", "mark", "download", "create", "append"]',
        f"limits = {{ imap_per_minute = {per_minute}, smtp_per_hour = {per_hour} }}",
        "content = { max_body_chars = 400000, attachments = { max_size = 50000000 } }",
    ]
    if allowed := _recipients(given):
        patterns = ", ".join(map(_text, allowed))
        lines.append(
            f"outbound = {{ to_allow = [{patterns}], max_recipients = 1000, max_chars = 1000000, "
            f"per_hour = {min(per_hour, 10_000)} }}"
        )
    return "\n".join([*lines, f"[[profiles.{PROFILE}.folders]]", 'match = "*"', 'access = "write"', ""])


def _recipients(given: Mapping[str, str]) -> list[str]:
    """Whom mail may go to, as globs: everybody without a whitelist, nobody with an empty one."""
    if not any(name.startswith("EMAIL_RECIPIENT_WHITELIST") for name in given):
        return ["*"]
    if text := given.get("EMAIL_RECIPIENT_WHITELIST_JSON"):
        try:
            listed = _checked(_Whitelist, json.loads(text), "EMAIL_RECIPIENT_WHITELIST_JSON")
        except json.JSONDecodeError:
            raise EnvironmentUnusable("EMAIL_RECIPIENT_WHITELIST_JSON is not JSON") from None
        domains, addresses = listed.domains, listed.addresses
    else:
        domains = given.get("EMAIL_RECIPIENT_WHITELIST_DOMAINS", "").split(",")
        addresses = given.get("EMAIL_RECIPIENT_WHITELIST_ADDRESSES", "").split(",")
    wanted = [f"*@{each.strip().removeprefix('@')}" for each in domains if each.strip()]
    wanted += [each.strip() for each in addresses if each.strip()]
    for each in wanted:
        if not re.fullmatch(r"(?:\*|[^@\s*?\[\]]+)@[^@\s*?\[\]]+", each):
            raise EnvironmentUnusable(f"the recipient whitelist has {each!r}, which is no domain or address")
    return wanted


def _number(given: Mapping[str, str], name: str, otherwise: int) -> int:
    text = given.get(name) or str(otherwise)
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise EnvironmentUnusable(f"{name} must be a number from 1 to 99999")
    return int(text)


def _checked(model: type[M], value: object, name: str) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        key = ".".join(map(str, first["loc"]))
        where = f"EMAIL_{key.upper()}" if name == "EMAIL_" else f"{name}: {key}"
        raise EnvironmentUnusable(f"{where}: {first['msg']}") from None


def _text(value: str) -> str:
    """A TOML basic string."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
