"""Open mirrors for reading: a few connections per mirror, kept between requests."""

import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from config.identity import mirror_folder
from mirror.errors import MirrorCorrupt, StoreError
from mirror.presence import Presence
from mirror.query.reader import Reader
from mirror.query.recent import Recent
from mirror.store import Store
from mirror.wake import wake
from server.brief_call import will_take_long

log = logging.getLogger(__name__)

_IDLE_PER_MIRROR = 2
_MIRRORS = 64


@dataclass(slots=True)
class _Pool:
    """Idle readers of one mirror, all on the file with this inode."""

    inode: int
    idle: list[Reader] = field(default_factory=list)


class Mirrors:
    """The mirrors below one data directory. Safe to share between threads."""

    def __init__(self, data_dir: Path) -> None:
        self.presence = Presence(data_dir)
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._recent = Recent()
        self._paths: dict[tuple[str, str], str] = {}
        self._pools: OrderedDict[tuple[str, str], _Pool] = OrderedDict()

    def folder(self, user: str, provider: str) -> Path:
        """The folder that holds one mirror."""
        return mirror_folder(self._data_dir, user, provider)

    def _path(self, user: str, provider: str) -> str:
        """The file of one mirror."""
        if (user, provider) not in self._paths:
            self._paths[user, provider] = str(self.folder(user, provider) / "mirror.db")
        return self._paths[user, provider]

    @contextmanager
    def reading(self, user: str, provider: str) -> Iterator[Reader]:
        """A reader of this mirror for the length of a block. Raises MirrorAbsent."""
        path = self._path(user, provider)
        try:
            inode = os.stat(path).st_ino
        except OSError:
            inode = 0
        reader = self._take((user, provider), inode)
        if reader is None:
            will_take_long()
            reader = Reader(Path(path), recent=self._recent)
        try:
            yield reader
        except (sqlite3.Error, MirrorCorrupt):
            reader.close()
            raise
        except BaseException:
            self._give_back((user, provider), inode, reader)
            raise
        self._give_back((user, provider), inode, reader)

    def want(self, user: str, provider: str, content_ids: list[int]) -> None:
        """Ask the sync worker for the bodies of these contents before anything else.

        A mirror that cannot be written for a while (a full disk, the weekly clean-up) is read all the same.
        """
        try:
            with Store(self.folder(user, provider)) as store:
                for content_id in content_ids:
                    store.want(content_id)
        except (sqlite3.OperationalError, StoreError) as exc:
            log.warning("a text cannot be asked for now (%s)", type(exc).__name__)
        wake(self.folder(user, provider))

    def count(self, user: str, provider: str, octets: int) -> None:
        """Count octets that this process received from the mail server among those of the day."""
        try:
            with Store(self.folder(user, provider)) as store:
                store.add_fetched(octets)
        except (sqlite3.Error, StoreError) as exc:
            log.warning("received octets not counted: %s", type(exc).__name__)

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            for pool in self._pools.values():
                _close(pool)
            self._pools.clear()

    def _take(self, mirror: tuple[str, str], inode: int) -> Reader | None:
        with self._lock:
            pool = self._pools.get(mirror)
            if pool is not None and pool.inode != inode:
                # The mirror was rebuilt: what is open reads a file that is no more.
                _close(self._pools.pop(mirror))
                return None
            return pool.idle.pop() if pool is not None and pool.idle else None

    def _give_back(self, mirror: tuple[str, str], inode: int, reader: Reader) -> None:
        with self._lock:
            pool = self._pools.setdefault(mirror, _Pool(inode))
            self._pools.move_to_end(mirror)
            if pool.inode == inode and len(pool.idle) < _IDLE_PER_MIRROR:
                pool.idle.append(reader)
            else:
                reader.close()
            while len(self._pools) > _MIRRORS:
                _close(self._pools.popitem(last=False)[1])


def _close(pool: _Pool) -> None:
    for reader in pool.idle:
        reader.close()
