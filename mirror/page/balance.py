"""Tags put the way an HTML5 tree builder reads them, where libxml2 would read them otherwise.

What ends a hidden element decides what a person sees. libxml2 lets stray end tags and table parts outside tables end
it, and forgets formatting elements that a block left open; a browser does neither. One linear pass over the tags drops
what a browser ignores and opens again what it carries on.
"""

import re

from mirror.page.nesting import CLOSES_P, FORMATTING, HEADINGS, VOID, as_written
from mirror.page.tags import replaced

# Words first: a search for one is a hundred times as fast as the pattern.
_WORDS = (
    "display", "visib", "hidden", "opacity", "mso-hide", ":-", ": -", "clip", "overflow", "scale", "zoom", "translate",
    "font-size", "font:", "\\", "/*", "contain", "transform", "rotate", "filter", "inset", "popover", "dialog",
    "(", "&", ":+", "000", "e+",
)  # fmt: skip
_MAY_HIDE = re.compile(
    r"display\s*:\s*(?:none|var)|visibility\s*:\s*[hcv]|\shidden[\s>=/]|opacity\s*:|mso-hide|popover|<dialog|"
    r"(?:indent|left|top|right|bottom|start|end|margin)\s*:[^;\"'}]{0,30}-[\d.]|clip(?:-path)?\s*:|overflow|"
    r"contain\s*:|(?:scale|zoom)[xyz3d]*\s*[:(]|translate|transform|rotate|filter|inset|"
    r"font-size\s*:\s*(?:[+0-2](?!\d)|\.)|font\s*:[^;\"'}]{0,40}(?<![1-9])[0-2](?!\d)|\\|/\*|"
    r"(?:calc|var|min|max|clamp)\(|:\s*\+?\d{4}|\de\d|\de\+|content-v|"
    # Letters and signs of a style, written as character references.
    r"&#(?:x0*[2-7][0-9a-f](?![0-9a-f])|0*(?:4\d|5\d|6[145-9]|[7-9]\d|1[012]\d)(?!\d))|"
    r"&(?:colon|tab|newline|semi|lpar|rpar|period|num|sol|bsol|lowbar|hyphen|dash)"
)
_TABLE_PARTS = frozenset(["caption", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"])
_CELLS = frozenset(["td", "th", "caption"])
_SECTIONS = frozenset(["tbody", "thead", "tfoot"])
_SCOPE = frozenset(["table", "td", "th", "caption", "html", "object", "template", "marquee", "applet"])
_FORGOTTEN = {
    "p": ("b", "big", "i", "s", "small", "strike", "tt", "u"),
    "center": ("b", "font", "i"),
    "table": ("a",),
    "fieldset": ("a",),
}
_SPECIAL = CLOSES_P | _TABLE_PARTS | _SCOPE
_CARRIED = re.compile(r"(?i)style|class|\bid\b|hidden")
_NEXT_TAG = re.compile(r"\s{0,200}<[a-zA-Z/]")
_MAX_SEARCHED = 300
_MAX_CARRIED = 3


def balanced(markup: str) -> str:
    """The markup with its tags put right; as it is when nothing in it can hide anything."""
    lowered = markup.lower()
    if not any(word in lowered for word in _WORDS) or not _MAY_HIDE.search(lowered):
        return markup
    nested = as_written(markup)
    return put_right(markup) if nested is None else nested


def put_right(markup: str) -> str:
    """The markup with every tag that does not nest put where a browser takes it to be."""
    return replaced(markup, _Reading().put)


_Entry = tuple[str, str]
"""An element that is open: its name (with a slash when its end tag has come already) and its tag as written."""


class _Reading:
    """The elements that are open at a place in the markup."""

    def __init__(self) -> None:
        self.open: list[_Entry] = []
        self.has_body = False
        self.waiting: list[_Entry] = []

    def put(self, match: re.Match[str]) -> str:
        """What stands in place of a tag."""
        markup, closing, name = match.string, match[1], match[2].lower()
        waited = ""
        if self.waiting and (closing or name not in _SPECIAL):
            waited = self._carry_on(self.waiting)
            self.waiting = []
        if name in ("html", "head", "body"):
            return waited + self._document(name, closing, match[0])
        if name in VOID and name != "hr":
            return waited + match[0]
        if closing:
            return waited + self._end(name, match[0], goes_on_with_tag=_NEXT_TAG.match(markup, match.end()) is not None)
        return waited + self._start(name, match[0])

    def _document(self, name: str, closing: str, tag: str) -> str:
        """The tags of the document itself end nothing; a second body adds its attributes to the first."""
        if closing or self.open or (name == "body" and self.has_body):
            if closing or name != "body" or not _CARRIED.search(tag):
                return ""
            self.open.append(("body", tag))
            return f"<div{tag[5:]}"
        self.has_body = self.has_body or name == "body"
        return tag

    def _start(self, name: str, tag: str) -> str:
        carried: list[_Entry] = []
        if name in _TABLE_PARTS:
            if not self._is_open("table", ()):
                return ""
            self._end_table_parts(name)
        else:
            if name in CLOSES_P and self._is_open("p", _SCOPE):
                carried = self._pop_to("p")
            if name in ("li", "dd", "dt"):
                carried += self._pop_item(name)
            elif name in HEADINGS and self.open and self.open[-1][0] in HEADINGS:
                self.open.pop()
            carried = self.waiting + self._pop_forgotten(name) + carried
        self.waiting = []
        if name != "hr":
            self.open.append((name, tag))
        return tag + self._carry_on(carried)

    def _end(self, name: str, tag: str, *, goes_on_with_tag: bool) -> str:
        scope = ("table",) if name in _TABLE_PARTS else () if name == "table" else _SCOPE
        if name in HEADINGS:
            name = next((open_name for open_name, _ in reversed(self.open[-20:]) if open_name in HEADINGS), name)
            tag = f"</{name}>"
        if not self._is_open(name, scope):
            return ""
        if name in FORMATTING:
            return self._end_formatting(name, tag)
        if name not in _SPECIAL and self._holds_special(name):
            return ""
        carried = self._pop_to(name)
        tag += self._late_ends()
        if name in _SCOPE or not carried:
            return tag
        if goes_on_with_tag:
            self.waiting = carried
            return tag
        return tag + self._carry_on(carried)

    def _holds_special(self, name: str) -> bool:
        """Whether a block is open within the innermost element of this name: then its end tag ends nothing."""
        for open_name, _ in reversed(self.open[-_MAX_SEARCHED:]):
            if open_name == name:
                return False
            if open_name in _SPECIAL:
                return True
        return False

    def _end_formatting(self, name: str, tag: str) -> str:
        """End formatting now or, where a block was opened within it, when that block has ended."""
        is_innermost = True
        for index in range(len(self.open) - 1, -1, -1):
            open_name = self.open[index][0]
            if open_name == name and is_innermost:
                del self.open[index]
                return tag
            if open_name == name:
                self.open[index] = (f"/{name}", "")
                return ""
            is_innermost = is_innermost and (open_name in FORMATTING or open_name == "span")
        return ""

    def _late_ends(self) -> str:
        """The end tags of formatting that a block kept open, now that the block has ended."""
        ends = ""
        while self.open and self.open[-1][0].startswith("/"):
            ends += f"<{self.open.pop()[0]}>"
        return ends

    def _is_open(self, name: str, scope: frozenset[str] | tuple[str, ...]) -> bool:
        for open_name, _ in reversed(self.open[-_MAX_SEARCHED:]):
            if open_name == name:
                return True
            if open_name in scope:
                return False
        return False

    def _carry_on(self, carried: list[_Entry]) -> str:
        self.open.extend(carried[-_MAX_CARRIED:])
        return "".join(tag for _, tag in carried[-_MAX_CARRIED:])

    def _pop_to(self, name: str) -> list[_Entry]:
        """Close the innermost element of this name; what formatting within it a browser carries on."""
        carried: list[_Entry] = []
        while self.open:
            entry = self.open.pop()
            if entry[0] == name:
                break
            if entry[0] in FORMATTING and _CARRIED.search(entry[1]):
                carried.insert(0, entry)
        return carried

    def _pop_forgotten(self, name: str) -> list[_Entry]:
        """The formatting that libxml2 ends at the start of this element, though a browser does not."""
        forgotten: list[_Entry] = []
        while self.open and self.open[-1][0] in _FORGOTTEN.get(name, ()):
            entry = self.open.pop()
            if _CARRIED.search(entry[1]):
                forgotten.insert(0, entry)
        return forgotten

    def _pop_item(self, name: str) -> list[_Entry]:
        names = ("li",) if name == "li" else ("dd", "dt")
        for open_name, _ in reversed(self.open[-_MAX_SEARCHED:]):
            if open_name in names:
                return self._pop_to(open_name)
            if open_name not in FORMATTING and open_name not in ("address", "div", "p", "span"):
                break
        return []

    def _end_table_parts(self, name: str) -> None:
        ended = _CELLS if name in _CELLS else _CELLS | {"tr"} if name == "tr" else _CELLS | _SECTIONS | {"tr"}
        for part in ("caption", "td", "th", "tr", "tbody", "thead", "tfoot"):
            if part in ended and self._is_open(part, ("table",)):
                self._pop_to(part)
