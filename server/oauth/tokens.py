"""Tokens, and why there are none."""

from dataclasses import dataclass, field
from typing import Literal

Fault = Literal["signed_out", "consent", "administrator", "client"]
"""Why a sign-in does not count: it ended; it needs another consent; an administrator must approve; our own client."""


class EndpointUnavailable(ConnectionError):
    """The authorization server does not answer now; whether it heard us is not known."""


@dataclass
class SignInRefused(Exception):
    """The authorization server says no. reason: its codes."""

    fault: Fault
    reason: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a sign-in or a renewal gives. Times are seconds since 1970.

    refresh: "" when the one before stays good. refresh_expires: None when the server does not say.
    """

    access: str = field(repr=False)
    issued: float
    expires: float
    refresh: str = field(repr=False)
    refresh_expires: float | None = None
