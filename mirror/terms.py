"""What the index holds of a content: its folded columns, and pieces of its header lines."""

from collections.abc import Sequence
from typing import NamedTuple

from mirror.fold import fold
from mirror.grams import grams_of, lines_text


class Terms(NamedTuple):
    """The columns of the full text, folded.

    lines: what the index holds of the header lines (mirror.grams), with blanks between.
    """

    body: str
    subject: str
    sender: str
    recipient: str
    copied: str
    lines: str

    @property
    def words(self) -> list[str]:
        """The words of all columns, as they come."""
        return " ".join(self[:5]).split()

    @property
    def people(self) -> str:
        """The columns of people."""
        return f"{self.sender} {self.recipient} {self.copied}"


def terms_of(text: str, subject: str, people: Sequence[str], headers: Sequence[tuple[str, str]]) -> Terms:
    """The terms of a content. people: the searchable text (`mirror.fold.people`) of From, To, Cc and Bcc."""
    sender, recipient, cc, bcc = people
    return Terms(
        body=fold(text),
        subject=fold(subject),
        sender=fold(sender),
        recipient=fold(recipient),
        copied=fold(f"{cc} {bcc}"),
        lines=" ".join(grams_of(lines_text(headers))),
    )


Indexed = tuple[int, Terms]
"""A content id and what the index holds of it."""
