"""Style declarations as a browser takes them: what is invalid does not count, what comes later wins."""

import re

from tinycss2.color4 import parse_color

from mirror.page.lengths import NUMBER, number, pixels

_NAMES = frozenset([
    "display", "visibility", "opacity", "font", "font-size", "color", "background", "background-color",
    "background-image", "overflow", "overflow-x", "overflow-y", "contain", "height", "width", "max-height",
    "max-width", "min-height", "min-width", "block-size", "inline-size", "max-block-size", "max-inline-size",
    "text-indent", "left", "top", "right", "bottom", "inset", "inset-inline", "inset-block", "inset-inline-start",
    "inset-inline-end", "inset-block-start", "inset-block-end", "margin", "margin-left", "margin-top",
    "margin-inline", "margin-inline-start", "margin-block", "margin-block-start", "clip", "clip-path",
    "-webkit-clip-path", "transform", "-webkit-transform", "-moz-transform", "translate", "rotate", "filter",
    "-webkit-filter", "mso-hide", "content-visibility", "position", "scale", "zoom", "-webkit-text-fill-color",
])  # fmt: skip
_ANY = frozenset(["inherit", "initial", "unset", "revert", "revert-layer"])
_DISPLAYS = frozenset([
    "none", "block", "inline", "inline-block", "inline-table", "inline-flex", "inline-grid", "table", "table-row",
    "table-cell", "table-caption", "table-column", "table-column-group", "table-row-group", "table-header-group",
    "table-footer-group", "flex", "grid", "list-item", "contents", "flow-root", "flow", "run-in", "ruby", "-webkit-box",
    "-webkit-inline-box", "-webkit-flex", "-webkit-inline-flex",
])  # fmt: skip
_WORDS = {
    "display": _DISPLAYS,
    "visibility": frozenset(["visible", "hidden", "collapse"]),
    "content-visibility": frozenset(["visible", "hidden", "auto"]),
    "mso-hide": frozenset(["all", "none", "screen"]),
    "position": frozenset(["static", "relative", "absolute", "fixed", "sticky", "-webkit-sticky"]),
    "contain": frozenset(["none", "strict", "content", "size", "inline-size", "layout", "style", "paint"]),
} | dict.fromkeys(
    ("overflow", "overflow-x", "overflow-y"),
    frozenset(["visible", "hidden", "clip", "scroll", "auto", "overlay", "-moz-hidden-unscrollable"]),
)
_LENGTH_WORDS = frozenset([
    "auto", "none", "normal", "reset", "min-content", "max-content", "fit-content", "-webkit-fill-available", "stretch",
    "hanging", "each-line", "-moz-available", "-webkit-min-content", "-webkit-max-content", "-webkit-fit-content",
])  # fmt: skip
_FONT_WORDS = frozenset([
    "xx-small", "x-small", "small", "medium", "large", "x-large", "xx-large", "xxx-large", "smaller", "larger",
])  # fmt: skip
_NUMERIC = frozenset(["opacity", "zoom", "scale"])
_SHAPES = frozenset([
    "clip", "clip-path", "-webkit-clip-path", "transform", "-webkit-transform", "-moz-transform", "filter",
    "-webkit-filter", "rotate",
])  # fmt: skip
_COLORS = frozenset(["color", "background", "background-color", "background-image", "-webkit-text-fill-color"])
_NEVER_NEGATIVE = frozenset(["font-size", "height", "width", "zoom"])
_SHAPE_WORDS = frozenset(["none", "auto", "x", "y", "z", "border-box", "padding-box", "content-box", "margin-box"])
_ANGLE = re.compile(r"[+-]?[\d.]{1,20}(?:deg|rad|grad|turn)")
_FONT = re.compile(
    rf"(?:(?:[a-z-]+|[1-9]\d{{0,3}})\s+){{0,7}}(?:({NUMBER}(?:[a-z]{{1,4}}|%)?|[a-z]+\([^;]*\))|[a-z-]+)"
    r"\s*(?:/\s*[^\s]+)?\s+[^\s/].*"
)
_NOISE = re.compile(
    r"/\*.*?(?:\*/|\Z)|\"((?:[^\"\\\n]|\\.)*+)(?:\"|$)|'((?:[^'\\\n]|\\.)*+)(?:'|$)"
    r"|\\(?:([0-9a-fA-F]{1,6})(?:\r\n|\s)?|([^\n]))",
    re.S,
)
_PLAIN_STRING = re.compile(r"[\w \-.#%]*")
_BOUNDARY = re.compile(r"[;(){}\[\]]")


