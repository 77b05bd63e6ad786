"""An MCP server over standard input and output with one tool, `echo`, which also prints what it is given."""

import os
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import CallToolRequestParams, CallToolResult, TextContent

from server.standard_streams import serve_standard_streams


def echo_server() -> Server[Any]:
    """The server. `text` times `times` is its answer."""

    async def call(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        if arguments.get("print"):
            os.write(1, b"printed by a library\n")
        text = str(arguments.get("text")) * int(arguments.get("times", 1))
        return CallToolResult(content=[TextContent(type="text", text=text)])

    return Server("echo", on_call_tool=call)


if __name__ == "__main__":
    anyio.run(serve_standard_streams, echo_server())
    os.write(1, b"back at standard output\n")
