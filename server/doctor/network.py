"""Where clients reach the server: port, TLS files, proxy and public address."""

import errno
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_network

from cryptography import x509

from config.identity import Server
from config.kinds import LOOPBACK
from server.amounts import counted
from server.certificate import Certificate, CertificateUnusable
from server.doctor.certificate import SOON
from server.doctor.finding import Finding, fail, ok, warn
from server.doctor.healthz import ask_public, is_loopback


def check_network(place: Server, *, is_serving: bool) -> Iterator[Finding]:
    """is_serving: whether a serve of this data directory runs, which then must be reachable."""
    if not is_serving and (reason := _cannot_listen(place)):
        yield reason
    yield from _own_certificate(place)
    yield from _proxy(place)
    if not is_loopback(place.url) and place.url.startswith("http://"):
        yield fail(
            "public-url-clear",
            place.url,
            "tokens and mail would cross the network in clear",
            "give public_url as https://, with TLS files or a proxy that speaks TLS",
        )
    elif is_serving and (said := ask_public(place.url)) not in ("ok", "degraded"):
        yield fail(
            "public-url",
            place.url,
            f"serve runs and is not reached by its public address: {said}",
            "check public_url, the proxy (it must pass Host on), DNS and the firewall",
        )
    else:
        yield ok("public-url", place.url, "reached" if is_serving else "not asked: serve is not running")


def _cannot_listen(place: Server) -> Finding | None:
    try:
        with socket.create_server(
            (place.host, place.port), family=socket.AF_INET6 if ":" in place.host else socket.AF_INET
        ):
            return None
    except OSError as exc:
        about = f"{place.host}:{place.port}"
        if exc.errno == errno.EADDRINUSE:
            return fail("port-taken", about, "another program listens there", "stop it, or set another server.port")
        return fail("port-refused", about, f"cannot listen there: {exc.strerror}", "correct server.host and port")


def _own_certificate(place: Server) -> Iterator[Finding]:
    if place.tls_cert_file is None or place.tls_key_file is None:
        return
    try:
        Certificate(place.tls_cert_file, place.tls_key_file)
        ends = x509.load_pem_x509_certificate(place.tls_cert_file.read_bytes()).not_valid_after_utc
    except (CertificateUnusable, ValueError, OSError) as exc:
        said = str(exc)
        fix = said.rpartition(": ")[2] if "chmod" in said else "give the whole chain and its key as PEM, readable to us"
        yield fail("tls-files", place.tls_cert_file, said, fix)
        return
    left = ends - datetime.now(UTC)
    if left.total_seconds() < 0:
        yield fail(
            "tls-files-expired", place.tls_cert_file, f"expired since {ends:%Y-%m-%d}", "renew it; no restart needed"
        )
    elif left < SOON:
        yield warn(
            "tls-files-end-soon",
            place.tls_cert_file,
            f"ends in {counted(left.days, 'day')}",
            "renew it; no restart needed",
        )
    else:
        yield ok("tls-files", place.tls_cert_file, f"valid until {ends:%Y-%m-%d}")


def _proxy(place: Server) -> Iterator[Finding]:
    if not place.behind_proxy:
        return
    everybody = [each for each in place.trusted_proxies if ip_network(each).prefixlen == 0]
    if everybody:
        yield fail(
            "proxy-everybody",
            everybody[0],
            "every peer is believed when it says who it is",
            "name the proxy's own address in trusted_proxies",
        )
    if not place.public_url:
        yield fail(
            "proxy-public-url",
            "public_url",
            "behind a proxy clients call another address than this one, and Host is checked",
            'set public_url to what clients call, such as "https://mail.example.org"',
        )
    if place.host not in LOOPBACK:
        yield warn(
            "proxy-bypass",
            f"{place.host}:{place.port}",
            "the port is open to others than the proxy, in clear",
            'set host = "127.0.0.1" when the proxy is on this machine; else close the port to all but the proxy',
        )
