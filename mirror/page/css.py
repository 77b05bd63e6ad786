"""What style declarations say about whether a person sees an element.

Only the properties that decide visibility are read. Declarations go through a plain split; those with escapes or
comments, which could hide a property from a plain split, through tinycss2 first.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

import tinycss2
from tinycss2.color3 import parse_color

TINY = 2.0
"""Font sizes up to this many pixels are hidden."""
OFF_SCREEN = -100.0
_MAX_STYLE = 4_000
_NAMES = frozenset([
    "display", "visibility", "opacity", "font", "font-size", "color", "background", "background-color",
    "background-image", "overflow", "overflow-x", "overflow-y", "height", "width", "max-height", "max-width",
    "line-height", "text-indent", "left", "top", "right", "bottom", "margin-left", "margin-top", "margin", "clip",
    "clip-path", "transform", "filter", "mso-hide", "content-visibility", "position", "scale", "zoom",
    "-webkit-text-fill-color",
])  # fmt: skip
_LENGTH = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*(px|pt|pc|in|cm|mm|em|rem|ex|ch|vw|vh|%)?")
_PIXELS = {
    "px": 1.0,
    "": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
    "rem": 16.0,
    "vw": 8.0,
    "vh": 8.0,
}
# Of a column that is 600 pixels wide, as mail is.
_PIXELS_A_PERCENT = 6.0
_RELATIVE = {"em": 1.0, "ex": 0.5, "ch": 0.5, "%": 0.01}
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.S)
_NOTHING = re.compile(
    r"rect\(\s*0|rect\(\s*1px[, ]+1px[, ]+1px|inset\(\s*(?:[5-9]\d|100)|circle\(\s*0|"
    r"polygon\(\s*0(?:px)?[ ,]+0(?:px)?[ ,]+0"
)
_SCALED_AWAY = re.compile(r"scale[xy3d]*\(\s*0*\.?0*\s*[,)]|translate[xy3d]*\(\s*-\d{3,}")


@dataclass(frozen=True, slots=True)
class Look:
    """What a style declares; None where it says nothing.

    hides: the element and all it holds. font: ("px" | "em", number). invisible: visibility, which a child may override.
    color, background: (red, green, blue), or False for "cannot tell" (an image, a variable, transparent).
    """

    hides: bool = False
    font: tuple[str, float] | None = None
    invisible: bool | None = None
    color: "tuple[int, int, int] | bool | None" = None
    background: "tuple[int, int, int] | bool | None" = None
    see_through: bool = False


PLAIN = Look()
"""The look of an element whose style says nothing."""


@lru_cache(maxsize=1024)
def look_of(style: str) -> Look:
    """What this list of declarations declares."""
    values = declared(style[:_MAX_STYLE])
    if not values:
        return PLAIN
    color = values.get("-webkit-text-fill-color") or values.get("color")
    background = values.get("background-color") or values.get("background")
    if "url(" in values.get("background", "") or "url(" in values.get("background-image", ""):
        background_color: tuple[int, int, int] | bool | None = False
    else:
        background_color = color_of(background) if background else None
    visibility = values.get("visibility")
    return Look(
        hides=_hides(values),
        font=_font(values),
        invisible=None if visibility is None else visibility in ("hidden", "collapse"),
        color=color_of(color) if color else None,
        background=background_color,
        see_through=color == "transparent",
    )


def declared(style: str) -> dict[str, str]:
    """Property -> value, lower case; later wins over earlier, `!important` over plain."""
    if "\\" in style or "/*" in style:
        style = _ESCAPE.sub(
            _unescaped, tinycss2.serialize(tinycss2.parse_component_value_list(style, skip_comments=True))
        )
    values: dict[str, str] = {}
    important: set[str] = set()
    for declaration in style.lower().split(";"):
        name, colon, value = declaration.partition(":")
        name = name.strip()
        if not colon or name not in _NAMES:
            continue
        value, mark, _ = value.partition("!")
        if name in important and not mark:
            continue
        if mark:
            important.add(name)
        values[name] = value.strip()
        if name == "font":
            values.pop("font-size", None)
        elif name == "background":
            values.pop("background-color", None)
    return values


def _unescaped(match: re.Match[str]) -> str:
    return chr(min(int(match[1], 16), 0x10FFFF)) if match[1] else match[2]


def _hides(values: dict[str, str]) -> bool:
    get = values.get
    if get("display") == "none" or get("mso-hide") == "all" or get("content-visibility") == "hidden":
        return True
    if "opacity" in values and _number(values["opacity"], 1.0) <= 0.02:
        return True
    if any(name in values and _number(values[name], 1.0) <= 0.02 for name in ("scale", "zoom")):
        return True
    if "opacity(0" in get("filter", ""):
        return True
    if _NOTHING.search(get("clip", "") + get("clip-path", "")) or _SCALED_AWAY.search(get("transform", "")):
        return True
    if any(_pixels(get(name, ""), 0.0) <= OFF_SCREEN for name in ("text-indent", "margin-left", "margin-top")):
        return True
    if "margin" in values and any(_pixels(word, 0.0) <= OFF_SCREEN for word in values["margin"].split()[:4]):
        return True
    if get("position", "static") != "static" and any(
        _pixels(get(name, ""), 0.0) <= OFF_SCREEN for name in ("left", "top", "right", "bottom")
    ):
        return True
    clipped = any(get(name, "") in ("hidden", "clip") for name in ("overflow", "overflow-x", "overflow-y"))
    return clipped and any(
        _pixels(get(name, ""), 99.0) <= 1.0 for name in ("height", "width", "max-height", "max-width")
    )


def _number(value: str, default: float) -> float:
    match = _LENGTH.match(value)
    return default if match is None else float(match[1]) * (0.01 if match[2] == "%" else 1.0)


def _pixels(value: str, default: float) -> float:
    match = _LENGTH.match(value)
    if match is None:
        return default
    unit = match[2] or ""
    if unit == "%":
        return float(match[1]) * _PIXELS_A_PERCENT
    return float(match[1]) * (16.0 * _RELATIVE[unit] if unit in _RELATIVE else _PIXELS[unit])


def _font(values: dict[str, str]) -> tuple[str, float] | None:
    value = values.get("font-size")
    if value is None and "font" in values:
        sizes = re.findall(r"(?<![\w.-])\d*\.?\d+(?:px|pt|pc|in|cm|mm|r?em|ex|vw|%|(?=\s|/|$))", values["font"])
        value = sizes[0] if sizes and not re.fullmatch(r"[1-9]00", sizes[0]) else sizes[1] if len(sizes) > 1 else None
    if value is None:
        return None
    match = _LENGTH.match(value)
    if match is None:
        return None if value in ("inherit", "smaller", "larger") else ("px", 16.0)
    unit = match[2] or ""
    if unit in _RELATIVE:
        return "em", float(match[1]) * _RELATIVE[unit]
    return "px", float(match[1]) * _PIXELS[unit]


@lru_cache(maxsize=1024)
def color_of(value: str) -> "tuple[int, int, int] | bool":
    """(red, green, blue) of a CSS or old HTML colour; False when that cannot be told."""
    value = value.strip().strip("\"'")[:60]
    if re.fullmatch(r"[0-9a-fA-F]{6}", value):
        value = f"#{value}"
    color = parse_color(value)
    if color is None:
        # A shorthand: "#fff url(x) no-repeat", "white none".
        color = parse_color(value.split(" ")[0]) if " " in value else None
    if color is None or isinstance(color, str) or color.alpha < 0.1:
        return False
    return (round(color.red * 255), round(color.green * 255), round(color.blue * 255))
