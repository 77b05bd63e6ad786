"""A finished mail read back: what another program finds in it must be what was meant."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

from server.sending.correspondent import Correspondent

_OF_THE_CONTENT = ("Content-Type", "Content-Transfer-Encoding", "MIME-Version")


class Ambiguous(ValueError):
    """The bytes do not read back as what was given."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What a mail was written from. headers: their names; pieces: (file name, SHA-256) of every leaf, in order."""

    headers: tuple[str, ...]
    subject: str
    sender: Correspondent
    to: Sequence[Correspondent]
    cc: Sequence[Correspondent]
    pieces: tuple[tuple[str, bytes], ...]


def read_back(mail: bytes, meant: Meant) -> None:
    """Raises Ambiguous unless a plain split and the library's parser both find what was meant."""
    if b"\0" in mail or re.search(rb"\r(?!\n)|(?<!\r)\n", mail):
        raise Ambiguous("line ends")
    lines = mail.partition(b"\r\n\r\n")[0].split(b"\r\n")
    names = [line.partition(b":")[0].decode("ascii", "replace") for line in lines if line[:1] not in (b" ", b"\t")]
    parsed = BytesParser(EmailMessage, policy=default).parsebytes(mail)
    wanted = {*meant.headers, *_OF_THE_CONTENT} - ({"Content-Transfer-Encoding"} if parsed.is_multipart() else set())
    if sorted(names) != sorted(wanted) or sorted(parsed.keys()) != sorted(wanted):
        raise Ambiguous("headers")
    if str(parsed["Subject"]) != meant.subject:
        raise Ambiguous("subject")
    for header, people in (("From", [meant.sender]), ("To", meant.to), ("Cc", meant.cc)):
        if _people(parsed, header) != [(_unspaced(each.name), each.recipient.address) for each in people]:
            raise Ambiguous(header)
    if tuple(map(_piece, filter(lambda part: not part.is_multipart(), parsed.walk()))) != meant.pieces:
        raise Ambiguous("content")


def _people(parsed: EmailMessage, header: str) -> list[tuple[str, str]]:
    value = parsed[header]
    # Raw UTF-8 in an address (RFC 6532) comes out of the parser as half characters.
    return [] if value is None else [(_unspaced(each.display_name), _utf8(each.addr_spec)) for each in value.addresses]


def _unspaced(name: str) -> str:
    # The parser keeps blanks between encoded words of a name, against RFC 2047 6.2.
    return "".join(name.split())


def _utf8(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _piece(part: EmailMessage) -> tuple[str, bytes]:
    name = part.get_filename() or ""
    if name or part.is_attachment():
        data = part.get_payload(decode=True)
    else:
        data = part.get_content().replace("\r\n", "\n").encode("utf-8", "replace")
    return name, hashlib.sha256(data if isinstance(data, bytes) else b"").digest()
