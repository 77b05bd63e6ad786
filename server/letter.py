"""One mail as bytes: what the caller wrote is literal text, whatever it looks like.

The headers are written here and not by `email.message.EmailMessage`: that one decodes what looks like an encoded word
(RFC 2047) in a value it is given, and writes out the CR, LF and comma that come to light. The finished bytes are read
back before anybody gets them.
"""

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from email.header import Header
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import SMTP, default
from email.utils import format_datetime

from server.policy import Recipient
from server.submission import Parcel

NAMES = ("From", "To", "Subject", "Date", "Message-ID", "Content-Type", "Content-Transfer-Encoding", "MIME-Version")
_LINE_END = re.compile(r"\r\n?|\n")
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")
_ATOMS = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")
_PLAIN_CHARS = 60


class Ambiguous(ValueError):
    """The bytes do not read back as what was given."""


def write_letter(
    display_name: str, sender: Recipient, recipients: Sequence[Recipient], subject: str, body: str
) -> Parcel:
    """A checked draft as it goes on the wire: 7bit MIME with CRLF, whatever the server can do. Raises Ambiguous."""
    message_id = f"{secrets.token_hex(16)}@{sender.domain}"
    headers = {
        "From": f"{_phrase(display_name)} <{sender.address}>" if display_name else sender.address,
        "To": ",\r\n ".join(each.address for each in recipients),
        "Subject": _text("Subject", subject),
        "Date": format_datetime(datetime.now(UTC)),
        "Message-ID": f"<{message_id}>",
    }
    # 7bit content needs no extension of any server on the way; the lines of it stay below RFC 5322's recommendation.
    content = EmailMessage(SMTP.clone(cte_type="7bit"))
    content.set_content(_LINE_END.sub("\n", body).rstrip("\n") + "\n", charset="utf-8")
    mail = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + content.as_bytes()
    read_back(mail, subject, [each.address for each in recipients])
    needs_utf8 = not all(each.is_ascii for each in (sender, *recipients))
    return Parcel(message_id, sender.address, tuple(each.address for each in recipients), mail, needs_utf8)


def _text(name: str, text: str) -> str:
    """Unstructured text: as it is when it is short and plain, else as encoded words."""
    if not text or (len(text) <= _PLAIN_CHARS and _PLAIN.fullmatch(text) and "=?" not in text):
        return text
    return Header(text, "utf-8", header_name=name).encode(linesep="\r\n")


def _phrase(name: str) -> str:
    """A display name: atoms, else encoded words, which need no quoting."""
    if len(name) <= _PLAIN_CHARS and _ATOMS.fullmatch(name):
        return name
    return Header(name, "utf-8", header_name="From").encode(linesep="\r\n")


def read_back(mail: bytes, subject: str, recipients: Sequence[str]) -> None:
    """Raises Ambiguous unless a plain split and the library's parser both find what was meant."""
    if b"\0" in mail or re.search(rb"\r(?!\n)|(?<!\r)\n", mail):
        raise Ambiguous("line ends")
    lines = mail.partition(b"\r\n\r\n")[0].split(b"\r\n")
    names = [line.partition(b":")[0].decode("ascii", "replace") for line in lines if line[:1] not in (b" ", b"\t")]
    parsed = BytesParser(policy=default).parsebytes(mail, headersonly=True)
    if sorted(names) != sorted(NAMES) or sorted(parsed.keys()) != sorted(NAMES):
        raise Ambiguous("headers")
    if str(parsed["Subject"]) != subject:
        raise Ambiguous("subject")
    if [address.strip() for address in str(parsed["To"]).split(",")] != list(recipients):
        raise Ambiguous("recipients")
