"""Asking a running `serve` how it is, here or by its public address."""

import http.client
import json
import ssl
from urllib.parse import urlsplit

from config.identity import Server
from config.kinds import LOOPBACK

_SECONDS = 4.0


def ask(place: Server, host: str, port: int) -> str:
    """What `/healthz` says on this address: "ok", "degraded", or why there is no answer."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    if place.tls_cert_file is None:
        return _said(http.client.HTTPConnection(host, port, timeout=_SECONDS), _host_of(place))
    # Its own certificate is for the public name; whether that is trusted, asking by that name tells.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _said(http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context), _host_of(place))


def ask_public(url: str) -> str:
    """What `/healthz` says below a public address, over verified TLS where that is https."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
    except (ValueError, http.client.HTTPException) as exc:
        return str(exc)
    return _said(connection, parts.netloc, parts.path.rstrip("/"))


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own."""
    return (urlsplit(url).hostname or "") in LOOPBACK


def _host_of(place: Server) -> str:
    return urlsplit(place.url).netloc


def _said(connection: http.client.HTTPConnection, host: str, below: str = "") -> str:
    try:
        connection.request("GET", f"{below}/healthz", headers={"Host": host})
        answer = connection.getresponse()
        body = answer.read(1_000)
    except ssl.SSLCertVerificationError as exc:
        return f"certificate: {exc.verify_message}"
    except (OSError, http.client.HTTPException) as exc:
        return str(exc) or type(exc).__name__
    finally:
        connection.close()
    try:
        return str(json.loads(body)["status"])
    except (ValueError, KeyError, TypeError):
        return f"answer {answer.status}, which is not postmirror's"
