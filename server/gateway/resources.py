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

from server.audit.log import Audit
from server.auth import Caller
from server.gateway.arguments import ListAccounts, ListFolders
from server.gateway.reads import Reads
from server.said import as_json
from server.tool import FAILED, Declined, Noted, failed

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
    """Handlers for the server. caller: who sends the request being served. audit: what is told of each read."""

    def __init__(self, reads: Reads, caller: Callable[[], Caller], audit: Audit) -> None:
        self._reads = reads
        self._caller = caller
        self._audit = audit

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
        caller = self._caller()
        noted, text = await anyio.to_thread.run_sync(partial(self._read, caller, params.uri))
        contents = TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
        return ReadResourceResult(contents=[contents], _meta=dict(noted.meta) or None)

    def _read(self, caller: Caller, uri: str) -> tuple[Noted, str]:
        match = _FOLDERS_OF.fullmatch(uri) if len(uri) <= _MAX_CHARS else None
        account = None if match is None else unquote(match[1])
        at = caller.named(account) or caller
        named = "folders" if match else "accounts"
        try:
            noted = self._answer(caller, uri, account)
            text = as_json(noted.value)
        except Declined as exc:
            self._audit.note("resource", "declined", at, resource=named)
            raise MCPError(INVALID_PARAMS, str(exc), dict(exc.details) or None) from None
        except MCPError:
            self._audit.note("resource", "unknown", at)
            raise
        except Exception as exc:  # noqa: BLE001 - the boundary: a fault of ours must not show its insides to a client
            reference = failed("resource", exc)
            self._audit.note("resource", "error", at, resource=named, reference=reference)
            raise MCPError(INTERNAL_ERROR, FAILED.format(operation=f"list {named}"), {"reference": reference}) from None
        self._audit.note("resource", "done", at, resource=named, chars=len(text))
        return noted, text

    def _answer(self, caller: Caller, uri: str, account: str | None) -> Noted:
        if uri == ACCOUNTS.uri:
            return self._reads.list_accounts(caller, ListAccounts())
        if account is None:
            raise MCPError(INVALID_PARAMS, "Unknown resource; resources/list names those there are")
        return self._reads.list_folders(caller, ListFolders(account=account))
