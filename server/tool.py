"""MCP tools with a strict edge: what a client sends is checked against one model per tool, and every fault has a text.

The low-level server of the SDK is used, because its other one advertises resources and prompts, ignores arguments it
does not know, and puts a prefix on every error.

An answer is sent once, as one JSON text. An output schema would make the SDK send it a second time as structured
content: twice the bytes, twice the time, and no client shows a model both. Every client shows a model the text.
"""

import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as ToolDescription
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from server.audit import Audit
from server.auth import Caller
from server.live import ConfigurationLost

log = logging.getLogger(__name__)

_THREADS = 40
_MAX_PROBLEMS = 5
_MAX_NAME_CHARS = 64


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    return text


Text = Annotated[str, StringConstraints(max_length=1_000), AfterValidator(_without_nul)]
LongText = Annotated[str, StringConstraints(max_length=1_000_000), AfterValidator(_without_nul)]


class Arguments(BaseModel):
    """The arguments of a tool; one that is not declared is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Declined(Exception):
    """What was asked cannot be done; the text is for the client, which can act on it.

    rule: the policy's rule that forbids it, for the audit log; "" when none does.
    """

    def __init__(self, text: str, rule: str = "") -> None:
        super().__init__(text)
        self.rule = rule


A = TypeVar("A", bound=Arguments)
Answer = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool. description: product text, read by models. run: called on a thread, its result becomes the answer."""

    name: str
    title: str
    description: str
    arguments: type[A]
    run: Callable[[Caller, A], Answer]
    annotations: ToolAnnotations

    def describe(self) -> ToolDescription:
        """What `tools/list` says of it."""
        return ToolDescription(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=input_schema(self.arguments),
            annotations=self.annotations,
        )

    def call(self, caller: Caller, arguments: Mapping[str, Any]) -> Answer:
        """Check the arguments and run it. Raises Declined for everything that a client can mend."""
        try:
            checked = self.arguments.model_validate(arguments, by_alias=True)
        except ValidationError as exc:
            raise Declined(_problems(self, exc)) from None
        return self.run(caller, checked)


READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
SENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)


def input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, as plain as models read it best.

    Without the titles that pydantic makes up; null in place of an optional argument is taken but not advertised.
    """
    schema = arguments.model_json_schema(by_alias=True)
    schema.pop("title", None)
    schema.pop("description", None)
    for member in schema.get("properties", {}).values():
        member.pop("title", None)
        match member.pop("anyOf", None):
            case [declared, {"type": "null"}]:
                member.pop("default", None)
                member.update(declared)
    return {"type": "object", "properties": {}, **schema}


def tool_server(
    name: str, version: str, instructions: str, tools: Sequence[Tool[Any]], caller: Callable[[], Caller], audit: Audit
) -> Server[Any]:
    """An MCP server with exactly these tools. caller: who sends the request being served. audit: what is told of it."""
    by_name = {tool.name: tool for tool in tools}
    described = [tool.describe() for tool in tools]
    schemas = {description.name: description.input_schema for description in described}
    threads: list[anyio.CapacityLimiter] = []

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=described)

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            audit.note("tool", "unknown", caller())
            raise MCPError(INVALID_PARAMS, "Unknown tool; tools/list names those there are")
        if not threads:
            threads.append(anyio.CapacityLimiter(_THREADS))
        work = partial(_answer, tool, caller, audit, params.arguments or {})
        return await anyio.to_thread.run_sync(work, limiter=threads[0])

    return Server(
        name,
        version=version,
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=schemas.get,
    )


def _answer(
    tool: Tool[Any], caller: Callable[[], Caller], audit: Audit, arguments: Mapping[str, Any]
) -> CallToolResult:
    who: Caller | None = None
    try:
        who = caller()
        answer = tool.call(who, arguments)
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        audit.note("tool", "done", who, tool=tool.name, chars=len(text), **_counts(answer))
        return _result(text)
    except Declined as exc:
        if exc.rule:
            audit.note("tool", "denied", who, tool=tool.name, rule=exc.rule)
        else:
            audit.note("tool", "declined", who, tool=tool.name)
        return _result(str(exc), is_error=True)
    except ConfigurationLost:
        return _result("The configuration cannot be read; ask the operator.", is_error=True)
    except Exception as exc:  # noqa: BLE001 - the boundary: a fault of ours must not show its insides to a client
        reference = secrets.token_hex(4)
        # The message of an exception may quote mail, so only its place and type are logged.
        log.error(  # noqa: TRY400 - a traceback is what must not be logged
            "tool %s failed, reference %s: %s", tool.name, reference, _place(exc)
        )
        audit.note("tool", "error", who, tool=tool.name, reference=reference)
        return _result(f"Internal error, reference {reference}. The operator finds it in the log.", is_error=True)


def _counts(answer: Answer) -> dict[str, int]:
    """How many of each thing an answer gives out."""
    return {name: len(value) for name, value in answer.items() if isinstance(value, list)}


def _result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def _place(exc: BaseException) -> str:
    frames = []
    traceback = exc.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return f"{type(exc).__name__} at {' > '.join(frames)}"


def _problems(tool: Tool[Any], error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False)[:_MAX_PROBLEMS]:
        name = ".".join(str(part) for part in problem["loc"])[:_MAX_NAME_CHARS]
        match problem["type"]:
            case "extra_forbidden":
                lines.append(f"unknown argument {json.dumps(name)}")
            case "missing":
                lines.append(f"argument {json.dumps(name)} is required")
            case _:
                lines.append(f"argument {json.dumps(name)}: {str(problem['msg']).removeprefix('Value error, ')}")
    known = ", ".join(tool.describe().input_schema["properties"]) or "no arguments"
    return f"{'; '.join(lines)}. {tool.name} takes {known}."
