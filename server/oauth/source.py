"""Access tokens for whoever logs in: the one at hand while it is good, else a fresh one, fetched once for everybody.

A renewal, one at a time by a lock that dies with its holder:

1. Look again: another process may have renewed meanwhile.
2. Write down that a renewal begins; the old refresh token stays where it is.
3. Ask the authorization server.
4. Replace the old tokens by the new ones, in one transaction that is on the disk before anybody uses them.

Killed between 2 and 4, the old refresh token is what there is, and it is tried again: servers that rotate them bear
that, or bear it for a while, when nobody has used the new one. One that takes the second use for a theft ends the
sign-in; that cannot be told from the outside, so it is said as what it is, and somebody signs in again.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from config.identity import Settings
from config.provider import Endpoint, OAuth, Provider
from mirror.credential import Credential, Credentials, as_configured
from mirror.errors import SignInNeeded, UpstreamUnavailable
from server.key import DataKey
from server.oauth.grants import Grants, GrantSealed, RenewalBusy
from server.oauth.tokens import EndpointUnavailable, Fault, SignInRefused, Tokens
from server.state.store import SignIn, State
from server.unusable import FileUnusable

EARLY = 300.0
"""Seconds before its end that an access token is renewed; a shorter-lived one is, at half of its life."""
_MARGIN = 10.0
_AGAIN = 60.0
_ADVICE: dict[Fault, str] = {
    "signed_out": "the sign-in has ended",
    "consent": "the provider wants the owner's consent again",
    "administrator": "an administrator of the provider must approve this client first, then",
    "client": "the provider does not accept the client: check client_id, client_secret and scopes, then",
}


class AccessToken:
    """The credential of one mailbox that somebody signed in to."""

    def __init__(self, grants: Grants, user: str, name: str, oauth: OAuth) -> None:
        self._grants = grants
        self._mailbox = (user, name)
        self._oauth = oauth

    def secret(self, refused: str = "") -> str:
        """An access token that is good for a while. refused: one that the mail server did not take.

        Raises SignInNeeded, and UpstreamUnavailable when it cannot be renewed now.
        """
        try:
            tokens, sign_in = self._tokens()
            if tokens.access != refused and not _is_due(tokens, sign_in):
                return tokens.access
            with self._grants.alone(*self._mailbox):
                tokens, sign_in = self._tokens()
                if tokens.access != refused and not _is_due(tokens, sign_in):
                    return tokens.access
                return self._renewed(tokens, sign_in, refused).access
        except (FileUnusable, RenewalBusy) as exc:
            raise UpstreamUnavailable(f"the sign-in cannot be used now: {exc}") from exc

    def mark(self) -> str:
        """What changes when somebody signs in, or the client is another."""
        try:
            sign_in = self._grants.find(*self._mailbox)
        except FileUnusable:
            return ""
        return "" if sign_in is None else f"{sign_in.signed_in} {self._oauth.model_dump_json()}"

    def _tokens(self) -> tuple[Tokens, SignIn]:
        sign_in = self._grants.find(*self._mailbox)
        if sign_in is None:
            raise SignInNeeded(f"nobody has signed in yet: {self._command}")
        if sign_in.fault and sign_in.fault != "client":
            raise SignInNeeded(self._advice(sign_in.fault, sign_in.reason))
        try:
            return self._grants.opened(sign_in), sign_in
        except GrantSealed as exc:
            raise SignInNeeded(f"{exc}: {self._command}") from exc

    def _renewed(self, tokens: Tokens, sign_in: SignIn, refused: str) -> Tokens:
        if not tokens.refresh:
            self._grants.end(*self._mailbox, "signed_out", "the provider gave no refresh token")
            raise SignInNeeded(self._advice("signed_out", "the provider gave no refresh token"))
        from server.oauth.endpoint import AuthorizationServer  # only a process that renews needs an HTTP client

        self._grants.begin_renewal(*self._mailbox)
        try:
            fresh = AuthorizationServer(self._oauth).renew(tokens.refresh)
        except EndpointUnavailable as exc:
            if tokens.access != refused and _is_good(tokens):
                return tokens
            raise UpstreamUnavailable(f"the access token cannot be renewed now: {exc}") from exc
        except SignInRefused as exc:
            reason = exc.reason
            if sign_in.renewing is not None and exc.fault == "signed_out":
                reason += "; a renewal before this one was cut off, and its token may not be used twice"
            self._grants.end(*self._mailbox, exc.fault, reason)
            raise SignInNeeded(self._advice(exc.fault, reason)) from exc
        if not fresh.refresh:
            fresh = replace(fresh, refresh=tokens.refresh, refresh_expires=tokens.refresh_expires)
        self._grants.renew(sign_in, fresh)
        return fresh

    def _advice(self, fault: str, reason: str) -> str:
        return f"{advice(fault)} ({reason}): {self._command}"

    @property
    def _command(self) -> str:
        return f"postmirror auth login {'/'.join(self._mailbox)}"


def advice(fault: str) -> str:
    """What a fault of a sign-in means."""
    return next((text for name, text in _ADVICE.items() if name == fault), fault)


def access_tokens(grants: Grants) -> Credentials:
    """The credentials of mailboxes that are signed in to."""

    def credential(user: str, name: str, provider: Provider, endpoint: Endpoint) -> Credential | None:
        if provider.oauth is None or not provider.is_signed_in(endpoint):
            return None
        return AccessToken(grants, user, name, provider.oauth)

    return credential


@contextmanager
def credentials_of(settings: Settings) -> Iterator[Credentials]:
    """The same for a process of its own; state.db is open meanwhile where a mailbox of the configuration needs it."""
    # Not opened for nothing: a sync worker without sign-ins has no business in state.db.
    if all(provider.oauth is None for _, _, provider in settings.identities()):
        yield as_configured
        return
    data_dir = settings.server.data_dir
    with closing(State(data_dir)) as state:
        yield access_tokens(Grants(state, DataKey(data_dir)))


def _is_due(tokens: Tokens, sign_in: SignIn) -> bool:
    """Whether to renew now; while the authorization server is not to be had, only once a minute."""
    now = time.time()
    if now < tokens.expires - min(EARLY, (tokens.expires - tokens.issued) / 2):
        return False
    return not (_is_good(tokens) and sign_in.renewing is not None and now - sign_in.renewing < _AGAIN)


def _is_good(tokens: Tokens) -> bool:
    return tokens.expires - _MARGIN > time.time()
