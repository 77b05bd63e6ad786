"""The gate before every route: whose request it is, whether it may be served now, and what every answer carries.

A valid token is never refused because of others that are not: whoever shares an address with somebody who tries tokens
is not locked out. The limits of a profile are kept for each token.
"""

import ipaddress
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.responses import JSONResponse, Response
from starlette.status import HTTP_401_UNAUTHORIZED
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from config.profile import Limits
from server.attachments import LINKED
from server.audit.log import Audit
from server.auth import Authenticator, Caller, calling
from server.key import DataKey
from server.last_use import LastUses
from server.links import Links
from server.live import ConfigurationLost
from server.seal import NotSealed
from server.unusable import FileUnusable

log = logging.getLogger(__name__)

FAILURES = 30
"""Failed authentications that one peer may have at once."""
FAILURES_PER_SECOND = 0.5
_PEERS = 4_096
_MINUTE = 60.0
_CHALLENGE = 'Bearer error="invalid_token", error_description="Authentication required"'
_REFUSAL = {"error": "invalid_token", "error_description": "Authentication required"}
_NO_STATE = {"error": "unavailable", "error_description": "Tokens cannot be checked; ask the operator."}
_LOST = {"error": "unavailable", "error_description": "The configuration cannot be read; ask the operator."}
_FAILED_TOO_OFTEN = {"error": "too_many_requests", "error_description": "Too many failed attempts; wait."}
_CALLED_TOO_OFTEN = {
    "error": "too_many_requests",
    "error_description": "The limit of requests of this token is reached; wait as long as Retry-After says.",
}
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
_HEADERS_OVER_TLS = (*_HEADERS, (b"strict-transport-security", b"max-age=31536000"))


@dataclass(frozen=True, slots=True)
class Gate:
    """What it takes to let somebody in, shared by every route."""

    authenticator: Authenticator
    key: DataKey
    audit: Audit
    uses: LastUses
    failures: "FailedAttempts" = field(default_factory=lambda: FailedAttempts())
    admission: "Admission" = field(default_factory=lambda: Admission())


class TooMany(Exception):
    """A limit is reached. seconds: until the next request fits. is_first: of this minute."""

    def __init__(self, seconds: float, *, is_first: bool = False) -> None:
        super().__init__(f"too many requests, next one in {seconds:.0f} s")
        self.seconds = seconds
        self.is_first = is_first


class RequireToken:
    """ASGI: lets a request through with its caller set, or answers it here."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            self._gate.key.current()
            caller = self._gate.authenticator.by_secret(_bearer(scope))
        except FileUnusable as exc:
            log.error("authentication: %s", exc)  # noqa: TRY400 - no fault of the program
            await JSONResponse(_NO_STATE, 503)(scope, receive, send)
            return
        except ConfigurationLost:
            await JSONResponse(_LOST, 503)(scope, receive, send)
            return
        if caller is None:
            await self.refusal(scope)(scope, receive, send)
            return
        self._gate.uses.saw(caller.token)
        await self.serve(caller, scope, receive, send)

    async def serve(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of this caller, within its limits."""
        # The SDK binds anything that outlives a request to (client id, subject).
        scope["user"] = AuthenticatedUser(
            AccessToken(token="", client_id=caller.token, subject=caller.identity, scopes=[])
        )
        try:
            with self._gate.admission.admitted(caller.token, caller.policy.limits), calling(caller):
                await self._app(scope, receive, send)
        except TooMany as exc:
            if exc.is_first:
                self._gate.audit.note("limit", "denied", caller, rule="limits")
            await _wait(exc.seconds, _CALLED_TOO_OFTEN)(scope, receive, send)

    def refusal(self, scope: Scope) -> Response:
        """The one answer to every token that is none; another when this peer had it too often."""
        peer = peer_of(scope)
        self._gate.audit.failed_authentication(peer)
        try:
            self._gate.failures.count(peer)
        except TooMany as exc:
            return _wait(exc.seconds, _FAILED_TOO_OFTEN)
        return Response(json.dumps(_REFUSAL), 401, {"WWW-Authenticate": _CHALLENGE}, media_type="application/json")


