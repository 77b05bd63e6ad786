"""Links in a plain text, and what of each is left out."""

import re
from collections.abc import Iterator

from config.pattern import Patterns
from server.redaction.plain import Span

LINK_LIKE = r"(?i)(?:[a-z][a-z0-9+.-]{1,30}:|www\.)[^\s<>\"]|[a-z0-9-]\.[a-z]{2,24}(?::[0-9]+)?[/?#]"
"""For RE2: what any link matches."""
_SCHEMES = (
    r"(?:https?|ftps?|sftp|file|wss?|ssh|git|data|javascript|vbscript|cid|tel|sms|mailto|magnet):/{0,3}"
    r"|[a-z][a-z0-9+.-]{1,30}:///?"
)
_LINKS = Patterns(
    [
        rf"(?i)(?:{_SCHEMES})[^\s<>\"]+|www\.[^\s<>\"]+"
        r"|(?:[a-z0-9][a-z0-9-]{0,62}\.){1,8}[a-z]{2,24}(?::[0-9]{1,5})?[/?#][^\s<>\"]*"
    ]
)
_SCHEME = re.compile(rf"(?i)(?:{_SCHEMES})?")
_TRAILING = ".,;:!?)]}'*_"
_WITHOUT_HOST = ("data:", "javascript:", "vbscript:", "cid:", "magnet:")


def link_spans(text: str, *, keep_domain: bool) -> Iterator[tuple[Span, bool]]:
    """What of each link is left out, and whether that is the whole link.

    keep_domain: leave out what stands before the domain (user names, passwords) and what follows it, and no more; of
    links that have none, leave out everything after the scheme.
    """
    for start, end in _LINKS.spans(0, text):
        link = text[start:end].rstrip(_TRAILING)
        if not keep_domain:
            is_enclosed = text[start - 1 : start] == "<" and text[end : end + 1] == ">"
            yield (start - 1, end + 1) if is_enclosed else (start, start + len(link)), True
            continue
        scheme = _SCHEME.match(link)
        at = 0 if scheme is None else scheme.end()
        for first, last in _beyond_domain(link[at:], link[:at].lower()):
            yield (start + at + first, start + at + last), False


def _beyond_domain(rest: str, scheme: str) -> Iterator[Span]:
    if scheme.startswith(_WITHOUT_HOST):
        yield 0, len(rest)
        return
    if scheme.startswith(("mailto:", "tel:", "sms:")):
        end = rest.find("?")
        if 0 <= end < len(rest) - 1:
            yield end + 1, len(rest)
        return
    end = next((index for index, character in enumerate(rest) if character in "/?#\\"), len(rest))
    user, at, _ = rest[:end].rpartition("@")
    if at and user:
        yield 0, len(user)
    if end < len(rest) - 1:
        yield end + 1, len(rest)
