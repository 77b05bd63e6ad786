"""FETCH answers that the fast path cannot take apart, by imapclient's parser."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import imapclient
from imapclient.response_parser import parse_fetch_response

from mirror.listing import Listed
from mirror.upstream import answers

logger = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FlagsLine = tuple[int, tuple[str, ...], int]
"""uid, flags, modseq (0 without CONDSTORE)."""


def flags(untagged: Sequence[Any]) -> list[FlagsLine]:
    """Every message's flags among FETCH answers; the last word on each counts."""
    found: dict[int, FlagsLine] = {}
    for line, literals in answers.lines(untagged):
        items = answers.uid_and_flags(line) if not literals else None
        if items is None:
            items = _flags_slowly(line, literals)
        if items is not None:
            found[items[0]] = items
    return list(found.values())


def listed(untagged: Sequence[Any]) -> dict[int, Listed]:
    """Every message among FETCH answers that has uid, flags, date and size."""
    found: dict[int, Listed] = {}
    for line, literals in answers.lines(untagged):
        message = answers.listed(line) if not literals else None
        if message is None:
            message = _listed_slowly(line, literals)
        if message is not None:
            found[message.uid] = message
    return found


def bodies(untagged: Sequence[Any]) -> dict[int, bytes]:
    """The section of each message among FETCH answers, by uid, whatever else is among them."""
    found: dict[int, bytes] = {}
    for line, literals in answers.lines(untagged):
        section = answers.section(line, literals) or section_slowly(line, literals)
        if section is not None:
            found[section[0]] = section[1]
    return found


def section_slowly(line: bytes, literals: Sequence[bytes]) -> tuple[int, bytes] | None:
    """(uid, octets) of a FETCH response with a section, by imapclient's parser; None when it has none."""
    items = _parsed(line, literals) or {}
    sections = [value for key, value in items.items() if key.startswith(b"BODY[") and isinstance(value, bytes)]
    return (int(items[b"UID"]), sections[-1]) if sections else None


def _flags_slowly(line: bytes, literals: Sequence[bytes]) -> FlagsLine | None:
    items = _parsed(line, literals)
    if items is None or b"FLAGS" not in items:
        return None
    return int(items[b"UID"]), _flag_items(items), _modseq_item(items)


def _listed_slowly(line: bytes, literals: Sequence[bytes]) -> Listed | None:
    items = _parsed(line, literals)
    if items is None or b"FLAGS" not in items or b"RFC822.SIZE" not in items:
        return None
    at = items.get(b"INTERNALDATE")
    date = at if isinstance(at, datetime) and at.tzinfo is not None else _EPOCH
    size = min(int(items[b"RFC822.SIZE"]), 2**48)
    return Listed(int(items[b"UID"]), _flag_items(items), date, size, _modseq_item(items), _email_item(items))


def _flag_items(items: dict[bytes, Any]) -> tuple[str, ...]:
    # imapclient turns a keyword that looks like a number into one.
    words = items.get(b"FLAGS") or ()
    return answers.canonical_flags(word if isinstance(word, bytes) else str(word).encode() for word in words)


def _modseq_item(items: dict[bytes, Any]) -> int:
    value = items.get(b"MODSEQ")
    modseq = int(value[0]) if isinstance(value, tuple) and value else 0
    return modseq if modseq < 2**63 else 0


def _email_item(items: dict[bytes, Any]) -> str:
    value = items.get(b"EMAILID") or items.get(b"X-GM-MSGID") or ""
    if isinstance(value, tuple):
        value = value[0] if value else ""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _parsed(line: bytes, literals: Sequence[bytes]) -> dict[bytes, Any] | None:
    """The items of one FETCH response; None when it has no uid (data of another message) or cannot be parsed."""
    pieces: list[Any] = []
    rest = line
    for literal in literals:
        marker = b"{%d}" % len(literal)
        head, found, rest = rest.partition(marker)
        if not found:
            return None
        pieces.append((head + marker, literal))
    pieces.append(rest)
    try:
        parsed = list(parse_fetch_response(pieces, normalise_times=False, uid_is_key=False).values())
    except (imapclient.exceptions.ProtocolError, ValueError, AssertionError, IndexError, TypeError):
        logger.warning("a FETCH answer could not be parsed")
        return None
    if len(parsed) != 1 or not 0 < int(parsed[0].get(b"UID") or 0) < 2**32:
        return None
    return dict(parsed[0])
