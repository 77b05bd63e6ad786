"""What a tool call says to a client: as the SDK's result, or as the bytes that the SDK would make of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcp.types import CallToolResult, RequestId, TextContent


@dataclass(frozen=True, slots=True)
class Said:
    """texts: a block each. details: the same for programs, as structured content. meta: the result's `_meta`."""

    texts: Sequence[str]
    details: Mapping[str, object] = field(default_factory=dict)
    meta: Mapping[str, object] = field(default_factory=dict)
    is_error: bool = False

    def result(self) -> CallToolResult:
        """For the SDK to send."""
        return CallToolResult(
            content=[TextContent(type="text", text=text) for text in self.texts],
            structured_content=dict(self.details) if self.details else None,
            _meta=dict(self.meta) if self.meta else None,
            is_error=self.is_error,
        )

    def response(self, request: RequestId, stamp: Mapping[str, object] | None) -> bytes:
        """The JSON-RPC response to a request. stamp: what the modern era has in `_meta`, None in the handshake era."""
        content = ",".join([f'{{"text":{json.dumps(text)},"type":"text"}}' for text in self.texts])
        rest: dict[str, object] = {"structuredContent": self.details} if self.details else {}
        rest["isError"] = self.is_error
        meta = self.meta
        if stamp is not None:
            rest["resultType"] = "complete"
            meta = {**self.meta, **stamp}
        if meta:
            rest["_meta"] = {name: value for name, value in meta.items() if value is not None}
        of_result = json.dumps(rest, separators=(",", ":"))
        return (
            f'{{"jsonrpc":"2.0","id":{json.dumps(request)},"result":{{"content":[{content}],{of_result[1:]}}}'.encode()
        )
