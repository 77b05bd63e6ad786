"""Small attachments kept offline, on a thread of their own beside what comes next: the text is there already."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from mirror.blobs import Written
from mirror.record import Record
from mirror.store import Store

AHEAD = 2
"""Batches whose attachments are on their way to the disk."""


class Offline:
    """Keeps the attachments of one mirror's mail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._disk: ThreadPoolExecutor | None = None
        self._written: list[Future[list[Written]]] = []

    def begin(self) -> None:
        """Write beside the caller from now on, until `end`."""
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="blobs")

    def end(self) -> None:
        """Wait for what is on its way to the disk."""
        try:
            self.name(wait=True)
        finally:
            self._written.clear()
            if self._disk is not None:
                self._disk.shutdown()
                self._disk = None

    def keep(self, contents: Sequence[tuple[int, Record]]) -> None:
        """Keep the attachments that came with these (content id, record)."""
        self.name()
        parts = [(content_id, record.kept) for content_id, record in contents if record.kept]
        if not parts:
            return
        if self._disk is None:
            self._store.blobs.name(self._store.blobs.write(parts))
        else:
            self._written.append(self._disk.submit(self._store.blobs.write, parts))

    def name(self, *, wait: bool = False) -> None:
        """The rows of attachments that are on the disk. wait: for all that are on their way there."""
        while self._written and (wait or self._written[0].done() or len(self._written) > AHEAD):
            self._store.blobs.name(self._written.pop(0).result())
