"""Raw HTML of a mail to what a person sees of it: plain text, and a small well-formed HTML for the sanitizer.

One linear walk over libxml2's tree. Mail HTML never goes to an HTML5 tree builder as it is: small inputs keep those
busy for minutes. Active and hidden elements are left out with all they hold, and counted.
"""

import html
import re
from dataclasses import dataclass, field

import lxml.etree
from lxml.etree import _Element as Element

from mirror.invisible import Findings, one_line, visible
from mirror.page.css import PLAIN
from mirror.page.inherited import Inherited
from mirror.page.looks import Looks
from mirror.page.markup import BLOCKS, TAGS, Markup
from mirror.page.media import applies
from mirror.page.plain import PlainText
from mirror.page.stylesheet import MAX_WORK, StyleSheet
from mirror.page.tags import NOT_SHOWN
from mirror.page.tree import parse_html

MAX_NODES = 60_000
_MAX_URL = 2_000
_DROPPED_PREFIXES = ("v:", "w:", "m:")
_BREAKS_LINE = BLOCKS | frozenset([
    "address", "article", "aside", "body", "center", "details", "dialog", "fieldset", "figcaption", "figure",
    "footer", "form", "header", "html", "legend", "main", "menu", "nav", "section", "summary", "table", "tbody",
    "tfoot", "thead", "tr", "caption", "br",
])  # fmt: skip
_PARAGRAPHS = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "dl", "pre"])
_TOLD_APART = frozenset(["td", "th", "a", "img", "blockquote", "pre", "ul", "ol", "li", "hr"])
"""Elements that mean more than a line break."""
_RENAMED = {
    "strike": "s",
    "del": "s",
    "ins": "u",
    "tt": "code",
    "samp": "code",
    "kbd": "code",
    "big": "",
    "center": "div",
}
ALLOWED_URL = re.compile(r"(?i)(?:https?://|mailto:|tel:)")
_SCHEME = re.compile(r"(?i)^(?:https?://|mailto:|tel:)")
_REMOTE = re.compile(r"(?i)(?:https?:)?//")
_URL_NOISE = re.compile(r"[\s<>\"'`\\\x00-\x20]+")
_MAX_QUOTED_ALT = 300
_ANY_BLANK = " \t\r\n"


@dataclass(slots=True)
class Page:
    """What is shown of a mail: its text, its small HTML, and how many elements were read for them.

    work: the tests of selectors that are left.
    """

    text: PlainText = field(default_factory=PlainText)
    markup: Markup = field(default_factory=Markup)
    nodes: int = 0
    work: int = MAX_WORK


def read_html(markup: str, page: Page, findings: Findings) -> None:
    """Add what is shown of the markup to the page."""
    root = parse_html(markup, findings)
    if root is not None:
        page.text.paragraph()
        sheet = _sheet(root, page.work)
        _Walk(sheet, page, findings).through(root)
        page.work = max(0, sheet.work)


def _sheet(root: Element, work: int) -> StyleSheet:
    styles: list[str] = []
    for style in root.iter("style"):
        css = style.text or ""
        media = style.get("media", "")
        holds = applies(f"@media {media}") if media.strip() else True
        if holds is not False:
            # A block that is not closed ends with its style block.
            styles.append(f"@layer x{{{css}" if holds is None else css)
            styles.append("}" * max(0, styles[-1].count("{") - styles[-1].count("}")))
    return StyleSheet("\n".join(styles), work)


_NOTHING, _LINE, _LINE_BREAK, _PARAGRAPH, _LIST = range(5)
"""What an element breaks where it starts and ends."""
_Kind = tuple[bool, int, bool, str]
"""Of an element: is it no part of the page, what does it break, is it told apart, which one does it become."""