def unescaped(css: str) -> str:
    """The text without comments and escapes; of strings, only what cannot be taken for anything else is left.

    An escaped character that is not one of a name becomes one of the private use area.
    """
    return _NOISE.sub(_plain, css) if "\\" in css or "/*" in css or '"' in css or "'" in css else css


def name_of(text: str) -> str:
    """A class or id as `unescaped` writes it in a selector."""
    return re.sub(r"[\x00-\x2c./:-@\[-^`{-\x7f]", lambda match: chr(0xE000 + ord(match[0])), text)


def _plain(match: re.Match[str]) -> str:
    escape, character = match[3], match[4]
    if escape or character:
        character = chr(min(int(escape, 16), 0x10FFFF)) if escape else character
        return name_of(character)
    text = match[1] if match[1] is not None else match[2]
    if text is None:
        return ""
    return f'"{text}"' if _PLAIN_STRING.fullmatch(text) else '""'


def declared(style: str) -> dict[str, str]:
    """Property -> value, lower case; later wins over earlier, `!important` over plain; invalid ones do not count."""
    values: dict[str, str] = {}
    important: set[str] = set()
    for declaration in _split(unescaped(style).lower()):
        name, colon, value = declaration.partition(":")
        name = name.strip()
        if not colon or name not in _NAMES:
            continue
        value, mark, word = value.partition("!")
        value = value.strip()
        if (mark and word.strip() != "important") or (name in important and not mark):
            continue
        if not _is_valid(name, value) or (name in values and "(" in value and _is_open(name, value)):
            continue
        if mark:
            important.add(name)
        values[name] = value
        if name == "font":
            values.pop("font-size", None)
        elif name == "background":
            values.pop("background-color", None)
    return values


def _split(style: str) -> list[str]:
    """The declarations, split at semicolons outside parentheses."""
    if "(" not in style and "[" not in style and "{" not in style:
        return style.split(";")
    pieces: list[str] = []
    depth = start = 0
    for match in _BOUNDARY.finditer(style):
        if match[0] == ";":
            if depth == 0:
                pieces.append(style[start : match.start()])
                start = match.end()
        else:
            depth = max(0, depth + (1 if match[0] in "([{" else -1))
    return [*pieces, style[start:]]


def _is_valid(name: str, value: str) -> bool:
    """Whether browsers take this value; where that is not plain, only what could hide is taken."""
    if value in _ANY or "var(" in value:
        return True
    if name in _WORDS:
        words = value.split()
        return bool(words) and _WORDS[name].issuperset(words)
    if name in _COLORS:
        return name in ("background", "background-image") or _is_color(value)
    if name in _NUMERIC:
        parts = value.split() if "(" not in value else [value]
        return bool(parts) and all(part in _LENGTH_WORDS or number(part) is not None or "(" in part for part in parts)
    if name == "font":
        return _FONT.fullmatch(value) is not None or value in ("caption", "icon", "menu", "message-box", "status-bar")
    if name in _SHAPES:
        return bool(value) and (
            "(" in value or all(word in _SHAPE_WORDS or _ANGLE.fullmatch(word) for word in value[:100].split())
        )
    if name == "font-size" and value in _FONT_WORDS:
        return True
    if name in _NEVER_NEGATIVE and value.startswith("-") and "(" not in value:
        return False
    parts = value.split() if "(" not in value else [value]
    return bool(parts) and all(part in _LENGTH_WORDS or pixels(part) is not None or "(" in part for part in parts)


def _is_open(name: str, value: str) -> bool:
    """Whether nobody can tell what this comes to: then it undoes nothing."""
    if "var(" in value:
        return True
    if name in _NUMERIC:
        return number(value) is None
    return name not in _COLORS and name not in _SHAPES and name != "font" and pixels(value) is None


def _is_color(value: str) -> bool:
    if "(" in value or re.fullmatch(r"[\"']?#?[0-9a-f]{6}[\"']?", value):
        return True
    return parse_color(value[:60]) is not None
