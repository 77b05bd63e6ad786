"""Forgetting a mailbox: its mirror with everything in it, its lines in `state.db`, its tokens.

A mirror is removed under its own lock, so never under the hands of a process that keeps it. Each step can be repeated:
what was cut short is finished by doing it again. The audit log stays, as it holds no mail and no address.
"""

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from config.identity import Settings
from mirror.errors import MirrorBusy
from mirror.lock import Lock
from server.audit.chain import Chain
from server.doctor.locks import holder_of, is_held
from server.key import DataKey
from server.oauth.grants import lock_of
from server.state.store import State
from server.unusable import FileUnusable

PATIENCE = 10.0
"""Seconds to wait for a process that was told, by the configuration, to let go of a mirror."""
_PAUSE = 0.1


class NothingKnown(LookupError):
    """Neither the data directory nor the configuration knows this mailbox."""


class MailUnderWay(FileUnusable):
    """A mail of this mailbox is being sent."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """What is to be forgotten: mailboxes of one user. is_whole: afterwards nothing is left of the user."""

    user: str
    providers: tuple[str, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What went. size: bytes of mirrors. lines: rows of state.db but for tokens. tokens: their names."""

    size: int
    lines: int
    tokens: tuple[str, ...]


def find_mailbox(settings: Settings, name: str) -> Mailbox:
    """What USER or USER/PROVIDER stands for, by configuration and data directory. Raises NothingKnown."""
    user, _, provider = name.partition("/")
    known = {each for owner, each, _ in settings.identities() if owner == user}
    known |= {
        folder.name for folder in (settings.server.data_dir / "mirrors").glob("*/*") if folder.parent.name == user
    }
    if not known or (provider and provider not in known):
        raise NothingKnown(f"nothing is known of {name}: neither configured nor mirrored")
    chosen = (provider,) if provider else tuple(sorted(known))
    return Mailbox(user, chosen, is_whole=not known - set(chosen))


def forget(settings: Settings, mailbox: Mailbox) -> Forgotten:
    """Remove it. Raises MirrorBusy when a process keeps one of the mirrors, and MailUnderWay: nothing is removed."""
    data_dir = settings.server.data_dir
    folders = [settings.mirror_dir(mailbox.user, provider) for provider in mailbox.providers]
    os.environ["SQLITE_TMPDIR"] = str(data_dir)
    with ExitStack() as stack:
        for folder in folders:
            if folder.is_dir():
                stack.callback(_hold(folder).release)
        state = State(data_dir)
        stack.callback(state.close)
        if state.mails_under_way(mailbox.user, mailbox.providers) and is_held(data_dir / "sending.lock"):
            raise MailUnderWay("a mail of this mailbox is on its way: run this again in a minute")
        tokens = [
            token.name
            for token in settings.tokens
            if token.user == mailbox.user and (mailbox.is_whole or token.provider in mailbox.providers)
        ]
        gone = state.forget(mailbox.user, mailbox.providers, is_whole=mailbox.is_whole, configured=tokens)
        size = sum(_size(folder) for folder in folders)
        for provider in mailbox.providers:
            lock_of(data_dir, mailbox.user, provider).unlink(missing_ok=True)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=not folder.exists())
        if mailbox.is_whole and folders and folders[0].parent.is_dir() and not any(folders[0].parent.iterdir()):
            folders[0].parent.rmdir()
    _write_down(settings, mailbox)
    return Forgotten(size, gone.lines, gone.tokens)


def kept_files(settings: Settings, mailbox: Mailbox) -> Sequence[Path]:
    """What may hold mail of this mailbox and is not removed: files that agents saved."""
    place = settings.server
    folder = place.workspace.expanduser() / (mailbox.user if place.workspace_by_user else "")
    return [folder] if folder.is_dir() and any(folder.iterdir()) else []


def _hold(folder: Path) -> Lock:
    lock = Lock(folder / "lock")
    end = time.monotonic() + PATIENCE
    while not lock.acquire():
        if time.monotonic() > end:
            raise MirrorBusy(
                f"process {holder_of(folder / 'lock') or 'unknown'} keeps the mirror of"
                f" {folder.parent.name}/{folder.name}: remove the mailbox from the configuration, which a running serve"
                " follows within seconds, or stop postmirror; then run this again"
            )
        time.sleep(_PAUSE)
    return lock


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _write_down(settings: Settings, mailbox: Mailbox) -> None:
    data_dir = settings.server.data_dir
    chain = Chain(data_dir, DataKey(data_dir), settings.audit.file_size, settings.audit.files)
    chain.append(
        [
            {"event": "forget", "outcome": "done", "user": mailbox.user, "provider": provider}
            for provider in mailbox.providers
        ]
    )
