"""The browser's way back from a sign-in: to a port of this machine (RFC 8252 7.3)."""

import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

_LONGEST = 600.0
_DONE = b"<!doctype html><meta charset=utf-8><title>Postmirror</title><p>Done here: go back to the terminal."


class CameNotBack(TimeoutError):
    """The browser did not come back in time."""


class WayBack:
    """Listens on loopback for as long as it is open. host: what the provider accepts as this machine's name."""

    def __init__(self, host: str, port: int = 0) -> None:
        self._came: list[str] = []
        came = self._came

        class _Visit(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                if "state" not in query or not query.keys() & {"code", "error"}:
                    self.send_error(404)
                    return
                came.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(_DONE)))
                self.end_headers()
                self.wfile.write(_DONE)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - what it hears is secret
                pass

        self._server = HTTPServer(("127.0.0.1", port), _Visit)
        self._server.timeout = 0.5
        self.uri = f"http://{host}:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.server_close()

    def wait(self, is_ours: Callable[[str], bool]) -> str:
        """The address that the browser came back to; what is not ours is not listened to. Raises CameNotBack."""
        until = time.monotonic() + _LONGEST
        while time.monotonic() < until:
            self._server.handle_request()
            while self._came:
                if is_ours(address := self.uri + self._came.pop(0)):
                    return address
        raise CameNotBack("the browser did not come back within ten minutes: try again, or use --paste or --device")
