"""Letting go of the open folder before STATUS is asked for."""

from pathlib import Path

from config.provider import Endpoint, Provider
from config.secret import SecretSource
from mirror.upstream import Upstream
from tests.servers.pymap import Pymap


def test_a_server_that_refuses_to_close_a_read_only_folder_is_listed_again(
    pymap_server: Pymap, password_file: Path
) -> None:
    provider = Provider(
        address="alice@example.org",
        username=pymap_server.user,
        password=SecretSource(file=password_file),
        imap=Endpoint(host=pymap_server.host, port=pymap_server.port, security="plain"),
    )
    with Upstream.connect(provider) as upstream:
        before, _ = upstream.list_folders()
        upstream.examine(b"INBOX")
        assert upstream.has_open(b"INBOX")
        again, _ = upstream.list_folders()
        assert again == before
        assert not upstream.has_open(b"INBOX")
        assert upstream.examine(b"INBOX").uidvalidity
