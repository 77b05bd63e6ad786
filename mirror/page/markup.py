"""The small well-formed HTML that the sanitizer gets: bounded in depth, formatting, escapes and length.

Its nesting is what an HTML5 tree builder expects, so that building the tree again is linear and changes nothing.
"""

import html
from dataclasses import dataclass, field

MAX_HTML = 400_000
MAX_DEPTH = 200
_MAX_FORMATTING = 12
_MAX_ESCAPES = 20_000
# What open formatting elements cost a tree builder at each block inside them.
_FORMATTING_BUDGET = 40_000
_MAX_WORK = 8_000_000
_MAX_ELEMENTS = 25_000

FORMATTING = frozenset(["a", "b", "code", "em", "i", "s", "small", "strong", "u"])
VOID = frozenset(["br", "hr", "img"])
BLOCKS = frozenset([
    "blockquote", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "table", "ul",
])  # fmt: skip
_NEEDS_PARENT = {
    "li": ("ul", "ol"),
    "dd": ("dl",),
    "dt": ("dl",),
    "tr": ("table", "thead", "tbody", "tfoot"),
    "td": ("tr",),
    "th": ("tr",),
    "thead": ("table",),
    "tbody": ("table",),
    "tfoot": ("table",),
    "caption": ("table",),
}
TAGS = FORMATTING | VOID | BLOCKS | _NEEDS_PARENT.keys() | frozenset(["abbr", "q", "sub", "sup"])
_EDGES = BLOCKS | _NEEDS_PARENT.keys() | {"br"}
_BOXES = frozenset(["blockquote", "dd", "li", "td", "th"])
_HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_STRUCTURE = frozenset(["table", "thead", "tbody", "tfoot", "tr"])
_OF_DATA = frozenset(["thead", "tfoot", "caption", "th"])
"""Elements by which a table is more than a layout."""


@dataclass(slots=True)
class _Column:
    """A table that may be nothing but boxes below each other: the pieces that would go, and those of its boxes."""

    rows: int = 0
    is_table: bool = False
    gone: list[int] = field(default_factory=list)
    boxes: list[tuple[int, int]] = field(default_factory=list)


