"""A content as the tables take it: made by a parsing child, so that the one writer only inserts.

A record is nothing but numbers, strings and octets. It comes from a process that has looked inside a mail, so it is
looked at (`is_sound`) before it goes into a statement.
"""

from typing import NamedTuple

from mirror.terms import Terms

CONTENT_VERSION = 1
"""The rules by which a record is made; contents of older ones are cleaned again."""
_TEXTS = frozenset([str])


class EnvelopeRecord(NamedTuple):
    """The columns that an envelope fills. sent: seconds since 1970 and minutes east of UTC, or neither."""

    sent: int | None
    sent_zone: int | None
    subject: str
    subject_key: str
    from_key: str
    to_key: str
    sender: str
    recipient: str
    cc: str
    bcc: str
    reply_to: str
    message_id: str
    in_reply_to: str
    refs: str

    def is_sound(self) -> bool:
        """Whether the tables can take every value."""
        moment = self[:2]
        is_moment = moment == (None, None) or all(type(each) is int and abs(each) < 1 << 62 for each in moment)
        return is_moment and {type(each) for each in self[2:]} == _TEXTS and all(map(_is_text, self[2:]))


class Record(NamedTuple):
    """The columns that a content fills.

    smallest: decoded octets of the smallest attachment, None for no attachment. normalised: compressed, waits for the
    sanitizer; None when there is no HTML. kept: (section number, decoded octets) of the attachments to keep.
    """

    envelope: EnvelopeRecord
    text: str
    preview: str
    attachments: str
    smallest: int | None
    findings: str
    headers: str
    normalised: bytes | None
    source: bytes
    terms: Terms
    kept: tuple[tuple[str, bytes], ...] = ()

    def is_sound(self) -> bool:
        """Whether the tables can take every value."""
        texts = (self.text, self.preview, self.attachments, self.findings, self.headers, *self.terms)
        return (
            type(self.envelope) is EnvelopeRecord
            and self.envelope.is_sound()
            and type(self.terms) is Terms
            and {type(each) for each in texts} == _TEXTS
            and all(map(_is_text, texts))
            and (self.smallest is None or type(self.smallest) is int)
            and (self.normalised is None or type(self.normalised) is bytes)
            and type(self.source) is bytes
            and type(self.kept) is tuple
            and all(map(_is_part, self.kept))
        )


def _is_part(part: object) -> bool:
    return type(part) is tuple and tuple(map(type, part)) == (str, bytes) and part[0].isascii()


def _is_text(text: str) -> bool:
    """Whether it can be stored: no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
