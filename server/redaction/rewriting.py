"""Texts as a content policy shows them: spans are left out, a mark stands for each, and nothing is added or moved.

That is what makes a search under a policy sound: whatever is found in what is left was in the original, where the
index has it. Patterns see the text as it was written and as `plain` reads it, and never the text beside a mark: every
rule reads the original, and what they find is left out together.

Most texts have nothing to leave out. One expression of everything that any rule could match is searched first; only
where it matches do the rules look for themselves.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from config.pattern import Patterns
from config.profile import ContentPolicy, Redaction
from mirror.message import Address
from mirror.mirrored import MirroredMessage
from mirror.reply import preview_of, quoted_spans
from server.redaction.codes import CODE_WORDS, one_time_codes, speaks_of_codes
from server.redaction.links import LINK_LIKE, link_spans
from server.redaction.markers import CARD_NUMBER, IBAN, LINK, LINK_PART, ONE_TIME_CODE, QUOTED, mark_of
from server.redaction.media import known_media_type
from server.redaction.payment import CARD_LIKE, card_numbers, ibans, speaks_of_ibans
from server.redaction.plain import Span, plain, whole_characters

_REMEMBERED_CHARS = 4_000_000
_FIRST_LINES = 2_000
_STRUCTURED = frozenset(("date", "received", "message-id", "in-reply-to", "references"))
"""Header fields whose numbers are no codes."""
Deletion = tuple[int, int, str]
"""Where something is left out, and the mark that stands for it."""
_Key = tuple[bool, str]


class Rewriting:
    """The rules of one content policy, ready to be applied. Safe to share between threads."""

    def __init__(self, policy: ContentPolicy) -> None:
        self._own = [(index, rule.pattern) for index, rule in enumerate(policy.redact) if isinstance(rule, Redaction)]
        self._patterns = Patterns([pattern for _, pattern in self._own]) if self._own else None
        self._codes = "one_time_codes" in policy.redact
        self._cards = "card_numbers" in policy.redact
        self._ibans = "ibans" in policy.redact
        self._links = policy.links
        self._quoted = policy.quoted == "strip"
        suspicious = [pattern for _, pattern in self._own]
        suspicious += [CODE_WORDS] * self._codes + [CARD_LIKE] * self._cards
        suspicious += [LINK_LIKE] * (self._links != "keep")
        self._suspicious = Patterns(suspicious) if suspicious else None
        self._reads_lines_alone = self._patterns is not None and self._patterns.is_anchored
        self._bodies = _Recent(_REMEMBERED_CHARS)

    def message(self, message: MirroredMessage) -> MirroredMessage:
        """The message with its texts rewritten, its preview made anew from what is left, and no HTML."""
        is_about_codes = self._codes and _speaks_of_codes(message.subject)
        # A code may stand in the subject and the words for it in the text, which may still have to be fetched.
        in_subject = self._codes and (message.text is None or _speaks_of_codes(message.text[:_FIRST_LINES]))
        in_others = in_subject or is_about_codes
        changes: dict[str, Any] = {"html": None}
        if message.text is None:
            changes["preview"] = ""
        elif (body := self._body(message.text, is_about_codes)) is not None:
            changes |= {"text": body[0], "preview": body[1]}
        if any(known_media_type(each.media_type) != each.media_type for each in message.attachments):
            kinds = (replace(each, media_type=known_media_type(each.media_type)) for each in message.attachments)
            message = message._replace(attachments=tuple(kinds))
        if in_others or self._reads_lines_alone or self._may_match("\n".join(_short_texts(message))):
            changes |= self._short_texts(message, in_subject, in_others)
        return message._replace(**changes)

    def _short_texts(self, message: MirroredMessage, in_subject: bool, in_others: bool) -> dict[str, Any]:
        """in_subject, in_others: whether codes are everywhere in the subject, in other texts that a writer chooses."""

        def people(addresses: tuple[Address, ...]) -> tuple[Address, ...]:
            return tuple(Address(self._line(each.name, in_others), self._line(each.address)) for each in addresses)

        def header(name: str, value: str) -> str:
            known = name.lower()
            return self._line(value, in_subject if known == "subject" else in_others and known not in _STRUCTURED)

        def identifier(text: str) -> str:
            return text if self._line(text) == text else ""

        return {
            "subject": self._line(message.subject, in_subject),
            "from_": people(message.from_),
            "to": people(message.to),
            "cc": people(message.cc),
            "bcc": people(message.bcc),
            "reply_to": people(message.reply_to),
            "message_id": identifier(message.message_id),
            "in_reply_to": identifier(message.in_reply_to),
            "references": tuple(filter(None, map(identifier, message.references))),
            "attachments": tuple(
                replace(each, filename=self._line(each.filename, in_others), content_id=identifier(each.content_id))
                for each in message.attachments
            ),
            "headers": None
            if message.headers is None
            else tuple((self._line(name), header(name, value)) for name, value in message.headers),
        }

    def _line(self, text: str, has_codes: bool = False) -> str:
        if not text or not (has_codes or self._may_match(text)):
            return text
        return _without(text, self._deletions(text, has_codes))

    def _body(self, text: str, is_about_codes: bool) -> tuple[str, str] | None:
        """A text and its preview as they are shown, None where nothing is left out."""
        if not (self._quoted or is_about_codes or self._may_match(text)):
            return None
        key = (is_about_codes, text)
        found = self._bodies.get(key)
        if found is None:
            deletions = list(self._deletions(text, is_about_codes))
            if self._quoted:
                deletions += [(start, end, QUOTED) for start, end in quoted_spans(text)]
            rewritten = _without(text, deletions)
            found = rewritten, preview_of(rewritten) if deletions else ""
            self._bodies.put(key, found)
        return found if found[0] != text else None

    def _may_match(self, text: str) -> bool:
        read = plain(text).text
        rules = self._suspicious
        if rules is not None and (rules.found_in(text) or (read != text and rules.found_in(read))):
            return True
        return self._ibans and speaks_of_ibans(read)

    def _deletions(self, text: str, is_about_codes: bool) -> Iterator[Deletion]:
        read = plain(text)

        def found(spans: Iterable[Span], mark: str) -> Iterator[Deletion]:
            return ((*read.original(span), mark) for span in spans)

        for place, (index, _) in enumerate(self._own):
            if self._patterns is not None:
                yield from ((*span, mark_of(index)) for span in self._patterns.spans(place, text))
                if read.text != text:
                    yield from found(self._patterns.spans(place, read.text), mark_of(index))
        if self._cards:
            yield from found(card_numbers(read.text), CARD_NUMBER)
        if self._ibans:
            yield from found(ibans(read.text), IBAN)
        if self._codes:
            yield from found(one_time_codes(read.text, everywhere=is_about_codes), ONE_TIME_CODE)
        if self._links != "keep":
            for span, is_whole in link_spans(read.text, keep_domain=self._links == "domain"):
                yield (*read.original(span), LINK if is_whole else LINK_PART)


@lru_cache(maxsize=64)
def rewriting_of(policy: ContentPolicy) -> Rewriting | None:
    """The rules of a policy, None when it shows texts as they are."""
    return Rewriting(policy) if policy.rewrites else None


def _speaks_of_codes(text: str) -> bool:
    return speaks_of_codes(plain(text).text)


def _short_texts(message: MirroredMessage) -> Iterator[str]:
    yield message.subject
    for addresses in (message.from_, message.to, message.cc, message.bcc, message.reply_to):
        for each in addresses:
            yield each.name
            yield each.address
    yield message.message_id
    yield message.in_reply_to
    yield from message.references
    for attachment in message.attachments:
        yield attachment.filename
        yield attachment.content_id
    for name, value in message.headers or ():
        yield name
        yield value


def _without(text: str, deletions: Iterable[Deletion]) -> str:
    """The text with one mark in place of each run of deletions that touch: that of the first."""
    widened = sorted((*whole_characters(text, (start, end)), mark) for start, end, mark in deletions)
    pieces: list[str] = []
    kept_to = -1
    for start, end, mark in widened:
        if start > kept_to or kept_to < 0:
            pieces += [text[max(kept_to, 0) : start], mark]
        kept_to = max(kept_to, end)
    return "".join([*pieces, text[max(kept_to, 0) :]])


class _Recent:
    """Texts rewritten lately, by what they were: so many characters at most, the least recently used go first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._texts: OrderedDict[_Key, tuple[str, str]] = OrderedDict()
        self._chars = 0

    def get(self, key: _Key) -> tuple[str, str] | None:
        with self._lock:
            found = self._texts.get(key)
            if found is not None:
                self._texts.move_to_end(key)
            return found

    def put(self, key: _Key, rewritten: tuple[str, str]) -> None:
        with self._lock:
            if key in self._texts or len(key[1]) > self._most:
                return
            self._texts[key] = rewritten
            self._chars += len(key[1])
            while self._chars > self._most:
                (_, dropped), _ = self._texts.popitem(last=False)
                self._chars -= len(dropped)
