"""The sample mailbox: some hundred varied messages of one invented person, Alice Example.

Threads, newsletters, invoices, lists, tickets, several scripts, and two messages that try to give orders to whoever
reads them. The same moment and seed give the same mailbox.
"""

from datetime import datetime
from email.headerregistry import Address

from server.demo.conversations import conversations
from server.demo.letter import Letter
from server.demo.series import series

OWNER = Address("Alice Example", addr_spec="alice@example.org")


def sample_mailbox(now: datetime, seed: int = 1) -> list[Letter]:
    """Every letter of the mailbox, oldest first. now: aware; nothing is dated later."""
    return sorted([*conversations(now), *series(now, OWNER, seed)], key=lambda letter: (letter.date, letter.message_id))
