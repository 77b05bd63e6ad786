"""A running web application over mirrors that a test fills, and raw clients of it in both protocol eras."""

import asyncio
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import httpx2
import uvicorn
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp

from config.identity import Settings
from mirror.columns import envelope_record
from mirror.content import read_content, read_envelope
from mirror.listing import Listed, ListedFolder
from mirror.mirrored import State as Mirrored
from mirror.recording import record_of
from mirror.store import Checkpoint, Store
from server.app import Parts, build_app
from server.certificate import Certificate
from server.live import LiveSettings
from server.serve import http_options
from server.state.store import State

ONE_ACCOUNT = """
[users.alice.providers.work]
address = "alice@example.org"
imap = {{ host = "127.0.0.1", port = 9, security = "plain" }}

[server]
data_dir = "{data_dir}"
port = {port}
"""
"""The beginning of a configuration file that tests edit: one mailbox, whose server does not answer."""

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail of a mirror. minutes: how long after NOON it came in. state: how much of it is mirrored."""

    subject: str = "hello"
    sender: str = "Bob Example <bob@example.org>"
    to: str = "alice@example.org"
    text: str = "Hello Alice."
    flags: tuple[str, ...] = ()
    minutes: int = 0
    attachments: tuple[tuple[str, str, bytes], ...] = ()
    state: Mirrored = Mirrored.TEXT

    @property
    def raw(self) -> bytes:
        """The mail as a server holds it."""
        return _written(self)

    @property
    def received(self) -> datetime:
        """Its INTERNALDATE."""
        return NOON + timedelta(minutes=self.minutes)


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of a mirror."""

    name: str
    mails: Sequence[Mail] = ()
    role: str = ""
    selectable: bool = True


@cache
def _written(mail: Mail) -> bytes:
    written = EmailMessage(policy=SMTP)
    written["From"], written["To"], written["Subject"] = mail.sender, mail.to, mail.subject
    written["Date"] = mail.received
    written["Message-ID"] = f"<{hashlib.sha256(repr(mail).encode()).hexdigest()[:16]}@example.org>"
    written.set_content(mail.text)
    for filename, media_type, data in mail.attachments:
        kind, _, subtype = media_type.partition("/")
        written.add_attachment(data, maintype=kind, subtype=subtype, filename=filename)
    return written.as_bytes()


def fill_mirror(settings: Settings, user: str, provider: str, folders: Sequence[Folder]) -> None:
    """Write a mirror as a sync would have left it."""
    with Store(settings.mirror_dir(user, provider)) as store:
        store.set_folders(
            [ListedFolder(each.name.encode(), each.name, "/", (), each.role, each.selectable) for each in folders]
        )
        ids = {row.name: row.id for row in store.folders()}
        for each in folders:
            if each.selectable:
                _fill_folder(store, ids[each.name], each.mails)
        store.begin_pass()
        store.end_pass("{}", "")


def _fill_folder(store: Store, folder_id: int, mails: Sequence[Mail]) -> None:
    store.set_uidvalidity(folder_id, 1)
    first = max(store.uids(folder_id), default=0) + 1
    by_uid = dict(enumerate(mails, first))
    store.add_listed(folder_id, [Listed(uid, mail.flags, mail.received, len(mail.raw)) for uid, mail in by_uid.items()])
    while holes := store.holes(folder_id, Mirrored.HEADERS, 1_000):
        store.set_envelopes([(hole.content, envelope_record(read_envelope(by_uid[hole.uid].raw))) for hole in holes])
    whole = [
        (hole.content, hashlib.sha256(by_uid[hole.uid].raw).digest(), record_of(read_content(by_uid[hole.uid].raw)))
        for hole in store.holes(folder_id, Mirrored.TEXT, 10_000)
        if by_uid[hole.uid].state >= Mirrored.TEXT
    ]
    store.set_texts(whole)
    store.checkpoint(folder_id, Checkpoint(1, len(mails) + 1, None, len(mails)), reconciled=True)


@dataclass(slots=True)
class Answered:
    """What a raw call brought back. result: the JSON-RPC result or error."""

    status: int
    result: dict[str, Any]
    bytes: bytes

    @property
    def is_error(self) -> bool:
        """Whether a tool said no."""
        return bool(self.result.get("isError"))

    @property
    def text(self) -> str:
        """The text of a tool's answer."""
        [content] = self.result["content"]
        return str(content["text"])

    @property
    def value(self) -> Any:
        """The structured answer of a tool that succeeded."""
        assert not self.is_error, self.text
        return json.loads(self.text)