class Markup:
    """HTML that grows by elements and text; what would go over a limit is left out and said by `truncated`."""

    def __init__(self) -> None:
        self.truncated = False
        self._pieces: list[str] = []
        self._length = 0
        self._open: list[tuple[str, int, int]] = []
        self._shown = 0
        self._formatting = 0
        self._paragraphs = 0
        self._budget = _FORMATTING_BUDGET
        self._escapes = 0
        self._links = 0
        self._children = [0]
        self._work = 0
        self._elements = 0
        # (first piece, last piece) of the block, cell and row closed last; for the row its own first piece, too.
        self._closed = (-1, -1)
        self._cell = (-1, -1)
        self._row = (-1, -1, -1)
        self._holds_box = False
        self._columns: list[_Column] = []

    def open(self, tag: str, attributes: str = "") -> bool:
        """Start an element; False when it was left out (then there is nothing to close)."""
        if self._length >= MAX_HTML:
            self.truncated = True
            return False
        open_ones = self._open
        needed = _NEEDS_PARENT.get(tag)
        if needed is not None and not (open_ones and open_ones[-1][0] in needed):
            if tag not in ("li", "dd", "dt"):
                return False
            tag = "div"
        is_formatting = tag in FORMATTING
        if is_formatting:
            if self._formatting >= _MAX_FORMATTING or self._budget <= 0 or (tag == "a" and self._links):
                return False
        elif tag in BLOCKS:
            self._budget -= self._formatting
            if self._paragraphs:
                self._relax_paragraph()
            if tag in _HEADINGS and open_ones and open_ones[-1][0] in _HEADINGS:
                tag = "div"
        if len(open_ones) >= MAX_DEPTH or not self._affords():
            return False
        self._children[-1] += 1
        self._append(f"<{tag}{attributes}>")
        if tag in VOID:
            self._shown += 1
            return False
        if is_formatting:
            self._formatting += 1
            self._links += tag == "a"
        elif tag == "p":
            self._paragraphs += 1
        elif tag == "table":
            self._columns.append(_Column())
        elif tag in _OF_DATA:
            self._columns[-1].is_table = True
        open_ones.append((tag, len(self._pieces) - 1, self._shown))
        self._children.append(0)
        return True

    def close(self) -> None:
        """End the element opened last."""
        tag, opened, shown_before = self._open.pop()
        self._children.pop()
        if tag in FORMATTING:
            self._formatting -= 1
            self._links -= tag == "a"
        elif tag == "p":
            self._paragraphs -= 1
        column = self._columns.pop() if tag == "table" else None
        last = len(self._pieces) - 1
        if self._shown == shown_before and tag not in ("td", "th"):
            del self._pieces[opened:]
        elif tag in FORMATTING:
            self._append(f"</{tag}>")
        elif tag == "div" and self._closed == (opened + 1, last):
            # A box that holds one box and nothing else says no more than that box.
            self._pieces[opened] = ""
            self._closed = (opened, last)
        elif tag == "tbody" and self._row[:2] == (opened + 1, last):
            self._pieces[opened] = ""
            self._row = (opened, last, self._row[2])
        elif column is not None and self._row[:2] == (opened + 1, last):
            self._unpack_cell(opened, self._row[2])
        elif column is not None and column.rows > 1 and not column.is_table:
            self._unpack_column(opened, column)
        else:
            if tag in _BOXES and self._closed == (opened + 1, last) and self._pieces[opened + 1] == "<div>":
                self._pieces[opened + 1] = ""
                self._pieces.pop()
                last -= 1
            self._append(f"</{tag}>")
            if tag in BLOCKS:
                self._closed = (opened, last + 1)
            elif tag in _NEEDS_PARENT:
                self._end_table_part(tag, opened, last)

    def _end_table_part(self, tag: str, opened: int, last: int) -> None:
        """Note a part of a table that ends, and whether the table is still but boxes below each other."""
        if tag in ("td", "th"):
            self._holds_box = self._closed == (opened + 1, last)
            self._cell = (opened, last + 1)
            return
        column = self._columns[-1]
        if tag == "tbody":
            column.gone += (opened, last + 1)
        elif tag == "tr" and self._cell == (opened + 1, last):
            self._row = (opened, last + 1, opened)
            column.rows += 1
            column.gone += (opened, opened + 1, last, last + 1) if self._holds_box else (opened, last + 1)
            column.boxes += [] if self._holds_box else [self._cell]
        else:
            column.is_table = True

    def _unpack_column(self, table: int, column: _Column) -> None:
        """Make a table of single cells, which only lays out, the boxes that it is."""
        for piece in column.gone:
            self._pieces[piece] = ""
        self._append("</table>")
        for opened, closed in (*column.boxes, (table, len(self._pieces) - 1)):
            self._pieces[opened] = "<div>"
            self._pieces[closed] = "</div>"
        self._closed = (table, len(self._pieces) - 1)

    def _unpack_cell(self, table: int, row: int) -> None:
        """Make a table of one cell, which only lays out, the box that it is."""
        holds_one_box = self._closed == (row + 2, len(self._pieces) - 3)
        self._pieces[table] = "" if holds_one_box else "<div>"
        self._pieces[row] = self._pieces[row + 1] = ""
        self._pieces[-2:] = [] if holds_one_box else ["</div>"]
        self._closed = (table, len(self._pieces) - 1)

    def write(self, text: str) -> None:
        """Add text."""
        if (not text or text.isspace()) and not self._separates():
            return
        if self._length >= MAX_HTML:
            self.truncated = self.truncated or bool(text.strip())
            return
        if self._pieces and self._pieces[-1] == "<pre>":
            # A tree builder takes the first line break of <pre> away.
            text = text.lstrip("\n")
        text = text[: MAX_HTML - self._length]
        special = text.count("&") + text.count("<") + text.count(">")
        if special:
            if self._escapes + special > _MAX_ESCAPES:
                text = text.translate({0x26: " ", 0x3C: " ", 0x3E: " "})
                self.truncated = True
            self._escapes += special
            text = html.escape(text, quote=False)
        self._shown += 1
        self._append(text)

    def html(self) -> str:
        """All of it, every element closed."""
        while self._open:
            self.close()
        return "".join(self._pieces)

    def _affords(self) -> bool:
        # html5lib's tree walker looks through all siblings of the parent each time it leaves an element.
        if len(self._children) > 1:
            self._work += self._children[-2]
        self._elements += 1
        if self._work > _MAX_WORK or self._elements > _MAX_ELEMENTS:
            self.truncated = True
            return False
        return True

    def _separates(self) -> bool:
        """Whether a blank here would show: not in the structure of a table, nor beside the edge of a block."""
        if not self._pieces or (self._open and self._open[-1][0] in _STRUCTURE):
            return False
        piece = self._pieces[-1]
        if not piece.startswith("<"):
            return True
        tag = piece.strip("</>").partition(" ")[0]
        return tag not in _EDGES or (self._open and self._open[-1][0] == "pre") is True

    def _append(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def _relax_paragraph(self) -> None:
        # HTML5 ends an open <p> at any block: a paragraph that holds one becomes a <div>.
        for index in range(len(self._open) - 1, -1, -1):
            tag, piece, shown = self._open[index]
            if tag in ("td", "th", "caption", "div"):
                return
            if tag == "p":
                self._pieces[piece] = "<div>"
                self._open[index] = ("div", piece, shown)
                self._paragraphs -= 1
                return
