"""The whole story on every server: after each step the mirror equals a plain listing, and one more pass is idle."""

from collections.abc import Callable

import pytest

from config.provider import Provider
from tests.mirror.mailbox import Mirror, agree, assert_equal
from tests.mirror.scenario import STEPS, WRITES, Account, append_through_us

SERVERS = (
    "dovecot",
    "dovecot_plain_rung",
    "pymap_server",
    pytest.param("cyrus", marks=pytest.mark.soak),
    pytest.param("courier", marks=pytest.mark.soak),
)


@pytest.mark.parametrize("account", SERVERS, indirect=True)
def test_mirror_follows_whatever_happens(account: Account, make_mirror: Callable[[Provider], Mirror]) -> None:
    mirror = make_mirror(account.provider)
    for step in STEPS:
        before = mirror.single_ids()
        with account.client() as client:
            step(client, account.name)
        with account.client() as client:
            agree(mirror, client)
        # Flags, moves, renames and a changed UIDVALIDITY leave every message its id.
        after = mirror.single_ids()
        both = before.keys() & after.keys()
        assert {sha: before[sha] for sha in both} == {sha: after[sha] for sha in both}, step.__name__
    for write in WRITES:
        with mirror.connect() as upstream, account.client() as client:
            write(mirror.store, upstream, account.name)
            if upstream.has("UIDPLUS") and write is not append_through_us:
                # The call itself made the mirror right: no pass is needed.
                assert_equal(mirror, client)
            agree(mirror, client)
