"""Dovecot's own SEARCH of the same mail, without a full-text index: what a client gets that asks the server."""

import statistics
import time
from datetime import UTC, datetime
from itertools import islice

from bench.search_kinds import Kind, as_criteria
from bench.search_mails import FOLDERS, Mails, generate, raw
from tests.servers.dovecot import Dovecot
from tests.servers.second_client import Incoming

_AT_ONCE, _SAMPLES, _SECONDS = 200, 9, 4.0


class OnDovecot:
    """The generated mails in folders of one mailbox."""

    def __init__(self, dovecot: Dovecot, messages: int) -> None:
        self._client = dovecot.client("bench")
        self._client.imap.sock.settimeout(600)
        for name in FOLDERS[1:]:
            self._client.create(name)
        source = generate(Mails(1, messages))
        while batch := list(islice(source, _AT_ONCE)):
            for number, name in enumerate(FOLDERS, 1):
                incoming = [
                    Incoming(raw(mail), tuple(mail.flags), datetime.fromtimestamp(mail.moment, UTC))
                    for mail in batch
                    if mail.folder == number
                ]
                if incoming:
                    self._client.append(name, *incoming)

    def median(self, kind: Kind) -> float | None:
        """Milliseconds that a search of the whole folder takes, None for a kind that IMAP does not have."""
        if "sorted" in kind.name:
            return None
        self._client.examine(FOLDERS[kind.folder - 1])
        taken: list[float] = []
        end = time.monotonic() + _SECONDS
        while len(taken) < _SAMPLES and (not taken or time.monotonic() < end):
            try:
                criteria = as_criteria(kind.make().filter)
            except LookupError:
                return None
            started = time.perf_counter()
            self._client.search(criteria)
            taken.append(1000 * (time.perf_counter() - started))
        return statistics.median(taken)
