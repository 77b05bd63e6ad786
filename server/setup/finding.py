"""Where the mail servers of an address are."""

from collections.abc import Mapping
from dataclasses import dataclass

from config.known import CredentialKind, KnownProvider, known_providers, of_domain, of_mail_exchangers
from server.setup.dns import Names

Server = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Found:
    """The servers of an address. source: who says so; is_sure: not only DNS, which anybody on the way can answer."""

    label: str
    imap: Server
    smtp: Server | None
    source: str
    is_sure: bool
    preset: str = ""
    username: str = ""
    credential: CredentialKind = "password"
    where: str = ""


class ProviderUnknown(LookupError):
    """There is no provider of that name."""


def find(address: str, names: Names) -> Found | None:
    """The servers of an address: by its domain, by who takes the domain's mail, by SRV names; None for unknown."""
    domain = address.rpartition("@")[2].lower()
    if known := of_domain(domain):
        return _of(known, address, f"addresses at {domain} are known", is_sure=True)
    if known := of_mail_exchangers(names.mail_exchangers(domain)):
        return _of(known, address, f"DNS says that it takes the mail of {domain}", is_sure=False)
    imap = names.server("imap", domain)
    if imap is None:
        return None
    hosts = [str(server["host"]) for server in (imap, names.server("smtp", domain)) if server]
    is_sure = all(f".{host}".endswith(f".{domain}") for host in hosts)
    return Found(domain, imap, names.server("smtp", domain), f"DNS of {domain} says so (RFC 6186)", is_sure)


def named(name: str, address: str) -> Found:
    """The servers of a provider that was named. Raises ProviderUnknown."""
    for known in known_providers():
        if known.name == name:
            return _of(known, address, "as you say", is_sure=True)
    raise ProviderUnknown(
        f"there is no provider {name!r}; there are {', '.join(each.name for each in known_providers())}"
    )


def _of(known: KnownProvider, address: str, source: str, *, is_sure: bool) -> Found:
    username = known.login(address)
    return Found(
        known.label,
        known.imap,
        known.smtp,
        source,
        is_sure,
        known.preset,
        "" if username == address else username,
        known.credential,
        known.where,
    )
