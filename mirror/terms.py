"""What the index holds of a content: its folded columns, the distinct words in them, and of its header lines."""

from collections.abc import Sequence
from typing import NamedTuple

from mirror.fold import fold
from mirror.grams import grams_of, lines_text


class Terms(NamedTuple):
    """The columns of the full text, folded; words: each distinct word of them once, with blanks between.

    lines: what the index holds of the header lines (mirror.grams), with blanks between.
    """

    body: str
    subject: str
    sender: str
    recipient: str
    copied: str
    words: str
    lines: str


def terms_of(text: str, subject: str, people: Sequence[str], headers: Sequence[tuple[str, str]]) -> Terms:
    """The terms of a content. people: the searchable text (`mirror.fold.people`) of From, To, Cc and Bcc."""
    sender, recipient, cc, bcc = people
    columns = (fold(text), fold(subject), fold(sender), fold(recipient), fold(f"{cc} {bcc}"))
    words = dict.fromkeys(" ".join(columns).split())
    return Terms(*columns, " ".join(words), " ".join(grams_of(lines_text(headers))))


Indexed = tuple[int, Terms]
"""A content id and what the index holds of it."""
