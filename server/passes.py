"""A full pass on request, by this process or by the one that keeps the mirror: `postmirror sync`."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from config.identity import Settings
from mirror.errors import MirrorError, in_plain_words
from mirror.keeper import Keeper
from mirror.parsing import Parsers
from mirror.report import Progress
from mirror.store import Store
from mirror.wake import wake

_POLL = 0.1


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
    known = {f"{user}/{name}": (user, name, provider) for user, name, provider in settings.identities()}
    asked = list(mirrors)
    for name in asked:
        if name not in known and not _all_of(name, known):
            raise UnknownMirror(f"there is no mirror {name!r}; the configuration has {', '.join(known) or 'none'}")
    chosen = [each for name in asked for each in ([name] if name in known else _all_of(name, known))] or list(known)
    outcomes = []
    with Parsers(settings.sync.parse_children) as parsers:
        for name in chosen:
            user, provider_name, provider = known[name]
            keeper = Keeper(name, settings.mirror_dir(user, provider_name), provider, parsers, threading.Event())
            outcomes.append(_sync(keeper, notice))
    return outcomes


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
