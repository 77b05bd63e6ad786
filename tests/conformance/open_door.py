"""The application without a lock: a token is added to every request before it reaches the gate.

The conformance suite cannot send a header of its own. Everything behind the added header is as it is served.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from tests.server.conftest import FOLDERS
from tests.server.door import ASSISTANT, Door, fill_mirror, settings_for
from tests.server.every_tool import EVERY_TOOL
from tests.servers.ports import free_port

PROFILES: dict[str, dict[str, object]] = {
    "relay": ASSISTANT,
    "gateway": {**ASSISTANT, "tools": "gateway", "allow": list(EVERY_TOOL)},
}


class _WithToken:
    """ASGI: adds the token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.secret = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {self.secret}".encode())]}
        await self._app(scope, receive, send)


@contextmanager
def open_door(data_dir: Path, profile: str) -> Iterator[Door]:
    """The application over alice's mailbox, for everybody with this profile of hers."""
    settings = settings_for(data_dir, free_port(), profiles=PROFILES)
    fill_mirror(settings, "alice", "work", FOLDERS)
    added: list[_WithToken] = []

    def around(app: ASGIApp) -> ASGIApp:
        added.append(_WithToken(app))
        return added[0]

    door = Door(settings, around=around)
    added[0].secret = door.token("alice", profile, "work")
    with door:
        yield door