class RequireLink:
    """ASGI: lets a request with a signed link through as one of the link's token, or answers it here.

    Whatever is wrong with a link gets the answer that an attachment gets which is not there.
    """

    def __init__(self, app: ASGIApp, gate: Gate, links: Links) -> None:
        self._inner = RequireToken(app, gate)
        self._gate = gate
        self._links = links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            caller, scope[LINKED] = self._links.open(scope["path_params"]["word"], self._gate.authenticator)
        except NotSealed:
            answer = self._inner.refusal(scope)
            if answer.status_code == HTTP_401_UNAUTHORIZED:
                answer = JSONResponse({"error": "not_found"}, 404)
            await answer(scope, receive, send)
        except FileUnusable as exc:
            log.error("links: %s", exc)  # noqa: TRY400 - no fault of the program
            await JSONResponse(_NO_STATE, 503)(scope, receive, send)
        except ConfigurationLost:
            await JSONResponse(_LOST, 503)(scope, receive, send)
        else:
            await self._inner.serve(caller, scope, receive, send)


class FailedAttempts:
    """Failed authentications by peer, of the peers seen last. Memory is bounded, whoever comes."""

    def __init__(self) -> None:
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, peer: str) -> None:
        """One more. Raises TooMany when this peer had too many. For the event loop only."""
        now = time.monotonic()
        left, at = self._peers.pop(peer, (float(FAILURES), now))
        left = min(float(FAILURES), left + (now - at) * FAILURES_PER_SECOND)
        allowed = left >= 1
        self._peers[peer] = (left - 1 if allowed else left, now)
        while len(self._peers) > _PEERS:
            self._peers.popitem(last=False)
        if not allowed:
            raise TooMany((1 - left) / FAILURES_PER_SECOND)


@dataclass(slots=True)
class _Use:
    """What one token has in hand: calls left of this minute's, how many are under way, when it last had too many."""

    left: float
    at: float
    under_way: int = 0
    refused: float = -_MINUTE

    def refuse(self, seconds: float, now: float) -> TooMany:
        """That it has too many now."""
        is_first = now - self.refused >= _MINUTE
        if is_first:
            self.refused = now
        return TooMany(seconds, is_first=is_first)


class Admission:
    """Requests of each token against its profile's limits. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def admitted(self, token: str, limits: Limits) -> Iterator[None]:
        """Serve one request in this block. Raises TooMany before it."""
        use = self._begin(token, limits)
        try:
            yield
        finally:
            with self._lock:
                use.under_way -= 1

    def _begin(self, token: str, limits: Limits) -> _Use:
        with self._lock:
            now = time.monotonic()
            use = self._uses.setdefault(token, _Use(limits.calls_per_minute or 0, now))
            if limits.calls_per_minute is not None:
                rate = limits.calls_per_minute / _MINUTE
                use.left, use.at = min(limits.calls_per_minute, use.left + (now - use.at) * rate), now
                if use.left < 1:
                    raise use.refuse((1 - use.left) / rate, now)
            if limits.concurrent is not None and use.under_way >= limits.concurrent:
                raise use.refuse(1, now)
            use.left -= limits.calls_per_minute is not None
            use.under_way += 1
            return use


class SafeHeaders:
    """ASGI: puts the headers that keep browsers out of trouble on every answer that does not have its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                named = {name.lower() for name, _ in own}
                safe = _HEADERS_OVER_TLS if scope["scheme"] == "https" else _HEADERS
                message["headers"] = [*own, *(each for each in safe if each[0] not in named)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class OneLength:
    """ASGI: refuses requests that say twice how long they are, and hangs up (RFC 9112 6.1).

    A proxy may go by the other length, and take for a part of this request what is read here as the next one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        names = {name for name, _ in scope["headers"]} if scope["type"] == "http" else set()
        if {b"content-length", b"transfer-encoding"} <= names:
            refusal = Response("Content-Length and Transfer-Encoding exclude each other", 400, {"Connection": "close"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def peer_of(scope: Scope) -> str:
    """Who sends a request, as far as limits go: an IPv4 address, or the /64 of an IPv6 address."""
    client = scope.get("client")
    try:
        address = ipaddress.ip_address(client[0] if client else "")
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


def _bearer(scope: Scope) -> str:
    """The secret of the one Authorization header, "" when there is none that fits."""
    headers = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(headers) != 1:
        return ""
    scheme, _, secret = headers[0].decode("latin-1").partition(" ")
    return secret.strip(" ") if scheme.lower() == "bearer" else ""


def _wait(seconds: float, body: dict[str, str]) -> Response:
    return JSONResponse(body, 429, {"Retry-After": str(max(1, ceil(seconds)))})
