"""How an MCP request is answered: with one JSON body, or as a stream of events when it asks to be told how far it is.

One body costs half of a stream. A client asks for steps with a progress token in its request, so the request is
looked at before the SDK reads it; what only looks like one, in a mail to be sent, is answered with a stream that has
one event, which every client can read as well.
"""

from starlette.types import Message, Receive, Scope

_LOOKED_AT = 65_536
"""Bytes of a request that are looked at. A call that takes long is shorter: it names what to read."""
_ASKS = b'"progressToken"'
_STREAM = b"text/event-stream"


async def asks_for_steps(scope: Scope, receive: Receive) -> tuple[bool, Receive]:
    """Whether a POST is to be answered with a stream, and a receive that gives out what was read to find that out."""
    accepts = length = b""
    for name, value in scope["headers"]:
        if name == b"accept":
            accepts = value
        elif name == b"content-length":
            length = value
    if _STREAM not in accepts or (length.isdigit() and int(length) > _LOOKED_AT):
        return False, receive
    held: list[Message] = []
    body = b""
    while len(body) <= _LOOKED_AT:
        message = await receive()
        held.append(message)
        body += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    held.reverse()

    async def replayed() -> Message:
        return held.pop() if held else await receive()

    return _ASKS in body, replayed
