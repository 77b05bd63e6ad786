"""The web application: what is served, to whom, and from what it is put together."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from config.identity import Server as Place
from server.answering import look
from server.attachments import Attachments
from server.audit.log import Audit
from server.auth import Authenticator, Caller, current_caller
from server.brief_call import NotBrief, given_up
from server.envelope_errors import plain_errors
from server.gate import Gate, OneLength, RequireLink, RequireToken, SafeHeaders
from server.gateway.accounts import Accounts
from server.gateway.changes import Changes
from server.gateway.files import Files
from server.gateway.limits import Limits
from server.gateway.mail import Mail
from server.gateway.reads import Reads
from server.gateway.tools import Gateway, gateway_server
from server.key import DataKey
from server.last_use import LastUses
from server.links import Links
from server.live import ConfigurationLost, LiveSettings
from server.mailbox import Mailboxes
from server.mirrors import Mirrors
from server.oauth.grants import Grants
from server.oauth.source import access_tokens
from server.outbound import Outbound
from server.plain_call import PlainCalls, plain_post
from server.relay import Relay, relay_server
from server.sending.outbox import Follower
from server.state.store import State
from server.tool import REQUEST_BYTES, ToolServer
from server.upstreams import Upstreams
from server.workspace import Workspace

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Parts:
    """What every tool set is built on, open for as long as the program serves."""

    live: LiveSettings
    state: State
    mirrors: Mirrors
    mailboxes: Mailboxes
    upstreams: Upstreams
    outbound: Outbound
    audit: Audit
    uses: LastUses
    follower: Follower
    links: Links
    url: str

    @classmethod
    def open(cls, live: LiveSettings, state: State) -> "Parts":
        """Everything over one data directory. Raises KeyUnsafe."""
        place = live.in_force().settings.server
        key = DataKey(place.data_dir)
        credentials = access_tokens(Grants(state, key))
        mirrors, upstreams = Mirrors(place.data_dir), Upstreams(credentials)
        state.recover()
        audit = Audit(place.data_dir, key, live.in_force().settings.audit)
        live.subscribe(audit.note)
        outbound = Outbound(state, mirrors, upstreams, audit, credentials)
        mailboxes, uses = Mailboxes(mirrors, key), LastUses(state)
        follower = Follower(outbound.outbox, lambda: live.in_force().settings.accounts())
        return cls(live, state, mirrors, mailboxes, upstreams, outbound, audit, uses, follower, Links(key), place.url)

    def are_well(self) -> bool:
        """Whether tokens can be checked and the audit log can be written."""
        return self.audit.is_well and self.audit.chain.key.is_usable() and self.state.is_usable()

    def close(self) -> None:
        """Let go of files and connections; the state belongs to the caller."""
        self.follower.close()
        self.upstreams.close()
        self.mirrors.close()
        self.audit.close()
        self.uses.close()


def _relay(parts: Parts, caller: Callable[[], Caller]) -> ToolServer:
    return relay_server(Relay(parts.mailboxes, parts.outbound, parts.url, parts.links), _version(), caller, parts.audit)


def _gateway(parts: Parts, caller: Callable[[], Caller]) -> ToolServer:
    place = parts.live.in_force().settings.server
    limits = Limits(parts.state.recent_submissions)
    accounts = Accounts(parts.mailboxes, limits)
    files = Files(
        accounts,
        Attachments(parts.mailboxes, parts.upstreams, parts.audit),
        limits,
        lambda user: Workspace(place.workspace, user if place.workspace_by_user else "", place.workspace_quota),
    )
    gateway = Gateway(
        Reads(accounts, limits),
        Mail(accounts, parts.outbound, limits, files),
        Changes(accounts, parts.outbound, limits),
        files,
    )
    return gateway_server(gateway, _version(), caller, parts.audit)


PROFILES: dict[str, Callable[[Parts, Callable[[], Caller]], ToolServer]] = {
    "relay": _relay,
    "gateway": _gateway,
}
"""The tool sets, by the name that `tools` of a profile chooses one with."""


def build_app(parts: Parts, healthy: Callable[[], bool] = lambda: True) -> Starlette:
    """The whole web application. healthy: whether the rest of the program is well, for /healthz."""
    place = parts.live.in_force().settings.server
    authenticator = Authenticator(parts.live, parts.state)
    gate = Gate(authenticator, parts.audit.chain.key, parts.audit, parts.uses)
    managers = {name: _Managers.over(build(parts, current_caller), place) for name, build in PROFILES.items()}
    attachments = Attachments(parts.mailboxes, parts.upstreams, parts.audit)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(parts.close)
            for each in managers.values():
                await stack.enter_async_context(each.plain.run())
                await stack.enter_async_context(each.streamed.run())
            yield

    app = Starlette(
        lifespan=lifespan,
        routes=[
            Route("/mcp", RequireToken(_mcp(managers, frozenset(_hosts(place))), gate)),
            Route("/attachments/signed/{word}", RequireLink(_get(attachments.download), gate, parts.links)),
            Route("/attachments/{id}", RequireToken(_get(attachments.download), gate)),
            Route("/healthz", _health(parts.live, lambda: healthy() and parts.are_well())),
        ],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(OneLength),
            Middleware(TrustedHostMiddleware, allowed_hosts=_hosts(place), www_redirect=False),
            Middleware(_KnownOrigin, known=_transport_security(place).allowed_origins),
        ],
    )
    # A path with a slash at its end is no route either: a redirect would be an answer before any token is looked at.
    app.router.redirect_slashes = False
    return app


def build_local(parts: Parts, user: str, profile: str, provider: str | None = None) -> ToolServer:
    """The MCP server of a local session over stdin and stdout.

    Raises ValueError naming what the configuration lacks. Who the session is for is looked up again at every call.
    """
    authenticator = Authenticator(parts.live, parts.state)

    def caller() -> Caller:
        return authenticator.by_name(user, profile, provider)

    # Nothing listens for downloads beside a local session.
    return PROFILES[caller().policy.tools](replace(parts, url=""), caller)


class _KnownOrigin:
    """ASGI: refuses requests that a foreign web page sends, on every path as the SDK does on `/mcp`."""

    def __init__(self, app: ASGIApp, known: Sequence[str]) -> None:
        self._app = app
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        origin = Headers(scope=scope).get("origin") if scope["type"] == "http" else None
        if origin and not any(origin == each or _has_port(origin, each) for each in self._known):
            await Response("Invalid Origin header", 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _has_port(origin: str, known: str) -> bool:
    port = origin.removeprefix(known.removesuffix("*"))
    return known.endswith(":*") and port != origin and port.isascii() and port.isdigit()


@dataclass(frozen=True, slots=True)
class _Managers:
    """The two ways to answer for one tool set: with one JSON body, or with a stream of events.

    Without sessions both: the handshake era costs half more so, and any instance can serve any request. calls: answers
    the plain ones before the SDK.
    """

    plain: StreamableHTTPSessionManager
    streamed: StreamableHTTPSessionManager
    calls: PlainCalls

    @classmethod
    def over(cls, server: ToolServer, place: Place) -> "_Managers":
        """Both, over one server."""
        build = partial(
            StreamableHTTPSessionManager,
            server,
            stateless=True,
            security_settings=_transport_security(place),
            max_request_body_size=REQUEST_BYTES,
        )
        return cls(build(json_response=True), build(json_response=False), PlainCalls(server))


def _mcp(managers: dict[str, _Managers], hosts: frozenset[str]) -> ASGIApp:
    """The MCP endpoint: the token's profile chooses the tool set."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # There are no sessions, so a stream of server events would hang for ever.
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        chosen = managers[current_caller().policy.tools]
        looked = await look(scope, receive)
        manager = chosen.streamed if looked.asks_for_steps else chosen.plain
        posted = None if looked.body is None else plain_post(scope["headers"], looked.body, hosts)
        try:
            answer = None if posted is None else chosen.calls.answer(*posted)
        except NotBrief:
            with given_up():
                await manager.handle_request(scope, looked.receive, plain_errors(send))
            return
        if answer is None:
            await manager.handle_request(scope, looked.receive, plain_errors(send))
        else:
            await Response(answer, media_type="application/json")(scope, looked.receive, send)

    return serve


def _transport_security(place: Place) -> TransportSecuritySettings:
    public = urlsplit(place.url)
    return TransportSecuritySettings(
        allowed_hosts=[spelling for host in _hosts(place) for spelling in (host, f"{host}:*")],
        allowed_origins=[
            f"{public.scheme}://{public.netloc}",
            *(spelling for host in LOOPBACK_NAMES for spelling in (f"http://{host}", f"http://{host}:*")),
        ],
    )


def _hosts(place: Place) -> list[str]:
    public = urlsplit(place.url).hostname or "127.0.0.1"
    return [*LOOPBACK_NAMES, f"[{public}]" if ":" in public else public]


def _get(endpoint: Callable[[Request], Any]) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await Response(status_code=405, headers={"Allow": "GET"})(scope, receive, send)
            return
        response: Response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)

    return serve


def _health(live: LiveSettings, healthy: Callable[[], bool]) -> Callable[[Request], Response]:
    def health(_: Request) -> Response:
        try:
            live.in_force()
        except ConfigurationLost:
            return JSONResponse({"status": "degraded"})
        return JSONResponse({"status": "ok" if healthy() and not live.error else "degraded"})

    return health


def _version() -> str:
    try:
        return version("postmirror")
    except PackageNotFoundError:
        return "0"
