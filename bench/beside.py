"""`postmirror serve` with two more endpoints in its process, to compare its tools with: as little as MCP and HTTP cost.

`/echo` is the MCP SDK's own server with one tool that returns its argument; `/bare` is a Starlette endpoint that
returns the JSON it gets. Both stand behind the same bearer tokens. Run as `python -m bench.beside serve --config FILE`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from unittest.mock import patch

from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, request_response

from server.app import Parts, build_app
from server.auth import Authenticator
from server.cli import main
from server.gate import Gate, RequireToken


def build_app_beside_echo(parts: Parts, healthy: Callable[[], bool] = lambda: True) -> Starlette:
    """The whole web application, and what it is compared with."""
    app = build_app(parts, healthy)
    gate = Gate(Authenticator(parts.live, parts.state), parts.audit.chain.key, parts.audit, parts.uses)
    echo = _echo_server()
    app.router.routes += [
        Route("/echo", RequireToken(echo.session_manager.handle_request, gate)),
        Route("/bare", RequireToken(request_response(_bare), gate)),
    ]
    lifespan_of_app = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        async with lifespan_of_app(application), echo.session_manager.run():
            yield

    app.router.lifespan_context = lifespan
    return app


def _echo_server() -> MCPServer:
    server = MCPServer("echo", version="1", subscriptions=False, log_level="WARNING")

    async def echo(text: str) -> str:
        """The text."""
        return text

    server.tool(structured_output=False)(echo)
    server.streamable_http_app(stateless_http=True, json_response=True)  # the session manager is there only after it
    return server


async def _bare(request: Request) -> JSONResponse:
    return JSONResponse(await request.json())


if __name__ == "__main__":
    with patch("server.serve.build_app", build_app_beside_echo):
        main()
