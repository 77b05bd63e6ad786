"""What the gateway tools take: the models behind their schemas. Descriptions are product text, read by models."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from server.tool import REQUEST_BYTES
from server.tool_arguments import Arguments, LongText, Text, one_or_more

APPEND_BYTES = 25 * 1024 * 1024
_BASE64_CHARS = -(-APPEND_BYTES // 3) * 4 + 4
_LARGEST = f"{APPEND_BYTES // 1024**2} MB, over HTTP {REQUEST_BYTES * 3 // 4 // 1_000_000} MB"

Account = Annotated[Text, Field(description="Account name, as list_accounts shows it.")]
FolderName = Annotated[Text, Field(description="Folder name, exactly as list_folders shows it.")]
MessageId = Annotated[Text, Field(description="Message ID, as search_emails returned it for this folder.")]
Addresses = Annotated[list[Text], BeforeValidator(one_or_more), Field(max_length=1_000)]
Key = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=200)] | None,
    Field(description="A word of your own for this mail: calling again with the same one does not send it twice."),
]

HtmlBody = Annotated[LongText | None, Field(description="HTML body, beside the plain text.")]
AppendToSent = Annotated[bool, Field(description="Keep a copy in the Sent folder in any case.")]
AppendFolder = Annotated[
    Text | None, Field(description="The Sent folder by its name, for copies are kept in no other.")
]


class ListAccounts(Arguments):
    """Nothing to say."""


class ListFolders(Arguments):
    """Whose folders to list."""

    account: Account


class SearchEmails(Arguments):
    """What to find, where, and how much of it."""

    account: Account
    folder: Annotated[Text, Field(description="Folder to search.")] = "INBOX"
    criteria: Annotated[
        Annotated[str, StringConstraints(max_length=100_000)],
        Field(description='IMAP search criteria, for example: FROM "alice" SUBJECT "monthly report" UNSEEN'),
    ] = "ALL"
    limit: Annotated[int, Field(ge=1, le=500, description="Maximum results (1-500): the newest that match.")] = 50


class GetEmail(Arguments):
    """Which message to read, and from where on."""

    account: Account
    message_id: MessageId
    folder: FolderName = "INBOX"
    offset: Annotated[
        int, Field(ge=0, le=10**9, description="Characters of the body to skip, to read on where a long one was cut.")
    ] = 0


class DownloadAttachment(Arguments):
    """Which attachment to save, and where."""

    account: Account
    message_id: MessageId
    filename: Annotated[Text, Field(description="Attachment filename, as get_email shows it.")]
    output_dir: Annotated[
        Text, Field(description='Folder within your workspace, for example "invoices/2026"; "" is the workspace.')
    ]
    folder: FolderName = "INBOX"


class SendEmail(Arguments):
    """A new mail."""

    account: Account
    to: Annotated[
        list[Text], BeforeValidator(one_or_more), Field(min_length=1, max_length=1_000, description="Recipients.")
    ]
    subject: Annotated[Text, Field(description="Email subject.")]
    body: Annotated[LongText, Field(description="Plain text body.")]
    cc: Annotated[Addresses | None, Field(description="CC addresses.")] = None
    bcc: Annotated[Addresses | None, Field(description="BCC addresses: only the mail server learns of them.")] = None
    html_body: HtmlBody = None
    attachments: Annotated[
        Annotated[list[Text], BeforeValidator(one_or_more), Field(max_length=50)] | None,
        Field(description="Files within your workspace to attach, for example invoices/2026/17.pdf"),
    ] = None
    append_to_sent: AppendToSent = False
    append_folder: AppendFolder = None
    idempotency_key: Key = None


class ReplyEmail(Arguments):
    """A mail that belongs to a conversation."""

    account: Account
    to: Annotated[Text, Field(description="Recipient address.")]
    subject: Annotated[Text, Field(description="Email subject, with its Re:")]
    body: Annotated[LongText, Field(description="Plain text body.")]
    in_reply_to: Annotated[Text, Field(description="message_id of the mail replied to, with its angle brackets.")]
    references: Annotated[
        Annotated[list[Text], BeforeValidator(one_or_more), Field(max_length=200)] | None,
        Field(description="Thread references, oldest first; taken from the mail replied to when left out."),
    ] = None
    html_body: HtmlBody = None
    append_to_sent: AppendToSent = False
    append_folder: AppendFolder = None
    idempotency_key: Key = None


class MoveEmail(Arguments):
    """Which message to move, and where."""

    account: Account
    message_id: MessageId
    source_folder: Annotated[Text, Field(description="The folder it is in.")]
    dest_folder: Annotated[Text, Field(description="The folder it goes to.")]


class DeleteEmail(Arguments):
    """Which message to delete, and how."""

    account: Account
    message_id: MessageId
    folder: FolderName = "INBOX"
    expunge: Annotated[bool, Field(description="Delete it for good; false only marks it as deleted.")] = True


class MarkEmailRead(Arguments):
    """Which message to mark."""

    account: Account
    message_id: MessageId
    folder: FolderName = "INBOX"


class CreateFolder(Arguments):
    """What to call the new folder."""

    account: Account
    folder_name: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=255)],
        Field(description="Name of the new folder, with the delimiter that list_folders shows between its levels."),
    ]


def _not_too_large(text: str) -> str:
    if len(text) > _BASE64_CHARS:
        raise ValueError(f"the message has more than {_LARGEST}")
    return text


class AppendEmail(Arguments):
    """A message to store."""

    account: Account
    raw_message: Annotated[
        str,
        AfterValidator(_not_too_large),
        Field(description=f"The whole message (RFC 5322) in Base64, at most {_LARGEST}."),
    ]
    folder: Annotated[Text, Field(description="The folder to store it in.")] = "Sent"
    flags: Annotated[
        Annotated[list[Literal["\\Seen", "\\Draft", "\\Answered", "\\Flagged"]], BeforeValidator(one_or_more)] | None,
        Field(description="Flags it gets: \\Seen, \\Draft, \\Answered, \\Flagged."),
    ] = None
