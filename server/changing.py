"""Changing a mailbox: policy first, then upstream, and the mirror only after upstream has said yes."""

import logging
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from mirror.errors import MessageChanged, StoreError
from mirror.mirrored import MirroredMessage
from mirror.store import Store
from server.audit import Audit
from server.auth import Caller
from server.mirrors import Mirrors
from server.upstreams import Upstreams

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Flagged:
    """The flags that upstream has now. is_mirrored: whether the mirror could write them down too."""

    flags: frozenset[str]
    is_mirrored: bool


class Changing:
    """Changes flags."""

    _audit: Audit
    _mirrors: Mirrors
    _upstreams: Upstreams

    def store_flags(
        self, caller: Caller, message: MirroredMessage, change: Literal["add", "remove"], flags: Collection[str]
    ) -> Flagged:
        """Change flags upstream, then in the mirror; returns the flags the message has now.

        Raises MessageChanged when upstream has another message in its place, and the other UpstreamErrors.
        """
        with self._mirrors.reading(caller.user, caller.provider) as reader:
            place = reader.place(message.id)
        if place is None:
            raise MessageChanged(f"message {message.id}")
        with self._audit.recorded("flags", caller, message=message.id, change=change, flags=" ".join(sorted(flags))):
            now = self._upstreams.run(
                (caller.user, caller.provider),
                caller.account,
                lambda upstream: upstream.store_flags(place, change, flags),
            )
        is_mirrored = True
        try:
            with Store(self._mirrors.folder(caller.user, caller.provider)) as store:
                store.set_flags(message.id, now.flags, now.modseq)
        except (sqlite3.Error, StoreError) as exc:
            is_mirrored = False
            log.warning("flags: the mirror cannot be written (%s), it follows later", type(exc).__name__)
        log.info("flags: %s %s identity=%s", change, " ".join(sorted(flags)), caller.identity)
        return Flagged(now.flags, is_mirrored)
