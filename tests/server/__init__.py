"""The MCP server as its clients see it, over real HTTP."""
