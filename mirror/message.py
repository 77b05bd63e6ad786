"""A mail parsed: raw bytes in, typed and decoded fields out. Pure functions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """A mailbox of an address header: display name ("" for none) and addr-spec, decoded and cleaned."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attachment of a message.

    part: its section number (RFC 3501 6.4.5, `"2.1"`), stable for the message. filename: safe to write to a disk.
    size: decoded bytes. encoding: the Content-Transfer-Encoding to undo when the part is fetched by its number.
    content_id: without angle brackets, "" for none. inline: shown within the body rather than beside it.
    """

    part: str
    filename: str
    media_type: str
    size: int
    encoding: str = ""
    content_id: str = ""
    inline: bool = False
