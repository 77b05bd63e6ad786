"""Mirrors for the tests in this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.provider import Provider
from mirror.parsing import Parsers
from tests.mirror.mailbox import Mirror, provider_at
from tests.mirror.scenario import Account, Server
from tests.servers.dovecot import Dovecot
from tests.servers.ports import PASSWORD
from tests.servers.pymap import USER, Pymap


@pytest.fixture(scope="session")
def parsers() -> Iterator[Parsers]:
    """Parsing children, shared by the tests of a process."""
    with Parsers(2) as shared:
        yield shared


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    """A secret file with the password of every test user."""
    path = tmp_path / "password"
    path.write_text(PASSWORD + "\n", "utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture
def make_mirror(tmp_path: Path, parsers: Parsers) -> Iterator[Callable[[Provider], Mirror]]:
    """Makes mirrors that are closed after the test."""
    made: list[Mirror] = []

    def make(provider: Provider) -> Mirror:
        made.append(Mirror(tmp_path / f"mirror{len(made)}", provider, parsers))
        return made[-1]

    yield make
    for mirror in made:
        mirror.close()


@pytest.fixture
def mirror(dovecot: Dovecot, user: str, password_file: Path, make_mirror: Callable[[Provider], Mirror]) -> Mirror:
    """A mirror of an empty mailbox on Dovecot."""
    return make_mirror(provider_at(dovecot.port, user, password_file))


@pytest.fixture
def account(request: pytest.FixtureRequest, user: str, password_file: Path) -> Account:
    """An empty mailbox on the server whose fixture is named."""
    server: Server = request.getfixturevalue(request.param)
    owner = USER if isinstance(server, Pymap) else user
    return Account(server, owner, provider_at(server.port, owner, password_file))
