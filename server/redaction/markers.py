"""What stands in a text where something was left out.

`visible` puts one noncharacter (U+FDD0 to U+FDEF) in its place, which no mirrored text has and no query can find; the
words that a reader gets for it are put in last, when everything has been searched, sorted and counted.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from config.profile import ContentPolicy, Redaction
from mirror.message import Address
from mirror.mirrored import MirroredMessage

ONE_TIME_CODE, CARD_NUMBER, IBAN, LINK, LINK_PART, QUOTED = map(chr, range(0xFDD0, 0xFDD6))
_FIRST_OF_RULES = 0xFDD8
_MARK = re.compile("[\ufdd0-\ufdef]")
_WORDS = {
    ONE_TIME_CODE: "[code]",
    CARD_NUMBER: "[card number]",
    IBAN: "[IBAN]",
    LINK: "[link]",
    LINK_PART: "\u2026",
    QUOTED: "[quoted text]",
}


def mark_of(rule: int) -> str:
    """What stands for the matches of a pattern, by its place among the rules of `redact`."""
    return chr(_FIRST_OF_RULES + rule)


def words_for(policy: ContentPolicy) -> Mapping[str, str]:
    """The words that a policy puts for each mark."""
    rules = enumerate(policy.redact)
    return {**_WORDS, **{mark_of(index): rule.with_ for index, rule in rules if isinstance(rule, Redaction)}}


def told(message: MirroredMessage, policy: ContentPolicy) -> MirroredMessage:
    """A visible message with words in place of marks, as readers get it. File names get the same plain word."""
    if not policy.rewrites:
        return message
    words = words_for(policy)

    def line(text: str) -> str:
        return _MARK.sub(lambda mark: words.get(mark[0], ""), text) if not text.isascii() else text

    def people(addresses: tuple[Address, ...]) -> tuple[Address, ...]:
        return tuple(Address(line(each.name), line(each.address)) for each in addresses)

    return message._replace(
        subject=line(message.subject),
        from_=people(message.from_),
        to=people(message.to),
        cc=people(message.cc),
        bcc=people(message.bcc),
        reply_to=people(message.reply_to),
        preview=line(message.preview),
        text=None if message.text is None else line(message.text),
        headers=None if message.headers is None else tuple((name, line(value)) for name, value in message.headers),
        attachments=tuple(
            replace(each, filename=_MARK.sub("redacted", each.filename), content_id=_MARK.sub("", each.content_id))
            for each in message.attachments
        ),
    )
