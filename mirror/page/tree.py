"""The tree that libxml2 makes of mail HTML, bounded: how much it reads, how many tags, how deep they nest."""

import re

import lxml.etree

from mirror.invisible import Findings
from mirror.page.balance import balanced
from mirror.page.tags import NOT_SHOWN, replaced

MAX_INPUT = 4_000_000
_MAX_TAGS = 250_000
# libxml2 drops everything below level 2,048.
_MAX_NESTED = 1_500
_DOCUMENT_END = re.compile(r"(?i)</(?:body|html)[^<>]{0,200}>")
_TELLING = re.compile(r"(?i)style|class|id\s*=|hidden|popover|href|src|media")
_MAY_HIDE = frozenset(["dialog", "details"])
_NEVER_CLOSED = frozenset([
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
])  # fmt: skip


def parse_html(markup: str, findings: Findings) -> lxml.etree._Element | None:
    """The root element; None when there is nothing in it."""
    markup = _bounded(markup, findings)
    if not markup.strip():
        return None
    # Browsers go on with the body after either; libxml2 stops, and mailing lists put their footers there.
    markup = _DOCUMENT_END.sub("", balanced(markup))
    root, is_cut = _parse(markup)
    if is_cut:
        root, is_cut = _parse(_flattened(markup))
        findings["truncated_depth"] += is_cut
    return root


def _bounded(markup: str, findings: Findings) -> str:
    markup = markup.replace("\0", "")
    if len(markup) > MAX_INPUT:
        markup = markup[:MAX_INPUT]
        findings["truncated_input"] += 1
    if markup.count("<") > _MAX_TAGS:
        markup = "<".join(markup.split("<", _MAX_TAGS)[:-1])
        findings["truncated_input"] += 1
    return markup


def _parse(markup: str) -> tuple[lxml.etree._Element | None, bool]:
    """The root element, and whether what nests too deep was cut."""
    parser = lxml.etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = lxml.etree.fromstring(markup.encode("utf-8", "replace"), parser)
    except (lxml.etree.ParserError, lxml.etree.XMLSyntaxError):
        return None, False
    if root is None:
        return None, False
    last = parser.error_log.last_error
    return root, last is not None and last.type_name == "ERR_RESOURCE_LIMIT"


def _flattened(markup: str) -> str:
    """The markup without those deeply nested tags that say nothing about what is shown; their text stays.

    Where a style sheet may hide any element by its name, all tags stay, and the parser drops what is too deep.
    """
    if "<style" in markup.lower():
        return markup
    depth = 0
    dropped: dict[str, list[bool]] = {}

    def kept(match: re.Match[str]) -> str:
        nonlocal depth
        closing, name, attributes = match[1], match[2].lower(), match[3]
        if name in _NEVER_CLOSED:
            return match[0]
        open_ones = dropped.setdefault(name, [])
        if closing:
            if open_ones and open_ones.pop():
                return " "
            depth = max(0, depth - 1)
            return match[0]
        is_dropped = (
            depth >= _MAX_NESTED and name not in NOT_SHOWN and name not in _MAY_HIDE and not _TELLING.search(attributes)
        )
        open_ones.append(is_dropped)
        depth += not is_dropped
        return " " if is_dropped else match[0]

    return replaced(markup, kept)
