"""A person to write to: `bob@example.org` or `Bob Example <bob@example.org>`."""

import re
import unicodedata
from dataclasses import dataclass

from server.policy import NotAnAddress, Recipient, parse_recipient

_NAMED = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]+)>", re.DOTALL)
_QUOTED = re.compile(r'"(?P<inner>(?:[^"\\]|\\["\\])*)"', re.DOTALL)
_LONGEST_NAME = 200
_BREAKING = ("Cc", "Cs", "Zl", "Zp")


@dataclass(frozen=True, slots=True)
class Correspondent:
    """An address and the name to show beside it, "" for none."""

    name: str
    recipient: Recipient


def parse_correspondent(text: str) -> Correspondent:
    """One address, alone or behind a name. Raises NotAnAddress.

    A name that holds an address is not taken, nor one with a comma outside quotation marks: whoever wrote it may have
    meant several people.
    """
    match = _NAMED.fullmatch(text.strip())
    if match is None:
        return Correspondent("", parse_recipient(text))
    name = match["name"].strip(" \t")
    if quoted := _QUOTED.fullmatch(name):
        name = re.sub(r"\\(.)", r"\1", quoted["inner"])
    elif re.search(r'[",;]', name):
        raise NotAnAddress(text)
    if "@" in name or len(name) > _LONGEST_NAME or breaks_lines(name):
        raise NotAnAddress(text)
    return Correspondent(" ".join(name.split()), parse_recipient(match["address"]))


def breaks_lines(text: str) -> bool:
    """Whether a text holds what has no place in a header: line breaks, control characters, half characters."""
    return any(unicodedata.category(character) in _BREAKING for character in text)
