"""What the relay tools take: the models behind their schemas. Descriptions are product text, read by models."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from server.tool_arguments import Arguments, LongText, Text, one_or_more

FolderName = Annotated[Text, Field(description="A folder name exactly as list_folders returned it.")]
Uid = Annotated[Text, Field(description="A uid that a list or search of this folder returned.")]
Cursor = Annotated[
    Text | None,
    Field(description="next_cursor of the answer before, with the same folder and query, for the next page."),
]
QueryText = Annotated[str, StringConstraints(max_length=8_000)]


class ListFolders(Arguments):
    """Nothing to say."""


class ListMessages(Arguments):
    """Which messages to list."""

    folder: FolderName
    query: Annotated[QueryText | None, Field(description="Filter and order, in the language of search_messages.")] = (
        None
    )
    cursor: Cursor = None


class SearchMessages(Arguments):
    """Which messages to find."""

    folder: FolderName
    query: Annotated[
        QueryText,
        Field(description="What to find, for example: from alice and subject invoice and after 2026-01-31"),
    ]
    cursor: Cursor = None


class ReadMessage(Arguments):
    """Which message to read, and from where on."""

    folder: FolderName
    uid: Uid
    offset: Annotated[
        int, Field(ge=0, le=10**9, description="Characters of the body to skip: next_offset of the answer before.")
    ] = 0


class ReadMessages(Arguments):
    """Which messages to read."""

    folder: FolderName
    uids: Annotated[
        list[Text],
        BeforeValidator(one_or_more),
        Field(min_length=1, max_length=20, description="1 to 20 uids that a list or search of this folder returned."),
    ]


class SendMessage(Arguments):
    """A mail to send."""

    from_: Annotated[
        Text, Field(alias="from", description="The address of this mailbox, or one of its configured aliases.")
    ]
    to: Annotated[
        list[Text],
        BeforeValidator(one_or_more),
        Field(min_length=1, max_length=1_000, description="Plain addresses such as bob@example.org, one or more."),
    ]
    subject: Text
    body: Annotated[LongText, Field(description="Plain text.")]


class UpdateMessageFlags(Arguments):
    """Which flags to add to a message, or to remove from it."""

    folder: FolderName
    uid: Uid
    flags: Annotated[
        list[Literal["seen", "flagged", "answered"]],
        BeforeValidator(one_or_more),
        Field(min_length=1, max_length=3, description="One or more of seen, flagged, answered."),
    ]
    action: Literal["add", "remove"]
