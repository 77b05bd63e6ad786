"""Small attachments kept offline, on a thread of their own beside what comes next: the text is there already."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from mirror.blobs import Written
from mirror.parsing import Crash, Parsers
from mirror.record import Record
from mirror.spool import Raw
from mirror.store import Store

AHEAD = 2
"""Batches whose attachments are on their way to the disk."""


class Offline:
    """Keeps the attachments of one mirror's mail. largest: octets of one, 0 to keep none."""

    def __init__(self, store: Store, parsers: Parsers, largest: int) -> None:
        self._store = store
        self._parsers = parsers
        self._largest = largest
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

    def keep(self, contents: Sequence[tuple[int, Raw, Record]]) -> None:
        """Keep the small attachments of these (content id, mail, record)."""
        self.name()
        with_some = [
            (content_id, raw)
            for content_id, raw, record in contents
            if record.smallest is not None and record.smallest <= self._largest
        ]
        if not self._largest or not with_some:
            return
        ids = [content_id for content_id, _ in with_some]
        parsed = self._parsers.attachments_later([raw for _, raw in with_some], self._largest)

        def write() -> list[Written]:
            answers = zip(ids, parsed(), strict=True)
            return self._store.blobs.write([(each, parts) for each, parts in answers if not isinstance(parts, Crash)])

        if self._disk is None:
            self._store.blobs.name(write())
        else:
            self._written.append(self._disk.submit(write))

    def name(self, *, wait: bool = False) -> None:
        """The rows of attachments that are on the disk. wait: for all that are on their way there."""
        while self._written and (wait or self._written[0].done() or len(self._written) > AHEAD):
            self._store.blobs.name(self._written.pop(0).result())
