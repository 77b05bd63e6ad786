"""A full pass on request, by this process or by the one that keeps the mirror: `postmirror sync`."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.identity import Settings
from config.provider import Provider
from mirror.credential import Credentials
from mirror.database import private_folder
from mirror.errors import MirrorError, in_plain_words
from mirror.keeper import Keeper
from mirror.parsing import Parsers
from mirror.report import Progress
from mirror.store import Store
from mirror.wake import wake
from server.oauth.source import credentials_of

_POLL = 0.1
_LONGEST_CLEANUP = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass over one mirror came to. report: mirror.report.Report as JSON reads; error: "" when it succeeded."""

    mirror: str
    report: dict[str, Any]
    error: str

    @property
    def complete(self) -> bool:
        """Whether every folder agrees with upstream."""
        return not self.error and bool(self.report.get("complete"))


class UnknownMirror(LookupError):
    """There is no such USER/PROVIDER in the configuration."""


def sync_now(
    settings: Settings, mirrors: Iterable[str], notice: Callable[[str, Progress], None] = lambda *_: None
) -> list[Outcome]:
    """One full pass over each of these mirrors (`"alice/work"`, `"alice"`; none given: all), one after the other.

    Where another process keeps a mirror, that one is asked and waited for. Raises UnknownMirror before anything begins.
    """
    chosen = _chosen(settings, mirrors)
    outcomes = []
    with credentials_of(settings) as credential_of, Parsers(settings.sync.parse_children) as parsers:
        for name, folder, provider in chosen:
            outcomes.append(_sync(_keeper(name, folder, provider, parsers, credential_of), notice))
    return outcomes


def _keeper(name: str, folder: Path, provider: Provider, parsers: Parsers, credential_of: Credentials) -> Keeper:
    user, _, provider_name = name.partition("/")
    credential = credential_of(user, provider_name, provider, provider.imap)
    return Keeper(name, folder, provider, parsers, threading.Event(), credential)


def clean_now(settings: Settings, mirrors: Iterable[str]) -> dict[str, str]:
    """A pass and a clean-up of each of these mirrors; what stood in the way, by mirror, "" for nothing.

    Raises UnknownMirror before anything begins.
    """
    chosen = _chosen(settings, mirrors)
    os.environ["SQLITE_TMPDIR"] = str(private_folder(settings.server.data_dir))
    with credentials_of(settings) as credential_of, Parsers(settings.sync.parse_children) as parsers:
        return {
            name: _clean(_keeper(name, folder, provider, parsers, credential_of)) for name, folder, provider in chosen
        }


def _clean(keeper: Keeper) -> str:
    asked = wanted = 0.0
    try:
        while not keeper.hold():
            with Store(keeper.folder) as store:
                asked = asked or store.want_pass()
                # A clean-up that is wanted earlier could follow a pass that does not know of the latest expunge.
                if not wanted and store.pass_since(asked) is not None:
                    wanted = time.time()
                    store.want_cleanup()
                    store.want_pass()
                wake(keeper.folder)
                if wanted and store.cleaned_at() >= wanted:
                    return ""
                if time.time() - asked > _LONGEST_CLEANUP:
                    return "the process that keeps this mirror did not get to it yet; it goes on trying"
            time.sleep(_POLL)
        keeper.one_pass()
        return "" if keeper.clean_up() else "something stood in the way; see the log"
    except MirrorError as exc:
        return in_plain_words(exc)
    except sqlite3.OperationalError as exc:
        return f"the mirror's file cannot be used: {exc}"
    finally:
        keeper.close()


def _chosen(settings: Settings, mirrors: Iterable[str]) -> list[tuple[str, Path, Provider]]:
    """(name, folder, provider) of each mirror asked for, or of all."""
    known = {f"{user}/{name}": (user, name, provider) for user, name, provider in settings.identities()}
    asked = list(mirrors)
    for name in asked:
        if name not in known and not _all_of(name, known):
            raise UnknownMirror(f"there is no mirror {name!r}; the configuration has {', '.join(known) or 'none'}")
    chosen = [each for name in asked for each in ([name] if name in known else _all_of(name, known))] or list(known)
    return [(name, settings.mirror_dir(*known[name][:2]), known[name][2]) for name in chosen]


def _all_of(user: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if name.partition("/")[0] == user]


def _sync(keeper: Keeper, notice: Callable[[str, Progress], None]) -> Outcome:
    asked = 0.0
    try:
        while not keeper.hold():
            with Store(keeper.folder) as store:
                asked = asked or store.want_pass()
                wake(keeper.folder)
                if (done := store.pass_since(asked)) is not None:
                    return Outcome(keeper.name, json.loads(done[0]), done[1])
            time.sleep(_POLL)
        report = keeper.one_pass(lambda progress: notice(keeper.name, progress))
        return Outcome(keeper.name, json.loads(report.as_json()), "")
    except MirrorError as exc:
        return Outcome(keeper.name, {}, in_plain_words(exc))
    finally:
        keeper.close()
