"""Rows of the mirror as the types that readers get."""

import json
import sqlite3
import zlib
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from mirror.listing import Place
from mirror.message import Address, Attachment
from mirror.mirrored import FolderState, MirroredMessage, State
from mirror.query.span import content_moment

Row = tuple[Any, ...]


def folder(row: Row) -> FolderState:
    """A folder from the columns of the reader's SELECT, in its order."""
    (id_, raw, name, delimiter, attributes, role, selectable, uidvalidity, as_of, enumerated, error) = row[:11]
    closed_until, messages, pending, quarantined, newest_missing, mirrored_from = row[11:]
    return FolderState(
        id=id_,
        raw=raw,
        name=name,
        delimiter=delimiter,
        attributes=tuple(json.loads(attributes)),
        role=role,
        selectable=bool(selectable),
        uidvalidity=uidvalidity,
        as_of=None if as_of is None else datetime.fromtimestamp(as_of, UTC),
        complete=bool(enumerated) and newest_missing is None and mirrored_from is None,
        messages=messages,
        pending=pending,
        quarantined=quarantined,
        error=error,
        is_closed=closed_until > 0,
        complete_back_to=_complete_back_to(newest_missing, mirrored_from) if enumerated else None,
    )


def _complete_back_to(newest_missing: int | None, mirrored_from: int | None) -> date | None:
    """The first day of which everything is mirrored: of whole days, since the moment could be a hidden message's."""
    today = datetime.now(UTC).date()
    if newest_missing is not None:
        day = datetime.fromtimestamp(newest_missing, UTC).date()
        return day + timedelta(days=1) if day < today else None
    return None if mirrored_from is None else content_moment(mirrored_from).date()


def listed(row: Row) -> MirroredMessage:
    """What lists show of a message, from the columns of the reader's SELECT, in its order."""
    return MirroredMessage(
        *(row[0], row[1], row[2], row[3], row[4], _STATES[row[5]], _flags(row[6]), _moment(row[7], row[8]), row[9]),
        subject=row[10],
        from_=addresses(row[11]),
        to=addresses(row[12]),
        date=None if row[13] is None else _moment(row[13], row[14] or 0),
        preview=row[15],
        attachments=() if row[16] == "[]" else _attachments(row[16]),
        text_octets=row[17] or 0,
    )


def message(row: Row) -> MirroredMessage:
    """The whole message, from the same columns and those that lists do not show."""
    return listed(row)._replace(
        cc=addresses(row[18]),
        bcc=addresses(row[19]),
        reply_to=addresses(row[20]),
        message_id=row[21],
        in_reply_to=row[22],
        references=() if row[23] == "[]" else tuple(json.loads(row[23])),
        findings={} if row[24] == "{}" else json.loads(row[24]),
        text=row[25],
        html=None if row[26] is None else zlib.decompress(row[26]).decode(),
        headers=None if row[27] is None else tuple((name, value) for name, value in json.loads(row[27])),
    )


def place(connection: sqlite3.Connection, message_id: int) -> Place | None:
    """Where a message is upstream; None when the mirror no longer has it, or does not know its uid just now."""
    row = connection.execute(
        "SELECT folder.raw, folder.uidvalidity, message.uid, content.size, content.internaldate,"
        " content.internaldate_zone, content.message_id FROM message JOIN folder ON folder.id = message.folder"
        " JOIN content ON content.id = message.content"
        " WHERE message.id = ? AND message.uid > 0 AND message.generation = folder.generation",
        (message_id,),
    ).fetchone()
    return None if row is None else Place(row[0], row[1], row[2], row[3], _moment(row[4], row[5]), row[6])


@lru_cache(maxsize=4096)
def addresses(stored: str) -> tuple[Address, ...]:
    """A stored address list (JSON `[[name, address], …]`) as addresses."""
    return tuple(Address(name, address) for name, address in json.loads(stored))


@lru_cache(maxsize=1024)
def _attachments(stored: str) -> tuple[Attachment, ...]:
    return tuple(Attachment(**each) for each in json.loads(stored))


@lru_cache(maxsize=1024)
def _flags(stored: str) -> frozenset[str]:
    return frozenset(json.loads(stored))


@lru_cache(maxsize=256)
def _zone(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))


def _moment(stored: int, minutes: int) -> datetime:
    return datetime.fromtimestamp(stored, _zone(minutes))


_STATES = tuple(State)
