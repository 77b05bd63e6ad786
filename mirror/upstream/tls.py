"""TLS to an upstream server: always verified."""

import ssl
from typing import Any

from config.provider import Endpoint
from mirror.errors import UpstreamUnavailable


class _NamedContext(ssl.SSLContext):
    # A context that checks the certificate against the configured name instead of the host that was dialled.
    name: str | None = None

    def wrap_socket(self, sock: Any, *args: Any, **kwargs: Any) -> Any:
        if self.name is not None:
            kwargs["server_hostname"] = self.name
        return super().wrap_socket(sock, *args, **kwargs)


def tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """A verifying context, TLS 1.2 or newer, for this endpoint's CA file and certificate name.

    Raises UpstreamUnavailable when the CA file cannot be read.
    """
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.name = endpoint.server_name
    try:
        if endpoint.ca_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(endpoint.ca_file.expanduser())
    except OSError as exc:
        raise UpstreamUnavailable(f"ca_file {endpoint.ca_file} cannot be used: {exc}") from exc
    return context
