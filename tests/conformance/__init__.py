"""The MCP conformance suite and clients of other makers, against the application as it is served."""
