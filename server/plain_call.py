"""Tool calls of the common form, answered without the SDK: half of what a short read costs is its way through it.

A call is plain when nothing about it needs more than a look: a reading tool that is granted, nobody to be told how far
it is, and just those headers and fields that there must be. The SDK's own models judge the message and its `_meta`.
What is odd in any way is left to the SDK; what it answers to plain calls is the same to the value.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from mcp.types import PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY, JSONRPCRequest
from mcp.types.methods import validate_client_request
from mcp.types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError

from server.tool import ToolServer

HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
"""Of the handshake era those with the same form of results."""
MODERN_VERSION = LATEST_MODERN_VERSION
_METHOD = "tools/call"
_FIELDS = frozenset({"name", "arguments", "_meta"})
_RESERVED = "io.modelcontextprotocol/"
_MOST_META_CHARS = 2_000
_ACCEPT = (b"application/json, text/event-stream", b"application/json,text/event-stream", b"application/json", b"*/*")
_CONTENT_TYPE = (b"application/json", b"application/json; charset=utf-8")


class PlainCalls:
    """Answers plain calls of one tool set."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._stamp = {SERVER_INFO_META_KEY: server.server_info_stamp}

    def answer(self, request: JSONRPCRequest, version: str) -> bytes | None:
        """The JSON-RPC response, None when the call is not plain.

        version: the protocol version that request and answer are of. Raises NotBrief when a plain call was begun and
        has to be made on a thread.
        """
        params = request.params
        if request.method != _METHOD or params is None or params.keys() - _FIELDS:
            return None
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict) or not _is_plain(params.get("_meta"), version):
            return None
        said = self._server.answer_at_once(name, arguments)
        return None if said is None else said.response(request.id, self._stamp if version == MODERN_VERSION else None)


def _is_plain(meta: object, version: str) -> bool:
    """Whether `_meta` is what the SDK takes, and asks for nothing."""
    if meta is None:
        return version in HANDSHAKE_VERSIONS
    if not isinstance(meta, dict) or "progressToken" in meta:
        return False
    if version == MODERN_VERSION:
        if meta.get(PROTOCOL_VERSION_META_KEY) != MODERN_VERSION:
            return False
    elif version not in HANDSHAKE_VERSIONS or any(key.startswith(_RESERVED) for key in meta):
        return False
    text = json.dumps(meta)
    return len(text) <= _MOST_META_CHARS and _is_valid(text, version)


@lru_cache(maxsize=256)
def _is_valid(meta: str, version: str) -> bool:
    try:
        validate_client_request(_METHOD, version, {"name": "", "arguments": {}, "_meta": json.loads(meta)})
    except ValidationError:
        return False
    return True


def plain_post(
    headers: Iterable[tuple[bytes, bytes]], body: bytes, hosts: frozenset[str]
) -> tuple[JSONRPCRequest, str] | None:
    """(request, protocol version) of a POST that may be a plain call; None when it is certainly none.

    hosts: the names without a port that this server is called by.
    """
    seen: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _LOOKED_AT or name.startswith(b"mcp-"):
            if name in seen:
                return None
            seen[name] = value
    version = None if b"origin" in seen else _version(seen)
    if version is None or not _is_known(seen.get(b"host", b""), hosts):
        return None
    try:
        request = JSONRPCRequest.model_validate_json(body)
    except ValidationError:
        return None
    if version == MODERN_VERSION:
        named = (request.params or {}).get("name")
        if request.method != _METHOD or not isinstance(named, str) or named.encode() != seen[b"mcp-name"]:
            return None
    return request, version


_LOOKED_AT = frozenset({b"accept", b"content-type", b"host", b"origin"})


def _version(headers: Mapping[bytes, bytes]) -> str | None:
    """The protocol version of a POST with these headers, None when they are not the usual ones."""
    if headers.get(b"accept") not in _ACCEPT or headers.get(b"content-type") not in _CONTENT_TYPE:
        return None
    of_mcp = headers.keys() - _LOOKED_AT
    version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    if version in HANDSHAKE_VERSIONS and of_mcp == {b"mcp-protocol-version"}:
        return version
    if version != MODERN_VERSION or of_mcp != {b"mcp-protocol-version", b"mcp-method", b"mcp-name"}:
        return None
    return version if headers[b"mcp-method"] == _METHOD.encode() else None


def _is_known(host: bytes, hosts: frozenset[str]) -> bool:
    name, colon, port = host.decode("latin-1").rpartition(":")
    return name in hosts and port.isdigit() if colon else port in hosts
