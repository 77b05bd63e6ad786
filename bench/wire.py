"""The wire floor: everything fetched by imapclient and thrown away. No mirror of this mailbox can be faster."""

import time

from imapclient import IMAPClient

from bench.figures import Figure, Section, seconds
from bench.installation import Mailbox
from tests.servers.ports import HOST, PASSWORD

_BATCH = 250
_ITEMS = ("FLAGS", "INTERNALDATE", "RFC822.SIZE", "BODY.PEEK[]")


def wire_floor(mailbox: Mailbox, runs: int) -> Section:
    """Seconds of a raw FETCH; a first, cold one is not counted."""
    fetch_everything(mailbox)
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        fetch_everything(mailbox)
        taken.append(time.perf_counter() - began)
    floor = seconds("raw FETCH of everything", taken, key="wire", against="")
    rate = Figure("that is", mailbox.octets / 1e6 / floor.value, "MB/s")
    return Section("Wire floor", ("median", "slowest"), (floor, rate))


def fetch_everything(mailbox: Mailbox) -> None:
    """Fetch each message of each folder whole, newest first."""
    client = IMAPClient(HOST, mailbox.dovecot.port, ssl=False)
    client._imap.debug = 0  # noqa: SLF001 - imaplib keeps a log of every line otherwise
    client.login(mailbox.login, PASSWORD)
    for _, _, name in client.list_folders():
        client.select_folder(name, readonly=True)
        uids = client.search()[::-1]
        for start in range(0, len(uids), _BATCH):
            client.fetch(uids[start : start + _BATCH], _ITEMS)
    client.logout()
