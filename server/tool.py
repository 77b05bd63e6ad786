"""MCP tools with a strict edge: what a client sends is checked against one model per tool, and every fault has a text.

The low-level server of the SDK is used, because its other one advertises resources and prompts, ignores arguments it
does not know, and puts a prefix on every error.

An answer is sent once, as one JSON text. An output schema would make the SDK send it a second time as structured
content: twice the bytes, twice the time, and no client shows a model both. Every client shows a model the text.
"""

import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ToolAnnotations,
)
from mcp.types import Tool as ToolDescription
from pydantic import ValidationError

from config.profile import Profile
from server.audit.log import Audit
from server.auth import Caller
from server.brief_call import NotBrief, briefly, will_take_long
from server.live import ConfigurationLost
from server.long_call import Abandoned, on_thread, wants_steps
from server.said import Said, Written, as_json
from server.tool_arguments import Arguments, input_schema, problems

log = logging.getLogger(__name__)

REQUEST_BYTES = 4 * 1024 * 1024
"""The longest request over HTTP; over stdio any length is read."""
READING_THREADS = 4
"""Calls of a tool set that read for long at once. More gain nothing on one interpreter, and each needs a reader."""
CHANGING_THREADS = 32
"""Calls that send or change at once: they wait for mail servers, and reads go on beside them."""


FAILED = "Failed to {operation}. Check server logs for details."
INTERNAL = "Internal error, reference {reference}. The operator finds it in the log."
ABANDONED = "The call was given up, because its client no longer waits."
LOST = "The configuration cannot be read; ask the operator."


class Declined(Exception):
    """What was asked cannot be done; the text is for the client, which can act on it.

    rule: the policy's rule that forbids it, for the audit log; "" when none does. details: the same for programs, as
    structured content.
    """

    def __init__(self, text: str, rule: str = "", **details: object) -> None:
        super().__init__(text)
        self.rule = rule
        self.details = details


@dataclass(frozen=True, slots=True)
class Noted:
    """An answer with what is said beside it. notes: a text block each. meta: the result's `_meta`."""

    value: object
    notes: Sequence[str] = ()
    meta: Mapping[str, object] = field(default_factory=dict)


A = TypeVar("A", bound=Arguments)
Answer = Mapping[str, object]
Instructions = Callable[[Caller, Collection[str]], str]
"""What a client is told at the beginning: for a caller, and the names of the tools that there are for it."""


def _always(_: Profile) -> bool:
    return True


def _never(_: Profile) -> bool:
    return False


def reads_at_once(profile: Profile) -> bool:
    """Whether a read by this profile is usually over within milliseconds, and may be begun a second time.

    Rewriting a text takes as long as the text is, and a read that is counted would be counted twice.
    """
    return not profile.content.rewrites and not profile.limits.count_reads


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool. description: product text, read by models. run: called on a thread, its result becomes the answer.

    granted: whether what a profile may see and do leaves this tool something to do. is_brief: whether calls by a
    profile are begun on the event loop's own thread (`server.brief_call`). operation: what has failed after a fault of
    ours, in the error text that the gateway tools promise; "" for that of the others.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    run: Callable[[Caller, A], Answer | Written | Noted]
    annotations: ToolAnnotations
    granted: Callable[[Profile], bool] = _always
    is_brief: Callable[[Profile], bool] = _never
    operation: str = ""

    def describe(self) -> ToolDescription:
        """What `tools/list` says of it."""
        return ToolDescription(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=input_schema(self.arguments),
            annotations=self.annotations,
        )

    def is_offered(self, profile: Profile) -> bool:
        """Whether there is this tool for a profile."""
        return profile.allows(self.name) and self.granted(profile)

    def call(self, caller: Caller, arguments: Mapping[str, Any]) -> Noted:
        """Check the arguments and run it. Raises Declined for everything that a client can mend."""
        try:
            checked = self.arguments.model_validate(arguments, by_alias=True)
        except ValidationError as exc:
            raise Declined(problems(self.name, self.arguments, exc)) from None
        answer = self.run(caller, checked)
        return answer if isinstance(answer, Noted) else Noted(answer)


READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
SENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)


class ToolServer(Server[Any]):
    """An MCP server whose instructions are those for whoever asks, at this moment.

    answer_at_once: what a call of a reading tool says; None when the tool is none, or not granted. Raises NotBrief when
    it has to be made on a thread.
    """

    def __init__(
        self,
        *arguments: Any,
        tell: Callable[[], str],
        answer_at_once: Callable[[str, Mapping[str, Any]], Said | None],
        **offers: Any,
    ) -> None:
        self._tell = tell
        self.answer_at_once = answer_at_once
        super().__init__(*arguments, **offers)

    @property
    def instructions(self) -> str | None:
        """What the client that asks is told."""
        return self._tell()

    @instructions.setter
    def instructions(self, _: str | None) -> None:
        """The SDK sets what it was given: nothing."""


