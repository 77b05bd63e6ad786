"""What the index holds of a content: its folded columns, and the distinct words in them."""

from collections.abc import Sequence
from typing import NamedTuple

from mirror.fold import fold


class Terms(NamedTuple):
    """The columns of the full text, folded; words: each distinct word of them once, in order, with blanks between."""

    body: str
    subject: str
    sender: str
    recipient: str
    copied: str
    words: str


def terms_of(text: str, subject: str, people: Sequence[str]) -> Terms:
    """The terms of a content. people: the searchable text (`mirror.fold.people`) of From, To, Cc and Bcc."""
    sender, recipient, cc, bcc = people
    columns = (fold(text), fold(subject), fold(sender), fold(recipient), fold(f"{cc} {bcc}"))
    words = set(" ".join(columns).split(" "))
    words.discard("")
    return Terms(*columns, " ".join(sorted(words)))
