"""The MCP server, its policy, and the `postmirror` command."""
