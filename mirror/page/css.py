"""What style declarations say about whether a person sees an element. Only what decides visibility is read."""

import re
from dataclasses import dataclass
from functools import lru_cache

from tinycss2.color4 import parse_color

from mirror.page.declarations import declared
from mirror.page.hiding import TINY, hides, opacity
from mirror.page.lengths import RELATIVE, pixels, single

__all__ = ("PLAIN", "TINY", "Look", "color_of", "look_of")

MAX_STYLE = 100_000
_SEE_THROUGH = 0.1
_FONT_WORDS = {"smaller": 0.83, "larger": 1.2}
_UNSAID = frozenset(["inherit", "unset", "revert", "revert-layer", "currentcolor"])


@dataclass(frozen=True, slots=True)
class Look:
    """What a style declares; None where it says nothing.

    hides: the element and all it holds. opacity: of its own, 0 to 1; those of its ancestors multiply.
    font: ("px" | "em", number). invisible: visibility, which a child may override.
    color, background: (red, green, blue), or False for "cannot tell" (an image, a variable, transparent).
    """

    hides: bool = False
    font: tuple[str, float] | None = None
    invisible: bool | None = None
    color: "tuple[int, int, int] | bool | None" = None
    background: "tuple[int, int, int] | bool | None" = None
    see_through: bool = False
    opacity: float = 1.0

    @property
    def is_tiny(self) -> bool:
        """Whether its font size alone takes text from sight."""
        return self.font is not None and self.font[1] <= (TINY if self.font[0] == "px" else TINY / 16)

    @property
    def is_hiding(self) -> bool:
        """Whether it takes anything from sight, by itself or for what an element passes on."""
        return (
            self.hides
            or self.opacity < 1
            or bool(self.invisible)
            or self.see_through
            or (self.font is not None and self.font[1] <= (TINY if self.font[0] == "px" else 0.4))
        )


HIDDEN = Look(hides=True)
"""The look of an element that nobody can judge."""


PLAIN = Look()
"""The look of an element whose style says nothing."""


@lru_cache(maxsize=4096)
def look_of(style: str) -> Look:
    """What this list of declarations declares; one that is too long to be read hides."""
    if len(style) > MAX_STYLE:
        return HIDDEN
    values = declared(style)
    if not values:
        return PLAIN
    color = values.get("-webkit-text-fill-color") or values.get("color")
    if color in _UNSAID:
        color = None
    background = values.get("background-color") or values.get("background")
    if "url(" in values.get("background", "") or "url(" in values.get("background-image", ""):
        background_color: tuple[int, int, int] | bool | None = False
    else:
        background_color = color_of(background) if background else None
    visibility = values.get("visibility")
    return Look(
        hides=hides(values),
        font=_font(values),
        invisible=None if visibility is None or visibility in _UNSAID else visibility in ("hidden", "collapse"),
        color=color_of(color) if color else None,
        background=background_color,
        see_through=color is not None and _is_see_through(color),
        opacity=opacity(values),
    )


def _font(values: dict[str, str]) -> tuple[str, float] | None:
    value = values.get("font-size")
    if value is None and "font" in values:
        sizes = re.findall(
            r"(?<![\w.-])(?:\d*\.?\d+(?:e-?\d+)?(?:px|pt|pc|in|cm|mm|r?em|ex|vw|%|(?=\s|/|$))|calc\([^()]*\))",
            values["font"],
        )
        value = sizes[0] if sizes and not re.fullmatch(r"[1-9]00", sizes[0]) else sizes[1] if len(sizes) > 1 else None
    if value is None or value in _UNSAID:
        return None
    if value in _FONT_WORDS:
        return "em", _FONT_WORDS[value]
    one = single(value)
    if one is not None and one[1] in RELATIVE:
        return "em", one[0] * RELATIVE[one[1]]
    size = pixels(value)
    return "px", 16.0 if size is None else size


def _is_see_through(color: str) -> bool:
    parsed = parse_color(color[:60])
    return parsed is not None and not isinstance(parsed, str) and parsed.alpha < _SEE_THROUGH


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
    if color is None or isinstance(color, str) or color.alpha < _SEE_THROUGH:
        return False
    if color.space not in ("srgb", "hsl", "hwb"):
        return False
    red, green, blue, _ = color.to("srgb")
    return (round(red * 255), round(green * 255), round(blue * 255))
