"""Plain text as a person would see a page: lines, paragraphs, quotes, cells, list items. Not Markdown."""

import re

MAX_TEXT = 400_000
_MAX_QUOTES = 20
_MAX_INDENT = 8
_ANY_BLANK = " \t\r\n\f"
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_SPACES = re.compile(" {2,}")
_CELLS = re.compile(r"[ \u00a0]*\t[\t \u00a0]*")


def _one_spaced(line: str) -> str:
    line = line.strip(" \t\u00a0")
    if "\t" in line:
        line = _CELLS.sub(" | ", line)
    return _SPACES.sub(" ", line) if "  " in line else line


class PlainText:
    """Text that grows by what is shown, at most MAX_TEXT characters of it."""

    def __init__(self) -> None:
        self.length = 0
        self._lines: list[str] = []
        self._line: list[str] = []
        self._quotes = 0
        self._gap = False
        self._preformatted = 0
        self._indent = ""
        self._quotes_above = 0
        self._pictures: list[str] = []

    @property
    def is_full(self) -> bool:
        """The limit is reached; nothing more is taken."""
        return self.length >= MAX_TEXT

    def write(self, text: str) -> None:
        """Add visible text; blanks run together outside preformatted text."""
        if self.length + len(text) > MAX_TEXT:
            text = text[: MAX_TEXT - self.length]
        if not self._line and not self._preformatted and not text.strip(_ANY_BLANK):
            self.length += len(text)  # at the start of a line it would not be seen
            return
        if self._preformatted:
            first, *others = text.split("\n")
            self._line.append(first)
            for line in others:
                self._end_line(keep_empty=True)
                self._line.append(line)
        else:
            is_plain = not ("\n" in text or "  " in text or "\t" in text or "\r" in text or "\f" in text)
            self._line.append(text if is_plain else _BLANKS.sub(" ", text))
        self.length += len(text)

    def line(self) -> None:
        """The next text starts on a new line."""
        if self._line:
            self._end_line()

    def paragraph(self) -> None:
        """The next text starts after an empty line."""
        self.line()
        self._gap = True

    def cell(self) -> None:
        """The next text is another cell of the same row."""
        self._line.append("\t")

    def item(self, mark: str, level: int) -> None:
        """The next text is a list item on that level, from 0."""
        self.line()
        self._indent = "  " * min(level, _MAX_INDENT)
        self.write(f"{mark} ")

    def picture(self, alternative: str) -> None:
        """A picture is shown here that says this; it speaks only where no text does."""
        self._pictures.append(f"[{alternative}]")

    @property
    def is_blank(self) -> bool:
        """No text is shown so far."""
        return not any(line.strip() for line in (*self._lines, *self._line))

    def quote(self, levels: int) -> None:
        """The next text is quoted that many levels more (or less)."""
        self.paragraph()
        self._quotes = max(0, self._quotes + levels)

    def preformatted(self, levels: int) -> None:
        """Line breaks and blanks of the next text count (or no longer count)."""
        self.line()
        self._preformatted = max(0, self._preformatted + levels)

    def mark(self) -> tuple[int, int]:
        """A place to read from with `since`."""
        return len(self._lines), len(self._line)

    def since(self, mark: tuple[int, int]) -> str:
        """What was written since the mark, on one line."""
        lines, pieces = mark
        if lines == len(self._lines):
            return " ".join("".join(self._line[pieces:]).split())
        return " ".join(" ".join([*self._lines[lines : lines + 50], *self._line]).split())

    def text(self) -> str:
        """All of it, without empty lines at either end or two in a row."""
        self.line()
        if self.is_blank:
            return "\n".join(self._pictures)[:MAX_TEXT]
        return re.sub(r"\n(?:>|[ ])*\n(?:(?:> ?)*\n)+", "\n\n", "\n".join(self._lines)).strip("\n")[:MAX_TEXT]

    def _end_line(self, *, keep_empty: bool = False) -> None:
        written = "".join(self._line)
        self._line = []
        shown = written.rstrip() if self._preformatted else _one_spaced(written)
        if shown and not shown.isspace():
            quotes = min(self._quotes, _MAX_QUOTES)
            if self._gap and self._lines:
                self._lines.append(("> " * min(quotes, self._quotes_above)).rstrip())
            self._gap = False
            self._lines.append(f"{'> ' * quotes}{self._indent}{shown}" if quotes or self._indent else shown)
            self._quotes_above = quotes
            self._indent = ""
        elif keep_empty:
            self._gap = True
