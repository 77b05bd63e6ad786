"""What happens to a mailbox, step by step: the story that every server, kill and fault is tried with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bench.mail import generate
from config.provider import Provider
from mirror.store import Store
from mirror.upstream import Upstream
from tests.mirror.mail import simple
from tests.servers.second_client import Incoming, SecondClient


class Server(Protocol):
    """A mail server under test.

    prefix: what names of folders begin with. delimiter: what is between their levels.
    """

    port: int
    prefix: str
    delimiter: str

    def client(self, user: str) -> SecondClient:
        """A plain IMAP session."""


@dataclass(frozen=True)
class Account:
    """A mailbox on a server."""

    server: Server
    user: str
    provider: Provider

    def client(self) -> SecondClient:
        """Another mail program."""
        return self.server.client(self.user)

    def name(self, *levels: str) -> str:
        """A folder's name as this server has it."""
        return self.server.prefix + self.server.delimiter.join(levels)


def first_sync(client: SecondClient, name: Callable[..., str]) -> None:
    """A mailbox that nobody has mirrored yet."""
    client.append("INBOX", *generate(14, seed=21), *(simple(f"kept {number}") for number in range(12)))
    for folder in ("Work", "Old", "Gone"):
        client.create(name(folder))
        client.append(name(folder), Incoming(simple(f"in {folder}"), flags=("\\Seen",)))
    client.append(name("Work"), *generate(6, seed=22), simple("kept 0"))
    client.create(name("Old", "Below"))
    client.append(name("Old", "Below"), simple("in Below"))


def new_mail(client: SecondClient, name: Callable[..., str]) -> None:
    """Mail arrives in two folders."""
    client.append("INBOX", simple("new one"), Incoming(simple("new two"), flags=("\\Flagged",)))
    client.append(name("Work"), simple("new three"))


def expunged_mail(client: SecondClient, name: Callable[..., str]) -> None:
    """The oldest, one in the middle and the newest are deleted."""
    uids = client.uids("INBOX")
    client.expunge("INBOX", [uids[0], uids[7], uids[-1]])
    client.expunge(name("Work"), client.uids(name("Work"))[:1])


def flagged_mail(client: SecondClient, name: Callable[..., str]) -> None:
    """System flags and a keyword are set, others taken away."""
    uids = client.uids("INBOX")
    client.add_flags("INBOX", uids[:4], "\\Flagged", "\\Answered")
    client.add_flags("INBOX", uids[2:6], "$Forwarded", "\\Seen")
    client.remove_flags("INBOX", uids[3:5], "\\Flagged")
    client.remove_flags(name("Old"), client.uids(name("Old")), "\\Seen")


def moved_mail(client: SecondClient, name: Callable[..., str]) -> None:
    """Two are moved, one is copied."""
    uids = client.uids("INBOX")
    client.move("INBOX", uids[5:7], to=name("Work"))
    client.copy("INBOX", uids[8:9], to=name("Old"))


def created_folder(client: SecondClient, name: Callable[..., str]) -> None:
    """One with mail and one without."""
    client.create(name("Entwürfe & Co"))
    client.append(name("Entwürfe & Co"), simple("in the new folder"), simple("kept 1"))
    client.create(name("Empty"))


def renamed_folder(client: SecondClient, name: Callable[..., str]) -> None:
    """One that has another below it."""
    client.rename(name("Old"), name("Kept"))


def deleted_folder(client: SecondClient, name: Callable[..., str]) -> None:
    """With its mail."""
    client.delete(name("Gone"))


def recreated_folder(client: SecondClient, name: Callable[..., str]) -> None:
    """Deleted and made again between two passes: the same uids, other mail."""
    folder = name("Entwürfe & Co")
    client.delete(folder)
    client.create(folder)
    client.append(folder, simple("after the fall"), simple("and another"))