def tool_server(
    name: str,
    version: str,
    instructions: Instructions,
    tools: Sequence[Tool[Any]],
    caller: Callable[[], Caller],
    audit: Audit,
    **offers: Any,
) -> ToolServer:
    """An MCP server with those of these tools that the caller's profile grants.

    caller: who sends the request being served. audit: what is told of it. offers: the server's handlers for anything
    else than tools.
    """
    by_name = {tool.name: tool for tool in tools}
    described = {tool.name: tool.describe() for tool in tools}
    threads: dict[bool, anyio.CapacityLimiter] = {}

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        profile = caller().policy
        return ListToolsResult(tools=[described[tool.name] for tool in tools if tool.is_offered(profile)])

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            audit.note("tool", "unknown", caller())
            raise _unknown()
        work = partial(_answer, tool, caller, audit, params.arguments or {})
        reads = bool(tool.annotations.read_only_hint)
        if reads and not wants_steps(context):
            with suppress(NotBrief):
                return briefly(work).result()
        if reads not in threads:
            threads[reads] = anyio.CapacityLimiter(READING_THREADS if reads else CHANGING_THREADS)
        said = await on_thread(context, work, threads[reads])
        return said.result()

    def answer_at_once(name: str, arguments: Mapping[str, Any]) -> Said | None:
        tool = by_name.get(name)
        if tool is None or not tool.annotations.read_only_hint:
            return None
        try:
            who = caller()
        except ConfigurationLost:
            return None
        if not tool.is_offered(who.policy):
            return None
        return briefly(partial(_answer, tool, lambda: who, audit, arguments))

    def tell() -> str:
        who = caller()
        return instructions(who, {tool.name for tool in tools if tool.is_offered(who.policy)})

    return ToolServer(
        name,
        tell=tell,
        answer_at_once=answer_at_once,
        version=version,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # Looked up for headers that repeat arguments; no tool declares one, and looking costs a walk over the schema.
        get_tool_input_schema=lambda _: None,
        **offers,
    )


def _answer(tool: Tool[Any], caller: Callable[[], Caller], audit: Audit, arguments: Mapping[str, Any]) -> Said:
    who: Caller | None = None
    try:
        who = caller()
        _check_offered(tool, who)
        if not tool.is_brief(who.policy):
            will_take_long()
        who = who.named(arguments.get("account")) or who
        noted = tool.call(who, arguments)
        text = as_json(noted.value)
        audit.note("tool", "done", who, tool=tool.name, chars=len(text), **_counts(noted.value))
        return Said((text, *noted.notes), meta=noted.meta)
    except NotBrief:
        raise
    except MCPError:
        audit.note("tool", "unknown", who)
        raise
    except Declined as exc:
        if exc.rule:
            audit.note("tool", "denied", who, tool=tool.name, rule=exc.rule)
        else:
            audit.note("tool", "declined", who, tool=tool.name)
        return Said((str(exc),), exc.details, is_error=True)
    except ConfigurationLost:
        return Said((LOST,), is_error=True)
    except Abandoned:
        audit.note("tool", "abandoned", who, tool=tool.name)
        return Said((ABANDONED,), is_error=True)
    except Exception as exc:  # noqa: BLE001 - the boundary: a fault of ours must not show its insides to a client
        reference = failed(f"tool {tool.name}", exc)
        audit.note("tool", "error", who, tool=tool.name, reference=reference)
        if tool.operation:
            return Said((FAILED.format(operation=tool.operation),), {"reference": reference}, is_error=True)
        return Said((INTERNAL.format(reference=reference),), is_error=True)


def failed(what: str, exc: BaseException) -> str:
    """Log a fault of ours; returns the reference under which the operator finds it."""
    reference = secrets.token_hex(4)
    # The message of an exception may quote mail, so only its place and type are logged.
    log.error("%s failed, reference %s: %s", what, reference, _place(exc))
    return reference


def _counts(answer: object) -> dict[str, int]:
    """How many of each thing an answer gives out."""
    if isinstance(answer, Written):
        return dict(answer.counts)
    if isinstance(answer, list):
        return {"items": len(answer)}
    named = answer.items() if isinstance(answer, Mapping) else ()
    return {name: len(value) for name, value in named if isinstance(value, list)}


def _unknown() -> MCPError:
    return MCPError(INVALID_PARAMS, "Unknown tool; tools/list names those there are")


def _check_offered(tool: Tool[Any], caller: Caller) -> None:
    if not tool.is_offered(caller.policy):
        raise _unknown()


def _place(exc: BaseException) -> str:
    frames = []
    traceback = exc.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return f"{type(exc).__name__} at {' > '.join(frames)}"
