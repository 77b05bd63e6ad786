"""Who is calling: a bearer token, resolved on every request to one identity and its profile.

Missing, malformed, unknown, foreign and revoked tokens get one answer. A token whose user or profile has gone from the
configuration counts as unknown.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from config.identity import Token
from config.profile import Profile
from config.provider import Provider
from server.live import InForce, LiveSettings
from server.state.store import State, digest

log = logging.getLogger(__name__)

_MAX_SECRET_CHARS = 512


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity behind one request, and what was in force when it came in.

    providers: every mailbox that the token reaches. provider and account are one of them: the only one, or with the
    gateway tools the first until a call names another. binding: changes with the policy and with any other part of the
    configuration; cursors are bound to it.
    """

    token: str
    user: str
    provider: str
    profile: str
    policy: Profile
    account: Provider
    binding: bytes
    providers: Mapping[str, Provider]

    @property
    def identity(self) -> str:
        """The identity in one word, for logs and sessions."""
        return f"{self.user}/{self.provider}/{self.profile}"

    def at(self, provider: str) -> "Caller":
        """The same caller at another of its mailboxes. Raises KeyError for one that it does not reach."""
        return replace(self, provider=provider, account=self.providers[provider])

    def named(self, account: object) -> "Caller | None":
        """The same caller at the mailbox that gateway tools call by this name, None when it reaches no such one."""
        for provider, each in self.providers.items():
            if (each.account_name or provider) == account:
                return self.at(provider)
        return None


class Authenticator:
    """Resolves tokens against the configuration and the state of this very moment."""

    def __init__(self, live: LiveSettings, state: State) -> None:
        self._live = live
        self._state = state

    def by_secret(self, secret: str) -> Caller | None:
        """The caller behind a bearer secret, None for every kind of bad one. Raises ConfigurationLost."""
        in_force = self._live.in_force()
        if not 0 < len(secret) <= _MAX_SECRET_CHARS:
            return None
        return self._resolved(self._state.find_token(digest(secret), in_force.settings.tokens), in_force)

    def by_token_name(self, name: str) -> Caller | None:
        """The caller behind the token of this name, None when it does not count. Raises ConfigurationLost."""
        in_force = self._live.in_force()
        return self._resolved(self._state.named_token(name, in_force.settings.tokens), in_force)

    def _resolved(self, token: Token | None, in_force: InForce) -> Caller | None:
        if token is None:
            return None
        try:
            return _caller(token, in_force)
        except ValueError as exc:
            log.warning("authentication: %s", exc)
            return None

    def by_name(self, user: str, profile: str, provider: str | None = None) -> Caller:
        """The caller of a local session, which the operating system vouches for.

        Raises ValueError naming what the configuration lacks, and ConfigurationLost.
        """
        in_force = self._live.in_force()
        return _caller(Token(name="stdio", sha256="0" * 64, user=user, provider=provider, profile=profile), in_force)


def _caller(token: Token, in_force: InForce) -> Caller:
    user, names, policy = in_force.settings.resolve(token)
    providers = {name: in_force.settings.users[user].providers[name] for name in names}
    return Caller(token.name, user, names[0], token.profile, policy, providers[names[0]], in_force.digest, providers)


_current: ContextVar[Caller] = ContextVar("caller")


def current_caller() -> Caller:
    """The caller of the HTTP request being served. Raises LookupError outside of one: no identity, no answer."""
    return _current.get()


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Serve a block on behalf of this caller."""
    reset = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(reset)
