"""What lists showed of messages lately, kept for as long as their mirror does not change."""

import threading
from collections.abc import Sequence
from itertools import islice

from mirror.mirrored import MirroredMessage

Snapshot = tuple[object, int, int, bool]
"""(reader, version of the file as the reader counts it, folder, whether with the length of texts)."""

_FORGOTTEN_AT_ONCE = 50


class Recent:
    """Messages by the snapshot they were read in, the latest `most` of them. Safe to share between threads."""

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._messages: dict[tuple[Snapshot, int], MirroredMessage] = {}

    def of(self, snapshot: Snapshot, ids: Sequence[int]) -> dict[int, MirroredMessage]:
        """Those of the messages that are known, by their ids."""
        known = [self._messages.get((snapshot, id_)) for id_ in ids]
        return {message.id: message for message in known if message is not None}

    def keep(self, snapshot: Snapshot, messages: Sequence[MirroredMessage]) -> None:
        """Keep these, and forget the oldest when there are too many."""
        with self._lock:
            self._messages.update({(snapshot, message.id): message for message in messages})
            if len(self._messages) > self._most:
                excess = len(self._messages) - self._most + _FORGOTTEN_AT_ONCE
                for oldest in list(islice(self._messages, excess)):
                    del self._messages[oldest]
