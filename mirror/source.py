"""A message's source packed for keeping: never served, only for cleaning the content again when the rules get better.

The pack is zlib over one line of JSON (what was parsed) and then the header block and the bodies, end to end.
"""

import json
import zlib

from mirror.message import Attachment, Body, Message

_LEVEL = 1


def packed(message: Message) -> bytes:
    """The message as bytes, compressed."""
    facts = {
        "header": len(message.header),
        "hint": message.hint,
        "bodies": [[b.part, b.media_type, b.charset, b.flowed, len(b.data)] for b in message.bodies],
        "text_body": message.text_body,
        "html_body": message.html_body,
        "attachments": [attachment.as_row() for attachment in message.attachments],
        "findings": message.findings,
    }
    parts = [json.dumps(facts).encode("ascii"), b"\n", message.header, *(body.data for body in message.bodies)]
    return zlib.compress(b"".join(parts), _LEVEL)


def unpacked(source: bytes) -> Message:
    """The message that was packed."""
    data = memoryview(zlib.decompress(source))
    line, _, _ = bytes(data).partition(b"\n")
    facts = json.loads(line)
    position = len(line) + 1
    header = bytes(data[position : position + facts["header"]])
    position += len(header)
    bodies = []
    for part, media_type, charset, flowed, length in facts["bodies"]:
        bodies.append(Body(part, media_type, charset, flowed, bytes(data[position : position + length])))
        position += length
    return Message(
        header=header,
        hint=facts["hint"],
        bodies=tuple(bodies),
        text_body=tuple(facts["text_body"]),
        html_body=tuple(facts["html_body"]),
        attachments=tuple(Attachment(**attachment) for attachment in facts["attachments"]),
        findings=facts["findings"],
    )
