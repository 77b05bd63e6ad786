"""What DNS says of a mail domain: SRV names (RFC 6186, RFC 8314) and mail exchangers. The only import of dnspython."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import dns.exception
import dns.resolver

_SECONDS = 4.0
_SERVICES = {
    "imap": (("_imaps._tcp", "tls"), ("_imap._tcp", "starttls")),
    "smtp": (("_submissions._tcp", "tls"), ("_submission._tcp", "starttls")),
}


class Names(Protocol):
    """What is asked of DNS. An answer is empty where there is none, or DNS does not answer."""

    def server(self, service: str, domain: str) -> Mapping[str, str | int] | None:
        """Host, port and security of a domain's `imap` or `smtp`."""

    def mail_exchangers(self, domain: str) -> list[str]:
        """Hosts that take the domain's mail, the preferred ones first."""


class Dns:
    """The answers of a resolver, by default this machine's."""

    def __init__(self, resolver: dns.resolver.Resolver | None = None) -> None:
        self._resolver = resolver
        with suppress(dns.exception.DNSException, OSError):
            self._resolver = resolver or dns.resolver.Resolver()

    def server(self, service: str, domain: str) -> Mapping[str, str | int] | None:
        """The server with TLS from the start, else the one with STARTTLS; of several the preferred one."""
        for prefix, security in _SERVICES[service]:
            for _, _, port, host in sorted(self._srv(f"{prefix}.{domain}")):
                # "." says that the domain has no such service (RFC 2782).
                if host:
                    return {"host": host, "port": port, "security": security}
        return None

    def mail_exchangers(self, domain: str) -> list[str]:
        """By preference; hosts only."""
        answers = [(int(each.preference), str(each.exchange.to_text(True))) for each in self._ask(domain, "MX")]
        return [host for _, host in sorted(answers)]

    def _srv(self, name: str) -> list[tuple[int, int, int, str]]:
        return [
            (each.priority, -each.weight, each.port, each.target.to_text(True).rstrip("."))
            for each in self._ask(name, "SRV")
        ]

    def _ask(self, name: str, kind: str) -> list[Any]:
        if self._resolver is None:
            return []
        try:
            return list(self._resolver.resolve(name, kind, lifetime=_SECONDS))
        except (dns.exception.DNSException, OSError, UnicodeError):
            return []
