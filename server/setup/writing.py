"""The configuration file: written whole, and never over another."""

import os
import secrets
from pathlib import Path

from config.settings import ConfigError, load_settings, parse_settings
from server.key import sync_folder


class AlreadyThere(FileExistsError):
    """There is a configuration file already."""


class CannotAdd(ValueError):
    """An account cannot be put behind this file without changing what it says."""


def create(path: Path, text: str) -> None:
    """Write a new file, 0600. Raises AlreadyThere, and ConfigError when it would not be read back."""
    parse_settings(text, path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = _draft(path, text, 0o600)
    try:
        os.link(draft, path)  # fails when there is one by now
    except FileExistsError as exc:
        raise AlreadyThere(f"{path} is there already") from exc
    finally:
        draft.unlink()
    sync_folder(path.parent)


def extended(path: Path, addition: str, user: str, name: str) -> tuple[str, str]:
    """(the text of a file, the same with an addition behind it), which says all that it said before, and that.

    Raises ConfigError when the file cannot be read, CannotAdd when it has this account or cannot be added to.
    """
    before = load_settings(path)
    if user in before.users and name in before.users[user].providers:
        raise CannotAdd(f"{path} has [users.{user}.providers.{name}] already: choose another --name")
    text = path.read_text("utf-8")
    longer = text + ("" if text.endswith("\n") else "\n") + addition
    try:
        after = parse_settings(longer, path)
    except ConfigError as exc:
        raise CannotAdd(
            f"{path} cannot be added to ({exc.problems[0]}): put this into it by hand:\n{addition}"
        ) from exc
    users = {key: dict(each.providers) for key, each in after.users.items()}
    users[user].pop(name, None)
    if {key: each for key, each in users.items() if each} != {
        key: dict(each.providers) for key, each in before.users.items() if each.providers
    } or not before.profiles.items() <= after.profiles.items():
        raise CannotAdd(f"{path} would no longer say what it says: put this into it by hand:\n{addition}")
    return text, longer


def replace_text(path: Path, before: str, after: str) -> None:
    """Put a new text into a file that still says what it said. Raises CannotAdd when it changed meanwhile."""
    draft = _draft(path, after, path.stat().st_mode & 0o777)
    try:
        if path.read_text("utf-8") != before:
            raise CannotAdd(f"{path} was changed meanwhile: try again")
        draft.replace(path.resolve())
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.resolve().parent)


def _draft(path: Path, text: str, mode: int) -> Path:
    draft = path.resolve().with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft
