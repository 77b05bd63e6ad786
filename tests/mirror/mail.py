"""Mail for tests, made in place."""

from mirror.content import Content, read_content
from mirror.sanitize import clean_html


def html_mail(markup: str, *, headers: str = "") -> bytes:
    """A message whose only part is this HTML in UTF-8."""
    return f"From: a@example.org\n{headers}Content-Type: text/html; charset=utf-8\n\n{markup}".encode()


def plain_mail(text: str, *, headers: str = "") -> bytes:
    """A message whose only part is this text in UTF-8."""
    return f"From: a@example.org\n{headers}Content-Type: text/plain; charset=utf-8\n\n{text}".encode()


def simple(subject: str, body: str = "Hello") -> bytes:
    """A small plain mail, its Message-ID made from the subject."""
    message_id = subject.replace(" ", ".")
    return (
        f"From: Bob <bob@example.net>\r\nTo: alice@example.org\r\nSubject: {subject}\r\n"
        f"Date: Mon, 5 Jan 2026 10:00:00 +0100\r\nMessage-ID: <{message_id}@example.net>\r\n\r\n{body}\r\n"
    ).encode()


def mail(headers: str, body: str = "body\n") -> bytes:
    """A message of these header lines and this body."""
    return f"{headers}\n\n{body}".encode()


def multipart(kind: str, *parts: str) -> bytes:
    """A message of parts, each written with its own header lines."""
    body = "".join(f"--frontier\n{part}\n" for part in parts)
    return f"From: a@example.org\nContent-Type: multipart/{kind}; boundary=frontier\n\n{body}--frontier--\n".encode()


def attachment(filename: str, media_type: str = "application/octet-stream") -> str:
    """A part for `multipart` that is an attachment of this name."""
    return f'Content-Type: {media_type}\nContent-Disposition: attachment; filename="{filename}"\n\nx'


def everything(content: Content) -> str:
    """Every string of a content that anyone may read or search, its HTML form included."""
    envelope = content.envelope
    people = (*envelope.from_, *envelope.to, *envelope.cc, *envelope.bcc, *envelope.reply_to)
    return "\n".join(
        [
            envelope.subject,
            envelope.message_id,
            envelope.in_reply_to,
            *envelope.references,
            *(part for address in people for part in (address.name, address.address)),
            *(part for header in envelope.headers for part in header),
            content.text,
            content.preview,
            *(part for a in content.attachments for part in (a.filename, a.media_type, a.content_id, a.encoding)),
            content.normalised_html,
            clean_html(content.normalised_html),
        ]
    )


def read_all(raw: bytes) -> str:
    """`everything` of the content of a message."""
    return everything(read_content(raw))
