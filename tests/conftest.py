"""The servers that tests share: one of each for a worker process, started when a test first asks for it."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.certificates import Certificates, make_certificates
from tests.servers.courier import Courier
from tests.servers.cyrus import Cyrus
from tests.servers.dovecot import IMAP4REV1, Dovecot
from tests.servers.pymap import Pymap
from tests.servers.smtp import SmtpSink

_NUMBERS = itertools.count(1)


@pytest.fixture
def user() -> str:
    """A user name that no other test uses: its mailbox is empty."""
    return f"user{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def shared_dovecot() -> Iterator[Dovecot]:
    """A Dovecot with all it can (CONDSTORE, QRESYNC …), for the whole run. Tests take `dovecot`."""
    with Dovecot() as server:
        yield server


@pytest.fixture
def dovecot(shared_dovecot: Dovecot) -> Iterator[Dovecot]:
    """A running Dovecot that a test may stop, kill and restart: the next test finds it running."""
    yield shared_dovecot
    if not shared_dovecot.running:
        shared_dovecot.start()


@pytest.fixture(scope="session")
def dovecot_plain_rung() -> Iterator[Dovecot]:
    """A running Dovecot that offers IMAP4rev1 and nothing more. Leave it running."""
    with Dovecot(capability=IMAP4REV1) as server:
        yield server


@pytest.fixture(scope="session")
def cyrus() -> Iterator[Cyrus]:
    """A running Cyrus; the test is skipped where its packages are missing."""
    with Cyrus() as server:
        yield server


@pytest.fixture(scope="session")
def courier() -> Iterator[Courier]:
    """A running Courier; the test is skipped where its packages are missing."""
    with Courier() as server:
        yield server


@pytest.fixture
def pymap_server() -> Iterator[Pymap]:
    """A running pymap with an empty mailbox."""
    with Pymap() as server:
        yield server


@pytest.fixture
def smtp_sink() -> Iterator[SmtpSink]:
    """A running SMTP server without TLS or login."""
    with SmtpSink() as sink:
        yield sink


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Server certificate and authority for loopback."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """An empty data directory with the permissions that the program insists on."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder
