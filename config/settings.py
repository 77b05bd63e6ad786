"""Reading the configuration file: where it is, what it says, and what to mend when it cannot be used."""

import os
import stat
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from config.identity import Settings
from config.provider import Endpoint, Provider, with_preset

FILE_VARIABLE = "POSTMIRROR_CONFIG"
FILE_NAME = "postmirror.toml"

_PLAIN_WORDS = {
    "tuple_type": 'write a list, for example ["*@example.org"]',
    "dict_type": 'write a table, for example { host = "mail.example.org", port = 993 }',
    "model_type": 'write a table, for example { host = "mail.example.org", port = 993 }',
    "mapping_type": "write a table",
}
_SHAPES = {
    "address": "a mail address such as alice@example.org",
    "aliases": "a mail address such as alice@example.org",
    "sha256": "a SHA-256 digest: 64 digits of 0-9 and a-f; postmirror token new makes one for you",
    "host": "a host name",
    "name": "a name of letters, digits and . _ @ -",
}

M = TypeVar("M", bound=BaseModel)
Login = TypeVar("Login", Provider, Endpoint)


class ConfigError(Exception):
    """The configuration cannot be used. problems: one line each, naming the key and the fix.

    path: the file; its text shows file, keys and fixes, never a value that could be a secret.
    """

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.path = path
        self.problems = problems
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Hosts, ports and security of well-known providers, by name."""
    return tomllib.loads(files("config").joinpath("providers.toml").read_text("utf-8"))


def example_text() -> str:
    """The commented example configuration that ships with the program."""
    return files("config").joinpath("example.toml").read_text("utf-8")


def find_config(given: Path | None = None) -> Path:
    """The configuration file in force: the one given, else $POSTMIRROR_CONFIG, ./postmirror.toml, the user's own."""
    if given is not None:
        return given
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named)
    here = Path(FILE_NAME)
    if here.exists():
        return here
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "postmirror" / FILE_NAME


def load_settings(path: Path) -> Settings:
    """The checked configuration of a file. Paths in it are relative to the file's folder; `~` is the user's home.

    Raises ConfigError when the file is missing, can be written by others, is not TOML or says something unusable.
    """
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(path, [f"the file can be written by others: chmod 600 {path}"])
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(
            path,
            [
                "there is no such file: `postmirror init` makes one. Without --config, $POSTMIRROR_CONFIG,"
                f" ./{FILE_NAME} and the user's configuration folder are tried, in this order"
            ],
        ) from None
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            path, [f"the file cannot be read ({type(exc).__name__}): check its owner and encoding"]
        ) from exc
    return parse_settings(text, path)


def parse_settings(text: str, path: Path) -> Settings:
    """The checked configuration of a TOML text; path is where it is from, for errors and relative paths."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(path, [f"this is not TOML: {exc}"]) from exc
    if not table:
        # An editor or a copy that was cut short leaves such a file; it must not count as "nobody may do anything".
        raise ConfigError(path, ["the file says nothing: start from config/example.toml"])
    if problems := _apply_presets(table):
        raise ConfigError(path, problems)
    try:
        settings = Settings.model_validate(table)
    except ValidationError as exc:
        raise ConfigError(
            path, [_problem(error) for error in exc.errors(include_url=False, include_input=False)]
        ) from None
    return _with_absolute_paths(settings, path.absolute().parent)


def _apply_presets(table: dict[str, Any]) -> list[str]:
    problems = []
    users = table.get("users")
    for user_name, user in users.items() if isinstance(users, dict) else ():
        providers = user.get("providers") if isinstance(user, dict) else None
        for name, provider in providers.items() if isinstance(providers, dict) else ():
            if not isinstance(providers, dict) or not isinstance(provider, dict) or "provider" not in provider:
                continue
            preset = presets().get(str(provider["provider"]))
            if preset is None:
                known = ", ".join(sorted(presets()))
                problems.append(f"users.{user_name}.providers.{name}.provider: unknown preset; known are {known}")
            else:
                providers[name] = with_preset(provider, preset)
    return problems


def _problem(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "the file"
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown key; check its spelling against config/example.toml, or remove it"
    if error["type"] == "missing":
        return f"{key}: this key is required; see config/example.toml"
    if error["type"] == "string_pattern_mismatch" and key.endswith("[key]"):
        return f"{key}: a name has 1 to 32 of a-z, 0-9, _ and -, and starts with a letter or digit"
    if error["type"] in _PLAIN_WORDS:
        return f"{key}: {_PLAIN_WORDS[error['type']]}"
    if error["type"] == "string_pattern_mismatch":
        return f"{key}: this is not {_SHAPES.get(str(error['loc'][-1]), 'of the form it must have')}"
    return f"{key}: {str(error['msg']).removeprefix('Value error, ')}"


def _with_absolute_paths(settings: Settings, base: Path) -> Settings:
    return settings.model_copy(
        update={
            "server": _absolute(settings.server, base, "data_dir", "workspace", "tls_cert_file", "tls_key_file"),
            "users": {
                user_name: user.model_copy(
                    update={"providers": {name: _provider(provider, base) for name, provider in user.providers.items()}}
                )
                for user_name, user in settings.users.items()
            },
        }
    )


def _provider(provider: Provider, base: Path) -> Provider:
    update: dict[str, BaseModel] = {}
    for key, endpoint in (("imap", provider.imap), ("smtp", provider.smtp)):
        if endpoint is not None:
            update[key] = _with_secret(_absolute(endpoint, base, "ca_file"), base)
    if provider.oauth is not None and provider.oauth.client_secret is not None:
        client_secret = _absolute(provider.oauth.client_secret, base, "file")
        update["oauth"] = provider.oauth.model_copy(update={"client_secret": client_secret})
    return _with_secret(provider.model_copy(update=update), base)


def _with_secret(holder: Login, base: Path) -> Login:
    if holder.password is None:
        return holder
    return holder.model_copy(update={"password": _absolute(holder.password, base, "file")})


def _absolute(model: M, base: Path, *keys: str) -> M:
    """The model with these paths counted from a folder."""
    paths = {key: path for key in keys if (path := getattr(model, key)) is not None}
    return model.model_copy(update={key: (base / path.expanduser()).absolute() for key, path in paths.items()})
