"""Text of HTML that could not be read in time: tags cut away, in one cheap pass, and nothing that might be hidden."""

import html
import re

from mirror.invisible import Findings, visible

_NOT_SHOWN = frozenset([
    "head", "iframe", "noscript", "object", "option", "script", "select", "style", "svg", "template", "textarea",
    "title", "xml",
])  # fmt: skip
_NAME = re.compile(r"/?[a-zA-Z][\w:-]*")
# With any of these in it, only a real reading could tell what a person sees.
_MAY_HIDE = re.compile(
    r"(?i)display|visib|opacity|font|hid|indent|left|top|clip|transform|overflow|colou?r|\\|class\s*="
)


def strip_tags(markup: str, findings: Findings) -> str:
    """Text between the tags; "" when styles or attributes could hide a part of it."""
    if _MAY_HIDE.search(markup):
        return ""
    shown: list[str] = []
    within = ""
    first, *pieces = markup.split("<")
    shown.append(first)
    for piece in pieces:
        match = _NAME.match(piece)
        name = match[0].lower() if match else ""
        if within:
            within = "" if name == f"/{within}" else within
        elif name in _NOT_SHOWN:
            within = name
        if not within:
            shown.append("\n" if name not in ("a", "/a", "b", "/b", "i", "/i", "span", "/span") else "")
            shown.append(piece.partition(">")[2])
    text = visible(html.unescape("".join(shown)), findings)
    return re.sub(r"\n\s+", "\n", text).strip()
