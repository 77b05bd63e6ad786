"""A tool set with everything that the conformance suite asks for by name. It stands behind our gate and router.

The suite's scenarios call tools, resources and prompts of fixed names. What they test with these is the way between
a client and a tool: our door, the SDK behind it, and how the two are put together.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolResult,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)

from server.said import Said
from server.tool import ToolServer

_IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
_SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
_PAUSE = 0.05


_SIMPLE_TEXT = "This is a simple text response for testing."


def everything_server() -> ToolServer:
    """The server. Its one tool of plain text is answered as plain calls of ours are: before the SDK."""
    server = MCPServer("everything", version="1", subscriptions=False, log_level="WARNING")
    for add in (_contents, _streams, _inputs, _resources, _prompts):
        add(server)

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # as the SDK has it
    async def complete(*_: object) -> Completion:
        return Completion(values=["paris", "park"], total=2, has_more=False)

    server.streamable_http_app()  # the session manager is there only after it
    served = cast("ToolServer", server.session_manager.app)
    served.answer_at_once = lambda name, _: Said((_SIMPLE_TEXT,)) if name == "test_simple_text" else None
    return served


def _contents(server: MCPServer) -> None:
    image = ImageContent(type="image", data=_IMAGE, mime_type="image/png")

    @server.tool(structured_output=False)
    def test_simple_text() -> str:
        """Plain text."""
        return _SIMPLE_TEXT

    @server.tool(structured_output=False)
    def test_image_content() -> ImageContent:
        """An image."""
        return image

    @server.tool(structured_output=False)
    def test_audio_content() -> AudioContent:
        """A sound."""
        return AudioContent(type="audio", data=_SOUND, mime_type="audio/wav")

    @server.tool(structured_output=False)
    def test_embedded_resource() -> EmbeddedResource:
        """A resource."""
        return _embedded("test://embedded-resource", "This is an embedded resource content.")

    @server.tool(structured_output=False)
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Text, an image and a resource."""
        text = TextContent(type="text", text="Multiple content types test:")
        return [text, image, _embedded("test://mixed-content-resource", '{"test":"data"}', "application/json")]

    @server.tool()
    def test_error_handling() -> str:
        """Fails."""
        raise RuntimeError("This tool intentionally returns an error for testing")


def _streams(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def test_tool_with_progress(ctx: Context) -> str:
        """Tells how far it is."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"{done} of 100")
            await anyio.sleep(_PAUSE)
        return "done"

    @server.tool(structured_output=False)
    async def test_tool_with_logging(ctx: Context) -> str:
        """Tells what it does."""
        for event in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.session.send_log_message("info", event)
            await anyio.sleep(_PAUSE)
        return "done"

    @server.tool(structured_output=False)
    async def test_logging_tool(ctx: Context) -> str:
        """Tells what it does, where the request allows it."""
        return await test_tool_with_logging(ctx)

    @server.tool(structured_output=False)
    async def test_reconnection() -> str:
        """Takes a while."""
        await anyio.sleep(_PAUSE)
        return "done"


def _asking(what: str, name: str, kind: str = "string") -> InputRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=what, requested_schema=schema))


def _sampling(text: str) -> InputRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def _inputs(server: MCPServer) -> None:
    asked: Mapping[str, tuple[dict[str, InputRequest], str | None]] = {
        "elicitation": ({"user_name": _asking("What is your name?", "name")}, None),
        "sampling": ({"capital_question": _sampling("What is the capital of France?")}, None),
        "list_roots": ({"client_roots": ListRootsRequest()}, None),
        "request_state": ({"confirm": _asking("Please confirm", "ok", "boolean")}, "state"),
        "tampered_state": ({"confirm": _asking("Please confirm", "ok", "boolean")}, "state"),
        "multiple_inputs": (
            {
                "user_name": _asking("What is your name?", "name"),
                "greeting": _sampling("Generate a greeting"),
                "client_roots": ListRootsRequest(),
            },
            "state",
        ),
    }
    for name, (requests, state) in asked.items():
        server.tool(f"test_input_required_result_{name}", structured_output=False)(_asks(requests, state))

    @server.tool(structured_output=False)
    def test_input_required_result_multi_round(ctx: Context) -> CallToolResult | InputRequiredResult:
        """Asks twice."""
        if ctx.request_state == "two" and "step2" in (ctx.input_responses or {}):
            return _said("done")
        if ctx.request_state == "one":
            asked = {"step2": _asking("Step 2: What is your favorite color?", "color")}
            return InputRequiredResult(input_requests=asked, request_state="two")
        asked = {"step1": _asking("Step 1: What is your name?", "name")}
        return InputRequiredResult(input_requests=asked, request_state="one")

    @server.tool(structured_output=False)
    def test_input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
        """Asks what the client can answer."""
        can = ctx.client_capabilities
        offered: dict[str, tuple[InputRequest, bool]] = {
            "name": (_asking("What is your name?", "name"), can is not None and can.elicitation is not None),
            "greeting": (_sampling("Generate a greeting"), can is not None and can.sampling is not None),
        }
        return InputRequiredResult(input_requests={key: each for key, (each, is_able) in offered.items() if is_able})

    server.tool("test_streaming_elicitation", structured_output=False)(_asks(*asked["elicitation"]))

    @server.tool(structured_output=False)
    def test_missing_capability(ctx: Context) -> str:
        """Needs sampling."""
        if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
            needed: dict[str, dict[str, object]] = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "needs the client to sample", needed)
        return "done"


def _asks(requests: dict[str, InputRequest], state: str | None) -> Any:
    def ask(ctx: Context) -> CallToolResult | InputRequiredResult:
        """Asks, then answers."""
        responses = ctx.input_responses or {}
        if not all(name in responses for name in requests) or (state and ctx.request_state != state):
            return InputRequiredResult(input_requests=requests, request_state=state)
        return _said(f"state-ok {responses}" if state else f"Hello, {responses}!")

    return ask


def _said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


def _embedded(uri: str, text: str, media_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=media_type, text=text))


def _resources(server: MCPServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return base64.b64decode(_IMAGE)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:  # noqa: A002 - the suite's name
        """What is named."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _prompts(server: MCPServer) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        """A text."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A text with two arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's name
        """A resource."""
        return [UserMessage(_embedded(resourceUri, "Embedded resource content for testing."))]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """An image."""
        return [UserMessage(ImageContent(type="image", data=_IMAGE, mime_type="image/png"))]

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
        """Asks first."""
        if "user_context" in (ctx.input_responses or {}):
            return "done"
        asked = {"user_context": _asking("What context should the prompt use?", "context")}
        return InputRequiredResult(input_requests=asked)
