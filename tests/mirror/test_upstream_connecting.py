"""Nothing secret is said before the server has proven who it is."""

from pathlib import Path

import pytest

from config.provider import Endpoint, Provider
from config.secret import SecretSource
from mirror.errors import UpstreamUnavailable
from mirror.upstream import Upstream
from tests.servers.certificates import Certificates
from tests.servers.dovecot import Dovecot


def provider_over(security: str, dovecot: Dovecot, user: str, password_file: Path, ca_file: Path | None) -> Provider:
    """A mailbox that is reached by TLS or STARTTLS."""
    port = dovecot.tls_port if security == "tls" else dovecot.port
    imap = Endpoint.model_validate({"host": "127.0.0.1", "port": port, "security": security, "ca_file": ca_file})
    password = SecretSource(file=password_file)
    return Provider(address=f"{user}@example.org", username=user, password=password, imap=imap)


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_certificate_of_an_unknown_authority_is_refused_and_accepted_with_the_accounts_ca_file(
    security: str, dovecot: Dovecot, user: str, password_file: Path, certificates: Certificates
) -> None:
    assert dovecot.certificates is not None
    for ca_file in (None, certificates.ca_file):
        with pytest.raises(UpstreamUnavailable, match=r"(?i)certificate"):
            Upstream.connect(provider_over(security, dovecot, user, password_file, ca_file))
    assert user not in dovecot.log()
    with Upstream.connect(
        provider_over(security, dovecot, user, password_file, dovecot.certificates.ca_file)
    ) as upstream:
        assert upstream.list_folders()[0]
