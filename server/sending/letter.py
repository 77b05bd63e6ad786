"""One mail as bytes: what the caller wrote is literal text, whatever it looks like.

The headers are written here and not by `email.message.EmailMessage`: that one decodes what looks like an encoded word
(RFC 2047) in a value it is given, and writes out the CR, LF and comma that come to light. The finished bytes are read
back before anybody gets them.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.encoders import encode_base64
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP, compat32
from email.utils import encode_rfc2231, format_datetime

from server.sending.correspondent import Correspondent
from server.sending.proofreading import Meant, read_back
from server.sending.submission import Parcel

MAX_REFERENCES = 20
"""Ids in References: the first of a thread and the newest."""
_LINE_END = re.compile(r"\r\n?|\n")
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")
_ATOMS = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")
_FILENAME = re.compile(r"[A-Za-z0-9 ._()+-]{1,60}")
_MEDIA_TYPE = re.compile(r"([a-z0-9][a-z0-9!#$&^_.+-]{0,63})/([a-z0-9][a-z0-9!#$&^_.+-]{0,63})")
_MESSAGE_ID = re.compile(r"<?([!-;=?-~]{1,300}@[!-;=?-~]{1,300})>?")
_PLAIN_CHARS = 60
# 7bit content needs no extension of any server on the way; its lines stay below RFC 5322's recommendation.
_WIRE = SMTP.clone(cte_type="7bit", refold_source="none")


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that goes along with a mail."""

    filename: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Draft:
    """A mail as a client wrote it.

    Addresses stand alone or behind a name (`Bob <bob@example.org>`). in_reply_to, references: Message-IDs, with or
    without their angle brackets.
    """

    from_: str
    to: tuple[str, ...]
    subject: str
    text: str
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    html: str = ""
    attachments: tuple[Enclosure, ...] = ()
    in_reply_to: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who a checked draft is from and for; nobody is named twice."""

    sender: Correspondent
    to: tuple[Correspondent, ...]
    cc: tuple[Correspondent, ...] = ()
    bcc: tuple[Correspondent, ...] = ()

    @property
    def everybody(self) -> tuple[Correspondent, ...]:
        """Every recipient, in the order of the mail."""
        return (*self.to, *self.cc, *self.bcc)


def is_message_id(text: str) -> bool:
    """Whether a text is one Message-ID, with or without its angle brackets."""
    return _MESSAGE_ID.fullmatch(text) is not None


def digest_of(draft: Draft) -> bytes:
    """What tells one draft from another."""
    small = replace(draft, attachments=())
    whole = hashlib.sha256(repr(small).encode("utf-8", "surrogatepass"))
    for each in draft.attachments:
        named = repr((each.filename, each.media_type)).encode("utf-8", "surrogatepass")
        whole.update(hashlib.sha256(named).digest() + hashlib.sha256(each.data).digest())
    return whole.digest()


def write_letter(envelope: Envelope, draft: Draft) -> Parcel:
    """A checked draft as it goes on the wire: 7bit MIME with CRLF, whatever the server can do. Raises Ambiguous.

    The copy for Sent names the Bcc recipients, the mail that goes out does not.
    """
    sender = envelope.sender
    message_id = f"{secrets.token_hex(16)}@{sender.recipient.domain}"
    headers = {
        "From": _people("From", [sender]),
        "To": _people("To", envelope.to) or ("undisclosed-recipients:;" if envelope.bcc else ""),
        "Cc": _people("Cc", envelope.cc),
        "Subject": _text("Subject", draft.subject),
        "Date": format_datetime(datetime.now(UTC)),
        "Message-ID": f"<{message_id}>",
    }
    if draft.in_reply_to or draft.references:
        parent, thread = _thread(draft)
        headers["In-Reply-To"] = parent and f"<{parent}>"
        headers["References"] = "\r\n ".join(f"<{each}>" for each in thread)
    kept = {name: value for name, value in headers.items() if value or name == "Subject"}
    head = "".join(f"{name}: {value}\r\n" for name, value in kept.items()).encode()
    mail = head + _content(draft).as_bytes()
    read_back(mail, Meant(tuple(kept), draft.subject, sender, envelope.to, envelope.cc, _pieces(draft)))
    copy = f"Bcc: {_people('Bcc', envelope.bcc)}\r\n".encode() + mail if envelope.bcc else mail
    everybody = [each.recipient for each in envelope.everybody]
    needs_utf8 = not all(each.is_ascii for each in (sender.recipient, *everybody))
    return Parcel(
        message_id, sender.recipient.address, tuple(each.address for each in everybody), mail, needs_utf8, copy
    )


def _people(header: str, people: Sequence[Correspondent]) -> str:
    return ",\r\n ".join(
        f"{_phrase(header, each.name)} <{each.recipient.address}>" if each.name else each.recipient.address
        for each in people
    )


def _text(header: str, text: str) -> str:
    """Unstructured text: as it is when it is short and plain, else as encoded words."""
    if not text or (len(text) <= _PLAIN_CHARS and _PLAIN.fullmatch(text) and "=?" not in text):
        return text
    return Header(text, "utf-8", header_name=header).encode(linesep="\r\n")


def _phrase(header: str, name: str) -> str:
    """A display name: atoms, else encoded words, which need no quoting."""
    if len(name) <= _PLAIN_CHARS and _ATOMS.fullmatch(name):
        return name
    return Header(name, "utf-8", header_name=header).encode(linesep="\r\n")


def _thread(draft: Draft) -> tuple[str, list[str]]:
    """The parent's id, and the ids of the thread, the parent's last (RFC 5322 3.6.4). What is no id is left out."""
    found = [match[1] for match in map(_MESSAGE_ID.fullmatch, (*draft.references, draft.in_reply_to)) if match]
    thread = [each for at, each in enumerate(found) if each not in found[at + 1 :]]
    if len(thread) > MAX_REFERENCES:
        thread = [thread[0], *thread[1 - MAX_REFERENCES :]]
    parent = _MESSAGE_ID.fullmatch(draft.in_reply_to)
    return parent[1] if parent else "", thread


def _normal(text: str) -> str:
    return _LINE_END.sub("\n", text).rstrip("\n") + "\n"


def _content(draft: Draft) -> EmailMessage:
    content = EmailMessage(_WIRE)
    content.set_content(_normal(draft.text), charset="utf-8")
    if draft.html:
        content.add_alternative(_normal(draft.html), subtype="html", charset="utf-8")
    if draft.attachments:
        content.make_mixed()
        for each in draft.attachments:
            content.attach(_part(each))
    return content


def _part(enclosure: Enclosure) -> EmailMessage:
    # The old policy takes header values as they are; the others look for encoded words in a file's name.
    part = EmailMessage(compat32)
    part["Content-Type"] = _media_type(enclosure.media_type)
    part.set_payload(enclosure.data)
    encode_base64(part)
    name = enclosure.filename
    plain = f'filename="{name}"' if _FILENAME.fullmatch(name) else f"filename*={encode_rfc2231(name, 'utf-8')}"
    part["Content-Disposition"] = f"attachment; {plain}"
    return part


def _media_type(text: str) -> str:
    match = _MEDIA_TYPE.fullmatch(text.strip().lower())
    # Neither may be base64 (RFC 2046 5.1, 5.2.1), and nothing but base64 keeps a file as it is.
    return "application/octet-stream" if match is None or match[1] in ("message", "multipart") else match[0]


def _pieces(draft: Draft) -> tuple[tuple[str, bytes], ...]:
    """(file name, SHA-256) of every leaf of the mail; texts have no name and LF line ends."""
    texts = [("", _normal(text).encode()) for text in ([draft.text, draft.html] if draft.html else [draft.text])]
    files = [(each.filename, each.data) for each in draft.attachments]
    return tuple((name, hashlib.sha256(data).digest()) for name, data in (*texts, *files))
