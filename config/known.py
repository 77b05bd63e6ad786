"""Providers that are known by the domain of an address: where their servers are and which credential they want."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from config.settings import presets

CredentialKind = Literal["password", "app-password", "oauth", "bridge"]


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """One provider.

    preset: its name in providers.toml, "" for none. imap, smtp: host, port and security. username: of the address or
    only the part before the @. where: how its credential is had. mx: ends of the MX names of domains it hosts.
    """

    name: str
    label: str
    imap: Mapping[str, str | int]
    smtp: Mapping[str, str | int]
    preset: str = ""
    username: Literal["address", "local"] = "address"
    credential: CredentialKind = "password"
    where: str = ""
    domains: tuple[str, ...] = ()
    mx: tuple[str, ...] = ()

    def login(self, address: str) -> str:
        """The user name that belongs to an address here."""
        return address if self.username == "address" else address.rpartition("@")[0]


@cache
def known_providers() -> tuple[KnownProvider, ...]:
    """Every provider that is known, the presets first."""
    more = tomllib.loads(files("config").joinpath("autoconfig.toml").read_text("utf-8"))
    return (
        *(_known(name, {**table, "preset": name}) for name, table in presets().items() if name != "generic"),
        *(_known(name, {**table, "imap": _server(table["imap"]), "smtp": _server(table["smtp"])})
          for name, table in more.items()),
    )  # fmt: skip


def _known(name: str, table: Mapping[str, Any]) -> KnownProvider:
    lists = {key: tuple(table.get(key, ())) for key in ("domains", "mx")}
    return KnownProvider(name=name, **{**{key: value for key, value in table.items() if key != "oauth"}, **lists})


def _server(text: str) -> dict[str, str | int]:
    place, _, security = text.partition("+")
    host, _, port = place.rpartition(":")
    return {"host": host, "port": int(port), "security": security or "tls"}


def of_domain(domain: str) -> KnownProvider | None:
    """The provider whose addresses end in this domain."""
    return next((each for each in known_providers() if domain.lower() in each.domains), None)


def of_mail_exchangers(hosts: Iterable[str]) -> KnownProvider | None:
    """The provider that takes the mail of a domain with these MX hosts, the preferred ones first."""
    for host in hosts:
        name = "." + host.lower().rstrip(".")
        for each in known_providers():
            if any(name.endswith("." + end) for end in each.mx):
                return each
    return None
