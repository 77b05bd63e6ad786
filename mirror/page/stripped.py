"""Text of HTML that could not be read in time: only of HTML so plain that nothing in it can be hidden."""

import html
import re

from mirror.invisible import Findings, visible
from mirror.page.tags import TAG

_BREAKS = frozenset([
    "p", "br", "div", "ul", "ol", "li", "blockquote", "pre", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "html", "body",
])  # fmt: skip
_KNOWN = _BREAKS | {"a", "b", "i", "u", "em", "strong", "head"}
_LINK = re.compile(r"(?i)\s+href=(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=]+)\s*")


def strip_tags(markup: str, findings: Findings) -> str:
    """Text between the tags; "" and a finding when there is more in it than plain tags and links."""
    shown: list[str] = []
    position = 0
    for match in TAG.finditer(markup):
        name = (match[2] or "").lower()
        is_plain = name in _KNOWN and (not match[3].strip(" /\n") or (name == "a" and _LINK.fullmatch(match[3])))
        if not is_plain or not match[4]:
            findings["html_not_read"] += 1
            return ""
        shown += (markup[position : match.start()], "\n" if name in _BREAKS else "")
        position = match.end()
    text = visible(html.unescape("".join((*shown, markup[position:]))), findings)
    return re.sub(r"\n\s+", "\n", text).strip()
