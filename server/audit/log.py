"""The audit log: what every token did, without content and without secrets.

`record` is for what changes something: the line is on the disk when it returns, and without it nothing is done. `note`
is for reads and refusals: the line is written a moment later, off the way of the answer; a process that is killed loses
at most the notes of that moment. When the log cannot be written, notes wait in memory, up to a limit, and how many
were lost is written down first of all once it can.

Failed authentication is counted: a few lines a minute name the peer, the rest is one sum, so that whoever tries tokens
cannot fill the disk.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from config.identity import AuditRule
from server.audit.chain import Chain, Fields
from server.auth import Caller
from server.key import DataKey
from server.unusable import FileUnusable

log = logging.getLogger(__name__)

_GATHER_SECONDS = 0.25
_RETRY_SECONDS = 2.0
_MAX_WAITING = 20_000
_FAILURES_NAMED = 10
_MINUTE = 60.0


class AuditUnwritable(FileUnusable):
    """The audit log cannot be written now; what must be in it is not done."""


class Audit:
    """The audit log of one process. Safe to share between threads."""

    def __init__(self, data_dir: Path, key: DataKey, rule: AuditRule) -> None:
        self.chain = Chain(data_dir, key, rule.file_size, rule.files)
        self._writing = threading.Lock()
        self._waiting: deque[Fields] = deque()
        self._lost = 0
        self._reason = ""
        self._failures = _Failures()
        self._some = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="audit", daemon=True)
        self._thread.start()

    @property
    def is_well(self) -> bool:
        """Whether the last attempt to write succeeded."""
        return not self._reason

    def note(self, event: str, outcome: str, caller: Caller | None = None, **details: str | int | float | bool) -> None:
        """Write this down soon. Never raises, never waits."""
        self._note(_entry(event, outcome, caller, details))

    def record(
        self, event: str, outcome: str, caller: Caller | None = None, **details: str | int | float | bool
    ) -> None:
        """Write this down now. Raises AuditUnwritable; then it is not written later either."""
        entry = _entry(event, outcome, caller, details)
        self._write([entry])

    @contextmanager
    def recorded(
        self, event: str, caller: Caller, **details: str | int | float | bool
    ) -> Iterator[dict[str, str | int | float | bool]]:
        """Do something that changes the world between two lines: that it begins, and how it ended.

        What the block puts into the dict given out is in the second line. Raises AuditUnwritable before the block.
        """
        self.record(event, "begun", caller, **details)
        found: dict[str, str | int | float | bool] = {}
        try:
            yield found
        except BaseException as exc:
            self._finish(event, "failed", caller, {**details, **found, "reason": type(exc).__name__})
            raise
        self._finish(event, "done", caller, {**details, **found})

    def failed_authentication(self, peer: str) -> None:
        """Count a token that is none."""
        for entry in self._failures.count(peer):
            self._note(entry)
        self._some.set()

    def close(self) -> None:
        """Write what waits, and end."""
        self._closing.set()
        self._some.set()
        self._thread.join(10)

    def _finish(self, event: str, outcome: str, caller: Caller, details: dict[str, str | int | float | bool]) -> None:
        """The world has changed: what became of it is told whether it can be written or not."""
        entry = _entry(event, outcome, caller, details)
        try:
            self._write([entry])
        except AuditUnwritable:
            self._note(entry)

    def _note(self, entry: Fields) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            self._lost += 1
            return
        self._waiting.append(entry)
        if not self._some.is_set():
            self._some.set()

    def _write(self, entries: list[Fields]) -> None:
        """Everything that waits, then these. Raises AuditUnwritable; what waits goes on waiting."""
        with self._writing:
            waiting, lost = list(self._waiting), self._lost
            first: list[Fields] = [{"event": "audit", "outcome": "lost", "lines": lost}] if lost else []
            if not first and not waiting and not entries:
                return
            try:
                self.chain.append([*first, *waiting, *entries])
            except (OSError, FileUnusable) as exc:
                reason = f"{type(exc).__name__}: {exc}"
                if not self._reason:
                    log.error("audit: the log cannot be written, nothing is sent or changed: %s", reason)  # noqa: TRY400 - no fault of the program
                self._reason = reason
                raise AuditUnwritable(f"the audit log cannot be written: {exc}") from exc
            for _ in waiting:
                self._waiting.popleft()
            self._lost -= lost
            if self._reason:
                log.info("audit: the log can be written again")
                self._reason = ""

    def _follow(self) -> None:
        while not self._closing.is_set():
            self._some.wait(_RETRY_SECONDS if self._reason else self._failures.due_in())
            # Notes of a moment are written together.
            self._closing.wait(_GATHER_SECONDS)
            self._some.clear()
            for entry in self._failures.due():
                self._waiting.append(entry)
            probe: list[Fields] = [{"event": "audit", "outcome": "resumed"}] if self._reason else []
            try:
                self._write(probe)
            except AuditUnwritable:
                self._closing.wait(_RETRY_SECONDS)
        if entries := self._failures.due(at_once=True):
            self._waiting.extend(entries)
        try:
            self._write([])
        except AuditUnwritable:
            log.error("audit: %d lines are lost", len(self._waiting))  # noqa: TRY400 - said before


class _Failures:
    """Failed authentications of the minute under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = 0.0
        self._named = 0
        self._unnamed = 0

    def count(self, peer: str) -> list[Fields]:
        """One more; what is to be written of it now."""
        with self._lock:
            entries = self._ended(time.monotonic())
            if not self._began:
                self._began = time.monotonic()
            if self._named < _FAILURES_NAMED:
                self._named += 1
                entries.append(_entry("authentication", "refused", None, {"peer": peer}))
            else:
                self._unnamed += 1
            return entries

    def due(self, *, at_once: bool = False) -> list[Fields]:
        """What is to be written of a minute that has ended."""
        with self._lock:
            return self._ended(self._began + _MINUTE if at_once else time.monotonic())

    def due_in(self) -> float | None:
        """Seconds until the minute ends, None when none is under way."""
        with self._lock:
            return max(0.0, self._began + _MINUTE - time.monotonic()) if self._began else None

    def _ended(self, now: float) -> list[Fields]:
        if not self._began or now < self._began + _MINUTE:
            return []
        unnamed, self._began, self._named, self._unnamed = self._unnamed, 0.0, 0, 0
        return [_entry("authentication", "refused", None, {"times": unnamed})] if unnamed else []


def _entry(event: str, outcome: str, caller: Caller | None, details: Mapping[str, str | int | float | bool]) -> Fields:
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"at": at, "event": event, "outcome": outcome, **_who(caller), **details}


def _who(caller: Caller | None) -> dict[str, str]:
    if caller is None:
        return {}
    return {"token": caller.token, "user": caller.user, "provider": caller.provider, "profile": caller.profile}
