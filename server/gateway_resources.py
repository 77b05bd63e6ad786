"""The gateway's resources: the accounts, and the folders of each, as the tools of the same names answer them."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from server.auth import Caller
from server.gateway_arguments import ListAccounts, ListFolders
from server.gateway_reads import Reads
from server.tool import FAILED, Declined, Noted, as_json, failed

ACCOUNTS = Resource(
    uri="email://accounts",
    name="accounts",
    title="Accounts",
    description="Account names and user names, as list_accounts shows them.",
    mime_type="application/json",
)
FOLDERS = ResourceTemplate(
    uri_template="email://{account}/folders",
    name="folders",
    title="Folders of an account",
    description="Folder names with flags and delimiter, as list_folders shows them.",
    mime_type="application/json",
)
_FOLDERS_OF = re.compile(r"email://([^/?#]+)/folders")
_MAX_CHARS = 2_000


class Resources:
    """Handlers for the server. caller: who sends the request being served."""

    def __init__(self, reads: Reads, caller: Callable[[], Caller]) -> None:
        self._reads = reads
        self._caller = caller

    async def list(self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListResourcesResult:
        """The one resource without a parameter."""
        return ListResourcesResult(resources=[ACCOUNTS])

    async def templates(
        self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """The one with the account in its address."""
        return ListResourceTemplatesResult(resource_templates=[FOLDERS])

    async def read(self, _: ServerRequestContext[Any], params: ReadResourceRequestParams) -> ReadResourceResult:
        """What is behind an address."""
        noted = await anyio.to_thread.run_sync(partial(self._read, params.uri))
        contents = TextResourceContents(uri=params.uri, mime_type="application/json", text=as_json(noted.value))
        return ReadResourceResult(contents=[contents], _meta=dict(noted.meta) or None)

    def _read(self, uri: str) -> Noted:
        try:
            return self._answer(uri)
        except Declined as exc:
            raise MCPError(INVALID_PARAMS, str(exc), dict(exc.details) or None) from None
        except MCPError:
            raise
        except Exception as exc:  # noqa: BLE001 - the boundary: a fault of ours must not show its insides to a client
            reference = failed("resource", exc)
            raise MCPError(INTERNAL_ERROR, FAILED.format(operation="list folders"), {"reference": reference}) from None

    def _answer(self, uri: str) -> Noted:
        if uri == ACCOUNTS.uri:
            return self._reads.list_accounts(self._caller(), ListAccounts())
        match = _FOLDERS_OF.fullmatch(uri) if len(uri) <= _MAX_CHARS else None
        if match is None:
            raise MCPError(INVALID_PARAMS, "Unknown resource; resources/list names those there are")
        return self._reads.list_folders(self._caller(), ListFolders(account=unquote(match[1])))
