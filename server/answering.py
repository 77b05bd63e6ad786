"""How an MCP request is answered: with one JSON body, or as a stream of events when it asks to be told how far it is.

One body costs half of a stream. A client asks for steps with a progress token in its request, so the request is
looked at before the SDK reads it; what only looks like one, in a mail to be sent, is answered with a stream that has
one event, which every client can read as well.
"""

from dataclasses import dataclass

from starlette.types import Message, Receive, Scope

_LOOKED_AT = 65_536
"""Bytes of a request that are looked at. A call that takes long is shorter: it names what to read."""
_ASKS = b'"progressToken"'
_STREAM = b"text/event-stream"


@dataclass(frozen=True, slots=True)
class Looked:
    """A POST that was looked at. body: all of it, None when it is too long for that. receive: gives it out again."""

    body: bytes | None
    receive: Receive
    asks_for_steps: bool


async def look(scope: Scope, receive: Receive) -> Looked:
    """Look at a POST, and see whether it is to be answered with a stream."""
    accepts = length = b""
    for name, value in scope["headers"]:
        if name == b"accept":
            accepts = value
        elif name == b"content-length":
            length = value
    if length.isdigit() and int(length) > _LOOKED_AT:
        return Looked(None, receive, asks_for_steps=False)
    held: list[Message] = []
    body = b""
    is_whole = False
    while len(body) <= _LOOKED_AT and not is_whole:
        message = await receive()
        held.append(message)
        body += message.get("body", b"")
        is_whole = message["type"] != "http.request" or not message.get("more_body")
    held.reverse()

    async def replayed() -> Message:
        return held.pop() if held else await receive()

    return Looked(body if is_whole else None, replayed, _STREAM in accepts and _ASKS in body)
