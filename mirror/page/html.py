"""Raw HTML of a mail to what a person sees of it: plain text, and a small well-formed HTML for the sanitizer.

One linear walk over libxml2's tree. Mail HTML never goes to an HTML5 tree builder as it is: small inputs keep those
busy for minutes. Active and hidden elements are left out with all they hold, and counted.
"""

import html
import re
from dataclasses import dataclass, field

import lxml.etree
import lxml.html

from mirror.invisible import Findings, one_line, visible
from mirror.page.css import HIDDEN, MAX_STYLE, PLAIN, look_of
from mirror.page.inherited import Inherited, with_old_attributes
from mirror.page.markup import BLOCKS, TAGS, Markup
from mirror.page.media import applies
from mirror.page.plain import PlainText
from mirror.page.stylesheet import MAX_WORK, OutOfWork, StyleSheet
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


def _sheet(root: lxml.html.HtmlElement, work: int) -> StyleSheet:
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


class _Walk:
    """The walk over one document, with what it has found."""

    def __init__(self, sheet: StyleSheet, page: Page, findings: Findings) -> None:
        self.sheet = sheet
        self.page = page
        self.text = page.text
        self.markup = page.markup
        self.findings = findings
        self.state = Inherited()
        self.hidden_depth = 0
        self.dropped_depth = 0
        self.lists: list[int] = []
        self.links: list[tuple[tuple[int, int], str, int]] = []
        self.pictures = 0
        self.is_cut = False
        self.targets: set[str] = set()

    def through(self, root: lxml.html.HtmlElement) -> None:
        """Visit every element under the root, at most MAX_NODES for a page."""
        stack: list[tuple[Inherited, bool, bool, bool]] = []
        for event, element in lxml.etree.iterwalk(root, events=("start", "end")):
            if event == "start":
                self.page.nodes += 1
                if self.page.nodes > MAX_NODES:
                    self.findings["truncated_nodes"] += 1
                    break
                before = self.state
                is_dropped, is_hidden = self._start(element)
                is_open = not (self.dropped_depth or self.hidden_depth) and self._open(element)
                stack.append((before, is_dropped, is_hidden, is_open))
                if self.sheet:
                    self.sheet.opened(element, 1)
                if element.text:
                    self._write(element.text)
            else:
                before, is_dropped, is_hidden, is_open = stack.pop()
                if self.sheet:
                    self.sheet.opened(element, -1)
                if not (self.dropped_depth or self.hidden_depth):
                    self._end(element.tag)
                if is_open:
                    self.markup.close()
                self.dropped_depth -= is_dropped
                self.hidden_depth -= is_hidden
                self.state = before
                if element.tail:
                    self._write(element.tail)
        self.findings["truncated_style"] += self.is_cut
        for *_, is_open in stack:
            if is_open:
                self.markup.close()

    def _start(self, element: lxml.html.HtmlElement) -> tuple[bool, bool]:
        tag = element.tag
        if self.dropped_depth or tag in NOT_SHOWN or tag.startswith(_DROPPED_PREFIXES):
            self.dropped_depth += 1
            return True, False
        attributes = element.attrib
        is_hidden = "hidden" in attributes or "popover" in attributes or (tag == "dialog" and "open" not in attributes)
        if attributes or self.sheet:
            style = attributes.get("style", "")
            is_hidden = is_hidden or len(style) > MAX_STYLE
            if self.sheet and not is_hidden and not self.hidden_depth:
                try:
                    style = f"{self.sheet.declarations(element)};{style}"
                except OutOfWork:
                    is_hidden = self.sheet.may_hide
                    self.is_cut = True
            if "overflow" in style and ("width" in attributes or "height" in attributes):
                style = f"width:{attributes.get('width', 'auto')};height:{attributes.get('height', 'auto')};{style}"
            look = PLAIN if not style.strip(";") else HIDDEN if is_hidden else look_of(style)
            if attributes:
                look = with_old_attributes(look, element)
            if look is not PLAIN:
                self.state = self.state.under(look)
                is_hidden = is_hidden or look.hides
        self.hidden_depth += is_hidden
        return False, is_hidden

    def _open(self, element: lxml.html.HtmlElement) -> bool:
        tag = element.tag
        text = self.text
        self._break(tag)
        attributes = ""
        if tag in ("td", "th"):
            text.cell()
            attributes = _spans(element)
        elif tag == "a":
            url = allowed_url(element.get("href", ""), self.findings)
            self.links.append((text.mark(), url, self.pictures))
            attributes = f' href="{html.escape(url)}"' if url else ""
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
        tag = _RENAMED.get(tag, tag)
        return tag in TAGS and not (tag == "a" and not attributes) and self.markup.open(tag, attributes)

    def _end(self, tag: str) -> None:
        text = self.text
        if tag == "a" and self.links:
            mark, url, pictures_before = self.links.pop()
            if url and not self.state.is_hidden:
                shown = text.since(mark)
                if not shown:
                    # A linked picture: its target once, not at every slice of the picture.
                    if self.pictures > pictures_before and url not in self.targets:
                        text.write(f"<{url}>")
                elif shown.rstrip("/") not in (url.rstrip("/"), _SCHEME.sub("", url).rstrip("/")):
                    text.write(f" <{url}>")
                self.targets.add(url)
        elif tag == "blockquote":
            text.quote(-1)
        elif tag == "pre":
            text.preformatted(-1)
        elif tag in ("ul", "ol") and self.lists:
            self.lists.pop()
        self._break(tag)

    def _break(self, tag: str) -> None:
        """Break the line where an element starts or ends."""
        if tag in _PARAGRAPHS and not (tag in ("ul", "ol") and self.lists):
            self.text.paragraph()
        elif tag in _BREAKS_LINE and not (tag == "br" and self.state.is_hidden):
            self.text.line()

    def _item(self) -> None:
        if self.state.is_hidden:
            return
        mark = "-"
        if self.lists and self.lists[-1] >= 0:
            self.lists[-1] += 1
            mark = f"{self.lists[-1]}."
        self.text.item(mark, max(0, len(self.lists) - 1))

    def _image(self, element: lxml.html.HtmlElement) -> bool:
        source = element.get("src", "").strip()
        attributes = ""
        if source.lower().startswith("cid:"):
            attributes = f' src="{html.escape(one_line(source, _MAX_QUOTED_ALT, self.findings))}"'
        elif _REMOTE.match(source):
            self.findings["remote_images"] += 1
        if not self.state.invisible and not _is_dot(element):
            self.pictures += 1
            alternative = one_line(element.get("alt", "")[:_MAX_QUOTED_ALT], _MAX_QUOTED_ALT, self.findings)
            if alternative:
                attributes += f' alt="{html.escape(alternative)}"'
                self.text.picture(alternative)
        return bool(attributes) and self.markup.open("img", attributes)

    def _write(self, text: str) -> None:
        if self.dropped_depth:
            return
        if self.hidden_depth or self.state.is_hidden:
            self.findings["hidden_chars"] += len(text.strip())
            return
        text = visible(text, self.findings)
        if self.state.is_low_contrast:
            self.findings["low_contrast_chars"] += len(text.strip())
        self.text.write(text)
        self.markup.write(text)


def _is_dot(element: lxml.html.HtmlElement) -> bool:
    return any(element.get(side, "").strip().rstrip("px") in ("0", "1", "2") for side in ("width", "height"))


def _spans(element: lxml.html.HtmlElement) -> str:
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