def reset_uidvalidity(client: SecondClient, name: Callable[..., str]) -> None:
    """A folder is restored from a backup: the same mail in another order under another UIDVALIDITY."""
    folder = name("Work")
    originals = client.originals(folder)
    before = client.status(folder)["UIDVALIDITY"]
    client.examine("INBOX")
    client.delete(folder)
    client.create(folder)
    client.append(folder, *reversed(originals[1:]), simple("after the backup"))
    assert client.status(folder)["UIDVALIDITY"] != before


def busy_day(client: SecondClient, name: Callable[..., str]) -> None:
    """All of it between two passes."""
    uids = client.uids("INBOX")
    client.append("INBOX", simple("newest"))
    client.expunge("INBOX", uids[:2])
    client.add_flags("INBOX", uids[2:5], "\\Flagged", "\\Deleted")
    client.move("INBOX", uids[5:7], to=name("Work"))
    client.examine("INBOX")
    client.rename(name("Kept"), name("Renamed"))
    client.delete(name("Empty"))
    client.create(name("Young"))
    client.append(name("Young"), simple("in Young"), simple("kept 2"))


def emptied_folder(client: SecondClient, name: Callable[..., str]) -> None:
    """Everything in it is deleted at once."""
    client.expunge(name("Young"), client.uids(name("Young")))


STEPS: tuple[Callable[[SecondClient, Callable[..., str]], None], ...] = (
    first_sync,
    new_mail,
    expunged_mail,
    flagged_mail,
    moved_mail,
    created_folder,
    renamed_folder,
    deleted_folder,
    recreated_folder,
    reset_uidvalidity,
    busy_day,
    emptied_folder,
)
"""What another client does, in order; the mirror has followed before each."""


def _named(store: Store, folder: str) -> tuple[int, int, bytes]:
    """(id of the newest message, folder id, raw name) of a folder here."""
    row = next(row for row in store.folders() if row.name == folder)
    newest = store._connection.execute(
        "SELECT id FROM message WHERE folder = ? ORDER BY uid DESC LIMIT 1", (row.id,)
    ).fetchone()
    return newest[0] if newest else 0, row.id, row.raw


def flag_through_us(store: Store, upstream: Upstream, name: Callable[..., str]) -> None:
    """The newest of INBOX gets a flag and loses it, then gets two."""
    message, _, _ = _named(store, "INBOX")
    place = store.place(message)
    assert place is not None
    for change, flags in (("add", ["\\Answered"]), ("remove", ["\\Answered"]), ("add", ["\\Seen", "\\Draft"])):
        now = upstream.store_flags(place, change, flags)  # type: ignore[arg-type]  # one of the two words
        store.set_flags(message, now.flags, now.modseq)


def move_through_us(store: Store, upstream: Upstream, name: Callable[..., str]) -> None:
    """The newest of INBOX goes to Work."""
    message, _, _ = _named(store, "INBOX")
    _, folder, raw = _named(store, name("Work"))
    place = store.place(message)
    assert place is not None
    arrived = upstream.move(place, raw)
    store.move(message, folder, arrived.uidvalidity, arrived.uid)


def delete_through_us(store: Store, upstream: Upstream, name: Callable[..., str]) -> None:
    """The newest of Work goes for good, or stays marked where the server can do no better."""
    message, _, _ = _named(store, name("Work"))
    place = store.place(message)
    assert place is not None
    removed = upstream.remove(place)
    if removed.expunged:
        store.forget(message)
    else:
        store.set_flags(message, removed.flags)


def append_through_us(store: Store, upstream: Upstream, name: Callable[..., str]) -> None:
    """A message of ours is stored in Work; the next pass finds it."""
    upstream.append(_named(store, name("Work"))[2], simple("of ours"), ["\\Seen"])


WRITES: tuple[Callable[[Store, Upstream, Callable[..., str]], None], ...] = (
    flag_through_us,
    move_through_us,
    delete_through_us,
    append_through_us,
)
"""What we do ourselves, upstream and then here."""
