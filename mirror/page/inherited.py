"""What an element of a page passes on to its children: font size, visibility, colours."""

from dataclasses import dataclass, field, replace

from lxml.etree import _Element as Element

from mirror.page.css import TINY, Look, color_of

_LOW_CONTRAST = 30
_FAINT = 0.05


@dataclass(frozen=True, slots=True)
class Inherited:
    """The state a text stands in. Colours: (red, green, blue), or False for "cannot tell"."""

    font: float = 16.0
    invisible: bool = False
    color: tuple[int, int, int] | bool = (0, 0, 0)
    background: tuple[int, int, int] | bool = (255, 255, 255)
    see_through: bool = False
    opacity: float = 1.0
    is_hidden: bool = field(init=False)
    """Text here is invisible or too small to be seen, which a child may override, or too faint."""
    is_low_contrast: bool = field(init=False)
    """Text here has nearly the colour of what is behind it."""
    _below: "dict[int, tuple[Look, Inherited]]" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hidden = self.invisible or self.font <= TINY or self.opacity < _FAINT
        object.__setattr__(self, "is_hidden", hidden)
        object.__setattr__(self, "is_low_contrast", self._has_low_contrast())
        object.__setattr__(self, "_below", {})

    def _has_low_contrast(self) -> bool:
        if self.see_through:
            return True
        if isinstance(self.color, bool) or isinstance(self.background, bool):
            return False
        return sum(abs(a - b) for a, b in zip(self.color, self.background, strict=True)) <= _LOW_CONTRAST

    def under(self, look: Look) -> "Inherited":
        """The state within an element that looks so; worked out once for each look."""
        known = self._below.get(id(look))
        if known is None or known[0] is not look:
            known = look, self._under(look)
            self._below[id(look)] = known
        return known[1]

    def _under(self, look: Look) -> "Inherited":
        font = self.font
        if look.font is not None:
            unit, number = look.font
            font = number * self.font if unit == "em" else number
        return Inherited(
            font=font,
            invisible=self.invisible if look.invisible is None else look.invisible,
            color=self.color if look.color is None else look.color,
            background=self.background if look.background is None else look.background,
            see_through=self.see_through if look.color is None else look.see_through,
            opacity=self.opacity * look.opacity,
        )


def with_old_attributes(look: Look, element: Element) -> Look:
    """The look with the colours that attributes give (`<font color>`, `<td bgcolor>`), where no style gives them."""
    color = element.get("color") or (element.get("text") if element.tag == "body" else None)
    if color and look.color is None:
        look = replace(look, color=color_of(color))
    if look.background is None:
        if background := element.get("bgcolor"):
            look = replace(look, background=color_of(background))
        elif element.get("background"):
            look = replace(look, background=False)
    return look
