"""`postmirror serve` and `postmirror stdio`: the web process, or a local session, beside its sync worker."""

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import uvicorn
from starlette.types import ASGIApp

from config.identity import Server as Place
from config.identity import Settings
from config.settings import load_settings
from mirror.arenas import share_arenas
from mirror.database import private_folder
from mirror.lock import Lock
from server.app import Parts, build_app, build_local
from server.certificate import Certificate
from server.connection import KEPT_SECONDS, Connection, raise_open_files
from server.live import LiveSettings
from server.plain_call import PlainCalls
from server.standard_streams import serve_standard_streams
from server.state.store import State
from server.supervisor import Supervisor

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 10
"""How long requests under way may take after a stop was asked for."""


class AlreadyServing(RuntimeError):
    """Another `serve` runs on this data directory."""


def serve(config: Path, settings: Settings, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve MCP over HTTP, and keep the mirrors in step, until a signal ends it.

    settings: where to listen and where the files live. ready: called once the port is open. Raises AlreadyServing,
    FileUnusable, and OSError when the address is not to be had.
    """
    place = settings.server
    raise_open_files()
    lock = Lock(private_folder(place.data_dir) / "serve.lock")
    if not lock.acquire():
        raise AlreadyServing(
            f"another postmirror serves {place.data_dir} already: stop it, or give this one a data_dir of its own"
        )
    try:
        with (
            listen(place.host, place.port) as listener,
            _certificate(place) as certificate,
            _parts(config, settings) as parts,
            Supervisor(config) as supervisor,
        ):
            options = http_options(build_app(parts, healthy=supervisor.is_well), place, certificate)
            _Announcing(options, ready).run(sockets=[listener])
    finally:
        lock.release()


def http_options(app: ASGIApp, place: Place, certificate: Certificate | None = None) -> uvicorn.Config:
    """How the application is served."""
    return uvicorn.Config(
        app,
        http=Connection,  # of h11: httptools fails a header rule of the MCP conformance suite
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=place.behind_proxy,
        forwarded_allow_ips=list(place.trusted_proxies),
        timeout_graceful_shutdown=DRAIN_SECONDS,
        timeout_keep_alive=int(KEPT_SECONDS),
        ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
    )


@contextmanager
def _certificate(place: Place) -> Iterator[Certificate | None]:
    if place.tls_cert_file is None or place.tls_key_file is None:
        yield None
        return
    with Certificate(place.tls_cert_file, place.tls_key_file) as certificate:
        yield certificate


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError when the address is not to be had."""
    listener = socket.create_server(
        (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1_024
    )
    # Accepted connections inherit it. asyncio sets it only on sockets made with a protocol number, and without it every
    # answer on a kept connection waits 40 ms for the client's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Announcing(uvicorn.Server):
    def __init__(self, options: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(options)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def serve_stdio(config: Path, settings: Settings, user: str, profile: str, provider: str | None) -> None:
    """Serve one local MCP client over standard input and output; who calls has a sync worker running.

    Raises ValueError naming what the configuration lacks.
    """
    with _parts(config, settings) as parts:
        server = build_local(parts, user, profile, provider)
        anyio.run(serve_standard_streams, server, PlainCalls(server).answer)


@contextmanager
def _parts(config: Path, settings: Settings) -> Iterator[Parts]:
    def load(path: Path) -> Settings:
        # What the command line said about [server] goes on to count.
        return load_settings(path).model_copy(update={"server": settings.server})

    share_arenas()
    state = State(settings.server.data_dir)
    try:
        parts = Parts.open(LiveSettings(config, load), state)
        try:
            yield parts
        finally:
            parts.close()
    finally:
        state.close()
