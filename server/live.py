"""The configuration in force, which follows its file.

An edit is adopted once the file has been left alone for 200 ms. A file that cannot be read keeps the configuration
before it in force, is logged once and shows as degraded; after `server.reload_grace` nothing is served any more, since
a policy that cannot be read must not be guessed. Where the server listens and where its files live are read at the
start only.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from config.identity import Settings
from config.settings import ConfigError

log = logging.getLogger(__name__)

STABLE_SECONDS = 0.2
_Signature = tuple[int, int, int, int]


class ConfigurationLost(RuntimeError):
    """The file has been unreadable for longer than the grace period: nothing may be served."""


@dataclass(frozen=True, slots=True)
class InForce:
    """One configuration, and a digest that changes with any part of it."""

    settings: Settings
    digest: bytes


class LiveSettings:
    """Gives out the configuration in force. Safe to share between threads."""

    def __init__(self, path: Path | None, load: Callable[[Path], Settings]) -> None:
        self._path = path
        self._load = load
        self._lock = threading.Lock()
        self._adopted = _signature(path) if path else None
        self._in_force = _in_force(load(path or Path()))
        self._refused: _Signature | None = None
        self._seen: tuple[_Signature | None, float] = (self._adopted, 0.0)
        self._broken_since: float | None = None
        self._error = ""
        self._tell: Callable[[str, str], None] = lambda event, outcome: None

    def subscribe(self, tell: Callable[[str, str], None]) -> None:
        """Call this, with an event and its outcome, whenever another configuration is in force or one is refused."""
        self._tell = tell

    @classmethod
    def fixed(cls, settings: Settings) -> "LiveSettings":
        """A configuration without a file behind it."""
        return cls(None, lambda _: settings)

    @property
    def error(self) -> str:
        """Why the file on the disk is not the configuration in force, "" when it is."""
        return self._error

    def in_force(self) -> InForce:
        """The configuration of this moment. Raises ConfigurationLost after the grace period of a broken file."""
        if self._path is not None:
            signature = _signature(self._path)
            if signature != self._adopted or self._broken_since is not None:
                with self._lock:
                    self._follow(self._path, signature)
            broken_since = self._broken_since
            grace = self._in_force.settings.server.reload_grace.total_seconds()
            if broken_since is not None and time.monotonic() - broken_since > grace:
                raise ConfigurationLost
        return self._in_force

    def _follow(self, path: Path, signature: _Signature | None) -> None:
        if signature == self._adopted:
            self._healed()
            return
        if signature is not None and (signature == self._refused or not self._is_stable(signature)):
            return
        try:
            loaded = self._load(path)
        except ConfigError as exc:
            self._refused = signature
            self._broke(str(exc))
            return
        if _signature(path) != signature:
            return
        self._adopted = signature
        self._adopt(loaded)
        self._healed()

    def _is_stable(self, signature: _Signature) -> bool:
        if signature != self._seen[0]:
            self._seen = (signature, time.monotonic())
        untouched = time.time() - max(signature[2], signature[3]) / 1e9
        return untouched >= STABLE_SECONDS or time.monotonic() - self._seen[1] >= STABLE_SECONDS

    def _adopt(self, loaded: Settings) -> None:
        server = self._in_force.settings.server
        kept = server.model_copy(update={"reload_grace": loaded.server.reload_grace})
        if kept != loaded.server:
            log.warning("configuration: changes of [server] take effect at the next start")
        self._in_force = _in_force(loaded.model_copy(update={"server": kept}))
        log.info("configuration: new version in force")
        self._tell("configuration", "adopted")

    def _broke(self, reason: str) -> None:
        if self._broken_since is None:
            self._broken_since = time.monotonic()
        if reason == self._error:
            return
        self._error = reason
        self._tell("configuration", "refused")
        log.error("configuration: the file cannot be used, the version before it stays in force: %s", reason)

    def _healed(self) -> None:
        if self._broken_since is not None:
            log.info("configuration: the file can be used again")
        self._broken_since, self._refused, self._error = None, None, ""


def _signature(path: Path) -> _Signature | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _in_force(settings: Settings) -> InForce:
    return InForce(settings, hashlib.sha256(settings.model_dump_json().encode()).digest())
