"""Between our reading and our write other clients do everything, in every order: no write touches another message."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from config.identity import Provider
from mirror.errors import MessageChanged
from mirror.listing import Place
from mirror.upstream import Upstream
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, provider_at
from tests.servers.dovecot import Dovecot
from tests.servers.second_client import SecondClient


def expunge(client: SecondClient) -> None:
    """The message named goes, if it is there."""
    for uid in client.uids("Work"):
        if b"Subject: named" in client.raw("Work", uid):
            client.expunge("Work", [uid])


def append(client: SecondClient) -> None:
    """One that looks like it comes."""
    client.append("Work", simple("later"))


def reset(client: SecondClient) -> None:
    """The folder is made anew, its uids count from 1 again and name others."""
    client.examine("INBOX")
    client.delete("Work")
    client.create("Work")
    client.append("Work", simple("fresh"), simple("young"), simple("green"))


WRITES: dict[str, Callable[[Upstream, Place], object]] = {
    "flag": lambda upstream, place: upstream.store_flags(place, "add", ["\\Flagged"]),
    "move": lambda upstream, place: upstream.move(place, b"Target"),
    "remove": lambda upstream, place: upstream.remove(place),
}


@pytest.mark.parametrize("server", ["dovecot", "dovecot_plain_rung"])
@pytest.mark.parametrize("write", WRITES)
def test_no_write_touches_another_message(
    request: pytest.FixtureRequest,
    server: str,
    write: str,
    user: str,
    password_file: Path,
    make_mirror: Callable[[Provider], Mirror],
) -> None:
    dovecot: Dovecot = request.getfixturevalue(server)
    actions = (expunge, append, reset)
    orders = [order for length in range(4) for order in itertools.permutations(actions, length)]
    for number, order in enumerate(orders):
        name = f"{user}{write}{number}"
        mirror = make_mirror(provider_at(dovecot.port, name, password_file))
        with dovecot.client(name) as client, mirror.connect() as upstream:
            client.create("Work")
            client.create("Target")
            client.append("Work", simple("other"), simple("named"), simple("third"))
            mirror.sync()
            place = mirror.store.place(mirror.ids()["named@example.net"])
            assert place is not None
            for action in order:
                action(client)
            client.examine("INBOX")
            before = {row.sha256 for row in client.listing("Work")}
            try:
                WRITES[write](upstream, place)
                assert expunge not in order
                assert reset not in order
            except MessageChanged:
                assert expunge in order or reset in order
            touched = before - {row.sha256 for row in client.listing("Work") if not row.flags}
            assert len(touched) == (0 if expunge in order or reset in order else 1), order
            if touched:
                assert {row.sha256 for row in client.listing("Target")} == (touched if write == "move" else set())
