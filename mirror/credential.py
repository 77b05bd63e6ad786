"""What a mailbox is logged in with: a secret of the configuration, or one that somebody else looks after."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from config.provider import Endpoint, Provider
from config.secret import SecretUnavailable
from mirror.errors import AuthenticationRefused


class Credential(Protocol):
    """The secret of one login, asked for whenever it is needed."""

    def secret(self, refused: str = "") -> str:
        """The secret of this moment. refused: the one that the server has just refused, where there may be another.

        Raises AuthenticationRefused when there is none, UpstreamUnavailable when it cannot be had now.
        """

    def mark(self) -> str:
        """What changes when another secret is to be tried, without asking anybody for it; "" for nothing."""


Credentials = Callable[[str, str, Provider, Endpoint], Credential | None]
"""What a server of a user's provider is logged in to with, None for the secret that the configuration names."""


def as_configured(user: str, name: str, provider: Provider, endpoint: Endpoint) -> Credential | None:
    """Credentials that are all in the configuration."""
    return None


@dataclass(frozen=True, slots=True)
class InMemory:
    """A secret that is kept nowhere yet: tried once."""

    word: str = field(repr=False)

    def secret(self, refused: str = "") -> str:
        """The secret."""
        return self.word

    def mark(self) -> str:
        """Nothing: it never changes."""
        return ""


class Configured:
    """The secret that the configuration names for an endpoint."""

    def __init__(self, provider: Provider, endpoint: Endpoint) -> None:
        self._source = provider.login(endpoint)[1]
        self._is_signed_in = provider.is_signed_in(endpoint)
        self._host = endpoint.host

    def secret(self, refused: str = "") -> str:
        """The secret, read anew. Raises AuthenticationRefused when it is not configured or cannot be read."""
        if self._is_signed_in:
            raise AuthenticationRefused(f"signing in to {self._host} by OAuth 2 is not possible here")
        if self._source is None:
            raise AuthenticationRefused(f"no password is configured for {self._host}: set password")
        try:
            return self._source.read()
        except SecretUnavailable as exc:
            raise AuthenticationRefused(str(exc)) from exc

    def mark(self) -> str:
        """The secret itself; "" when there is none."""
        try:
            return "" if self._source is None else self._source.read()
        except SecretUnavailable:
            return ""