@dataclass(slots=True)
class Caller:
    """A raw client with one token. era: which protocol it speaks."""

    url: str
    secret: str
    http: httpx2.Client
    era: Literal["modern", "handshake"] = "modern"

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Answered:
        """One JSON-RPC request over POST."""
        params = dict(params or {})
        headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self.secret}"}
        if self.era == "modern":
            headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            if named := params.get("name", params.get("uri")):
                headers["Mcp-Name"] = named
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        else:
            headers["MCP-Protocol-Version"] = HANDSHAKE
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = self.http.post(f"{self.url}/mcp", content=json.dumps(body), headers=headers | JSON)
        decoded = response.json() if response.content else {}
        return Answered(response.status_code, decoded.get("result", decoded.get("error", decoded)), response.content)

    def call(self, tool: str, **arguments: object) -> Answered:
        """One tool call. An argument named `from_` is sent as `from`."""
        named = {name.rstrip("_"): value for name, value in arguments.items()}
        return self.request("tools/call", {"name": tool, "arguments": named})

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """One authenticated GET of a path or an absolute URL below this server."""
        url = path if path.startswith("http") else self.url + path
        return self.http.get(url, headers={"Authorization": f"Bearer {self.secret}", **headers})


JSON = {"Content-Type": "application/json"}


def modern_call(secret: str, tool: str, arguments: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, str]]:
    """(body, headers) of a tool call, for clients that send many at once."""
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        **JSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call", "Mcp-Name": tool, "Authorization": f"Bearer {secret}",
    }  # fmt: skip
    return body, headers


class Door:
    """The web application on a free port, in a thread.

    settings: a fixed configuration, or live ones. around: what is put before the application.
    """

    def __init__(
        self,
        settings: Settings | LiveSettings,
        certificate: Certificate | None = None,
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    ) -> None:
        self.live = settings if isinstance(settings, LiveSettings) else LiveSettings.fixed(settings)
        self.settings = self.live.in_force().settings
        self.state = State(self.settings.server.data_dir)
        self.parts = Parts.open(self.live, self.state)
        self.well = True
        # The protocol by name: asyncio turns Nagle's algorithm off only for sockets that say they are TCP.
        self._listener = socket.socket(proto=socket.IPPROTO_TCP)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.settings.server.port))
        config = http_options(around(build_app(self.parts, lambda: self.well)), self.settings.server, certificate)
        self._server = uvicorn.Server(config)
        self.http = httpx2.Client(timeout=30)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listener]))

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + _SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise TimeoutError("the web application does not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *exc: object) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join(_SECONDS)
        self._listener.close()
        self.state.close()

    def token(self, user: str, profile: str, provider: str | None = None) -> str:
        """A new token's secret."""
        return self.state.issue_token(user, profile, provider=provider)[1]

    def caller(
        self,
        user: str = "alice",
        profile: str = "assistant",
        provider: str | None = "work",
        era: Literal["modern", "handshake"] = "modern",
    ) -> Caller:
        """A raw client with a new token."""
        return Caller(self.url, self.token(user, profile, provider), self.http, era)

    def sdk_call(self, secret: str, mode: str, tool: str, arguments: dict[str, Any]) -> Any:
        """One tool call by the SDK's own client."""

        async def call() -> Any:
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=30) as http,
                Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode) as client,
            ):
                return await client.call_tool(tool, arguments)

        return asyncio.run(call())


def settings_for(
    data_dir: Path,
    port: int,
    *,
    imap_port: int = 9,
    smtp_port: int = 9,
    username: str = "",
    password: Mapping[str, object] | None = None,
    profiles: Mapping[str, Mapping[str, object]] | None = None,
    sync: Mapping[str, object] | None = None,
) -> Settings:
    """Settings for alice (work, home) and bob (work), and these profiles. Nothing listens on port 9."""

    def provider(name: str) -> dict[str, object]:
        return {
            "address": name,
            "display_name": name.partition("@")[0].title(),
            "username": username or name,
            "password": password,
            "aliases": ["support@example.org"],
            "imap": {"host": "127.0.0.1", "port": imap_port, "security": "plain"},
            "smtp": {"host": "127.0.0.1", "port": smtp_port, "security": "plain"},
            "sync": sync or {},
        }

    return Settings.model_validate(
        {
            "server": {"data_dir": str(data_dir), "workspace": str(data_dir.parent / "workspace"), "port": port},
            "users": {
                "alice": {"providers": {"work": provider("alice@example.org"), "home": provider("alice@home.example")}},
                "bob": {"providers": {"work": provider("bob@example.org")}},
            },
            "profiles": profiles or {"assistant": ASSISTANT},
        }
    )


ASSISTANT: dict[str, object] = {
    "folders": [
        {"match": "Secret*", "access": "hidden"},
        {"match": "\\Sent", "access": "read"},
        {"match": "*", "access": "write"},
    ],
    "content": {"attachments": {}},
    "outbound": {"to_allow": ["*@example.org"], "to_deny": ["mallory@*"]},
}