def _kind_of(tag: str) -> _Kind:
    breaks = _NOTHING
    if tag in _BREAKS_LINE:
        breaks = _LIST if tag in ("ul", "ol") else _PARAGRAPH if tag in _PARAGRAPHS else _LINE
    becomes = _RENAMED.get(tag, tag)
    return (
        tag in NOT_SHOWN or tag.startswith(_DROPPED_PREFIXES),
        _LINE_BREAK if tag == "br" else breaks,
        tag in _TOLD_APART,
        becomes if becomes in TAGS else "",
    )


_KINDS = {tag: _kind_of(tag) for tag in TAGS | _BREAKS_LINE | NOT_SHOWN | _RENAMED.keys() | {"font", "span"}}
_SHOWN, _WRITTEN, _HIDDEN, _DROPPED = range(4)
"""What becomes of an element: its text counts, so does its markup, it is hidden, it is no part of the page."""


class _Walk:
    """The walk over one document, with what it has found."""

    def __init__(self, sheet: StyleSheet, page: Page, findings: Findings) -> None:
        self.sheet = sheet
        self.page = page
        self.text = page.text
        self.markup = page.markup
        self.findings = findings
        self.state = Inherited()
        self.lists: list[int] = []
        self.links: list[tuple[tuple[int, int], str, int]] = []
        self.pictures = 0
        self.targets: set[str] = set()

    def through(self, root: Element) -> None:
        """Visit every element under the root, at most MAX_NODES for a page."""
        looks = Looks(self.sheet)
        opened = self.sheet.opened if self.sheet else None
        markup = self.markup
        stack: list[tuple[Inherited, int, int, bool]] = []
        dropped = hidden = 0
        nodes_left = MAX_NODES - self.page.nodes
        for event, element in lxml.etree.iterwalk(root, events=("start", "end")):
            if event == "start":
                nodes_left -= 1
                if nodes_left < 0:
                    self.findings["truncated_nodes"] += 1
                    break
                tag = element.tag
                before = self.state
                is_dropped, breaks, is_told_apart, becomes = _KINDS.get(tag) or _kind_of(tag)
                if dropped or is_dropped:
                    fate = _DROPPED
                    dropped += 1
                elif hidden:
                    fate = _HIDDEN
                    hidden += 1
                else:
                    look, hides = looks.of(element, tag)
                    if look is not PLAIN:
                        self.state = before.under(look)
                    if hides:
                        fate = _HIDDEN
                        hidden = 1
                    else:
                        if breaks:
                            self._break(breaks)
                        if is_told_apart:
                            is_written = self._open(element, tag, becomes)
                        else:
                            is_written = becomes != "" and markup.open(becomes)
                        fate = _WRITTEN if is_written else _SHOWN
                    if opened is not None:
                        opened(element, 1)
                stack.append((before, fate, breaks, is_told_apart))
                text = element.text
            else:
                before, fate, breaks, is_told_apart = stack.pop()
                if fate == _DROPPED:
                    dropped -= 1
                elif fate == _HIDDEN:
                    hidden -= 1
                else:
                    if is_told_apart:
                        self._end(element.tag)
                    if breaks:
                        self._break(breaks)
                    if fate == _WRITTEN:
                        markup.close()
                if opened is not None and not dropped and not hidden and fate != _DROPPED:
                    opened(element, -1)
                self.state = before
                text = element.tail
            if text and not dropped:
                if hidden or self.state.is_hidden:
                    self.findings["hidden_chars"] += len(text.strip())
                else:
                    self._write(text)
        self.page.nodes = MAX_NODES - nodes_left
        self.findings["truncated_style"] += looks.is_cut
        for _, fate, _, _ in stack:
            if fate == _WRITTEN:
                self.markup.close()

    def _open(self, element: Element, tag: str, becomes: str) -> bool:
        """Begin an element that is told apart; whether its markup is to be closed again."""
        text = self.text
        attributes = ""
        if tag in ("td", "th"):
            text.cell()
            attributes = _spans(element)
        elif tag == "a":
            url = allowed_url(element.get("href", ""), self.findings)
            self.links.append((text.mark(), url, self.pictures))
            if not url:
                return False
            attributes = f' href="{html.escape(url)}"'
        elif tag == "img":
            return self._image(element)
        elif tag == "blockquote":
            text.quote(1)
        elif tag == "pre":
            text.preformatted(1)
        elif tag in ("ul", "ol"):
            self.lists.append(0 if tag == "ol" else -1)
        elif tag == "li":
            self._item()
        elif tag == "hr" and not self.state.is_hidden:
            text.write("----")
            text.line()
        return self.markup.open(becomes, attributes)

    def _end(self, tag: str) -> None:
        """End an element that is told apart."""
        if tag == "a" and self.links:
            self._end_link(*self.links.pop())
        elif tag == "blockquote":
            self.text.quote(-1)
        elif tag == "pre":
            self.text.preformatted(-1)
        elif tag in ("ul", "ol") and self.lists:
            self.lists.pop()

    def _end_link(self, mark: tuple[int, int], url: str, pictures_before: int) -> None:
        if not url or self.state.is_hidden:
            return
        shown = self.text.since(mark)
        if not shown:
            # A linked picture: its target once, not at every slice of the picture.
            if self.pictures > pictures_before and url not in self.targets:
                self.text.write(f"<{url}>")
        elif shown.rstrip("/") not in (url.rstrip("/"), _SCHEME.sub("", url).rstrip("/")):
            self.text.write(f" <{url}>")
        self.targets.add(url)

    def _break(self, breaks: int) -> None:
        """Break the line, or more, where an element starts or ends."""
        if breaks == _PARAGRAPH or (breaks == _LIST and not self.lists):
            self.text.paragraph()
        elif breaks != _LINE_BREAK or not self.state.is_hidden:
            self.text.line()

    def _item(self) -> None:
        if self.state.is_hidden:
            return
        mark = "-"
        if self.lists and self.lists[-1] >= 0:
            self.lists[-1] += 1
            mark = f"{self.lists[-1]}."
        self.text.item(mark, max(0, len(self.lists) - 1))

    def _image(self, element: Element) -> bool:
        source = element.get("src", "").strip()
        attributes = ""
        if source[:4].lower() == "cid:":
            attributes = f' src="{html.escape(one_line(source, _MAX_QUOTED_ALT, self.findings))}"'
        elif _REMOTE.match(source):
            self.findings["remote_images"] += 1
        if not self.state.invisible and not _is_dot(element):
            self.pictures += 1
            if alternative := element.get("alt"):
                alternative = one_line(alternative[:_MAX_QUOTED_ALT], _MAX_QUOTED_ALT, self.findings)
            if alternative:
                attributes += f' alt="{html.escape(alternative)}"'
                self.text.picture(alternative)
        return bool(attributes) and self.markup.open("img", attributes)

    def _write(self, text: str) -> None:
        if text.strip(_ANY_BLANK):
            text = visible(text, self.findings)
            if self.state.is_low_contrast:
                self.findings["low_contrast_chars"] += len(text.strip())
        self.text.write(text)
        self.markup.write(text)


def _is_dot(element: Element) -> bool:
    return any(element.get(side, "").strip().rstrip("px") in ("0", "1", "2") for side in ("width", "height"))


def _spans(element: Element) -> str:
    attributes = ""
    for name in ("colspan", "rowspan"):
        value = element.get(name, "")
        if value.isascii() and value.isdigit() and len(value) < 4:
            attributes += f' {name}="{value}"'
    return attributes


def allowed_url(url: str, findings: Findings) -> str:
    """The URL when a link may carry it (http, https, mailto, tel), else ""."""
    url = url[: _MAX_URL * 2].strip()
    if not ALLOWED_URL.match(url):
        return ""
    return _URL_NOISE.sub("", visible(url, findings))[:_MAX_URL]
