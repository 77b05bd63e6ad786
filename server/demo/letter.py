"""One message of the sample mailbox, from what it says to its bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP


@dataclass(frozen=True, slots=True)
class File:
    """An attachment. content_id: it is shown inside the HTML, as `cid:content_id`."""

    name: str
    content_type: str
    data: bytes
    content_id: str = ""


@dataclass(frozen=True, slots=True)
class Letter:
    """What a message says and where it lies.

    date: aware, in the zone of who writes. references: ids of the thread before it, oldest first. invitation: the
    calendar event it carries as an alternative.
    """

    folder: str
    sender: Address
    to: Sequence[Address]
    subject: str
    date: datetime
    message_id: str
    text: str = ""
    html: str = ""
    invitation: str = ""
    files: Sequence[File] = ()
    references: Sequence[str] = ()
    flags: Sequence[str] = ()
    charset: str = "utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def raw(self) -> bytes:
        """The message with CRLF line ends; the same letter gives the same bytes."""
        message = EmailMessage(policy=SMTP)
        message["From"] = self.sender
        message["To"] = list(self.to)
        message["Subject"] = self.subject
        message["Date"] = self.date
        message["Message-ID"] = f"<{self.message_id}>"
        if self.references:
            message["In-Reply-To"] = f"<{self.references[-1]}>"
            message["References"] = " ".join(f"<{reference}>" for reference in self.references)
        for name, value in self.headers.items():
            message[name] = value
        if self.text:
            message.set_content(self.text, charset=self.charset)
        if self.html and self.text:
            message.add_alternative(self.html, subtype="html")
        elif self.html:
            message.set_content(self.html, subtype="html")
        if self.invitation:
            message.add_alternative(self.invitation, subtype="calendar", params={"method": "REQUEST"})
        for file in self.files:
            self._attach(message, file)
        for number, part in enumerate(message.walk()):
            if part.is_multipart():
                part.set_boundary(f"=_{number}_{self.message_id.partition('@')[0]}")
        return message.as_bytes()

    @staticmethod
    def _attach(message: EmailMessage, file: File) -> None:
        maintype, _, subtype = file.content_type.partition("/")
        if file.content_id:
            page = message.get_body(("html",))
            assert isinstance(page, EmailMessage), "a picture inside the HTML needs HTML"  # noqa: S101 - a fault of the sample itself
            page.add_related(
                file.data,
                maintype=maintype,
                subtype=subtype,
                filename=file.name,
                cid=f"<{file.content_id}>",
                disposition="inline",
            )
        else:
            message.add_attachment(file.data, maintype=maintype, subtype=subtype, filename=file.name)
