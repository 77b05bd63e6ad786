"""Errors of the MCP envelope in plain words.

What is no JSON-RPC request never reaches a tool, and the SDK answers it with the text of its validator: names of its
classes, the value that was sent, a URL. Such a text is replaced; the code and everything that was served is left alone.
"""

import json

from starlette.types import Message, Send

NOT_A_REQUEST = "This is not a JSON-RPC 2.0 request that this server can read"


def plain_errors(send: Send) -> Send:
    """A send that replaces the validator's text in answers that refuse a request."""
    held: list[Message] = []

    async def send_plainly(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            held.append(message)
        elif message["type"] == "http.response.body" and held:
            held.append(message)
            if not message.get("more_body"):
                for each in _plain(held):
                    await send(each)
                held.clear()
        else:
            await send(message)

    return send_plainly


def _plain(held: list[Message]) -> list[Message]:
    start, *pieces = held
    body = b"".join(piece.get("body", b"") for piece in pieces)
    try:
        answer = json.loads(body)
        text = answer["error"]["message"]
    except (ValueError, TypeError, KeyError):
        return held
    if "\n" not in text and "alidation error" not in text:
        return held
    answer["error"] = {"code": answer["error"].get("code"), "message": NOT_A_REQUEST}
    plain = json.dumps(answer, separators=(",", ":")).encode()
    headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
    headers.append((b"content-length", str(len(plain)).encode()))
    return [{**start, "headers": headers}, {"type": "http.response.body", "body": plain}]
