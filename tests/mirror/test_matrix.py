"""The whole story on every server: after each step the mirror equals a plain listing, and one more pass is idle."""

from collections.abc import Callable
from pathlib import Path

import pytest

from config.identity import Provider
from tests.mirror.mailbox import Mirror, agree, assert_equal, provider_at
from tests.mirror.scenario import STEPS, WRITES, Account, Server, append_through_us
from tests.servers.pymap import USER, Pymap

SERVERS = (
    "dovecot",
    "dovecot_plain_rung",
    "pymap_server",
    pytest.param("cyrus", marks=pytest.mark.soak),
    pytest.param("courier", marks=pytest.mark.soak),
)


@pytest.fixture(params=SERVERS)
def account(request: pytest.FixtureRequest, user: str, password_file: Path) -> Account:
    """An empty mailbox on each server."""
    server: Server = request.getfixturevalue(request.param)
    owner = USER if isinstance(server, Pymap) else user
    return Account(server, owner, provider_at(server.port, owner, password_file))


def test_mirror_follows_whatever_happens(account: Account, make_mirror: Callable[[Provider], Mirror]) -> None:
    mirror = make_mirror(account.provider)
    for step in STEPS:
        with account.client() as client:
            step(client, account.name)
        with account.client() as client:
            agree(mirror, client)
    for write in WRITES:
        with mirror.connect() as upstream, account.client() as client:
            write(mirror.store, upstream, account.name)
            if upstream.has("UIDPLUS") and write is not append_through_us:
                # The call itself made the mirror right: no pass is needed.
                assert_equal(mirror, client)
            agree(mirror, client)
