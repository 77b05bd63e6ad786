"""Messages by their ids: as far as lists show them, or whole."""

import json
import sqlite3
from collections.abc import Sequence

from mirror.mirrored import MirroredMessage
from mirror.query import rows


class Messages:
    """Reads the messages of one mirror."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def listed(self, folder_id: int, message_ids: Sequence[int], *, octets: bool = True) -> list[MirroredMessage]:
        """Those of the messages that the folder holds, as far as lists show them, in the order asked for.

        octets: with the length of their text, which takes reading it.
        """
        asked = (json.dumps(list(message_ids)), folder_id)
        found = {
            row[0]: rows.listed(row) for row in self._connection.execute(_WITH_OCTETS if octets else _LISTED, asked)
        }
        return [found[each] for each in message_ids if each in found]

    def whole(
        self, folder_id: int, message_ids: Sequence[int], *, with_html: bool = False, with_headers: bool = False
    ) -> list[MirroredMessage]:
        """Those of the messages that the folder holds, with their text, in the order asked for."""
        asked = (with_html, with_headers, json.dumps(list(message_ids)), folder_id)
        found = {row[0]: rows.message(row) for row in self._connection.execute(_WHOLE, asked)}
        return [found[each] for each in message_ids if each in found]


_COLUMNS = """
    SELECT message.id, folder.name, message.folder, message.uid, message.content, content.state, message.flags,
        content.internaldate, content.internaldate_zone, content.size, content.subject, content.sender,
        content.recipient, content.sent, content.sent_zone, content.preview, content.attachments,
    """
_ASKED = """
    FROM json_each(?) AS asked
    CROSS JOIN message ON message.id = asked.value
    JOIN folder ON folder.id = message.folder
    JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND content.state >= 1
    """
_LISTED = " ".join((_COLUMNS, "0", _ASKED))
_WITH_OCTETS = " ".join((_COLUMNS, "length(CAST(body.text AS BLOB))", _ASKED))
_WHOLE = " ".join(
    (
        _COLUMNS,
        "NULL, content.cc, content.bcc, content.reply_to, content.message_id, content.in_reply_to, content.refs,",
        "content.findings, body.text,",
        "iif(?, coalesce((SELECT html FROM form WHERE form.content = body.content), body.html), NULL),",
        "iif(?, body.headers, NULL)",
        _ASKED,
    )
)
