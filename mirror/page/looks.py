"""How each element of a page looks: its style, what the sheet's rules declare for it, and its old attributes.

Mail repeats itself: a newsletter has hundreds of cells with one style. What was worked out for one element holds for
every other with the same tag and the same telling attributes, unless a rule asks where the element stands.
"""

from lxml.etree import _Element as Element

from mirror.page.css import HIDDEN, MAX_STYLE, PLAIN, Look, look_of
from mirror.page.inherited import with_old_attributes
from mirror.page.stylesheet import OutOfWork, StyleSheet

_TELLING = frozenset([
    "style", "class", "id", "hidden", "popover", "open", "width", "height", "color", "text", "bgcolor", "background",
])  # fmt: skip
_Key = tuple[object, ...]


class Looks:
    """The looks of one document's elements. is_cut: its style sheet asked for more work than a mail may cost."""

    def __init__(self, sheet: StyleSheet) -> None:
        self.is_cut = False
        self._sheet = sheet if sheet else None
        self._known: dict[_Key, tuple[Look, bool]] = {}

    def of(self, element: Element, tag: str) -> tuple[Look, bool]:
        """The look of an element, and whether it is hidden with all it holds."""
        items = element.items()
        if not items and self._sheet is None:
            return PLAIN, tag == "dialog"
        key = (tag, *[item for item in items if item[0] in _TELLING])
        found = self._known.get(key)
        if found is None:
            found, is_settled = self._work_out(element, tag)
            if is_settled:
                self._known[key] = found
        return found

    def _work_out(self, element: Element, tag: str) -> tuple[tuple[Look, bool], bool]:
        """The look and whether it hides; and whether both hold for every element like this one."""
        attributes = element.attrib
        style = attributes.get("style", "")
        is_hidden = "hidden" in attributes or "popover" in attributes or (tag == "dialog" and "open" not in attributes)
        is_hidden = is_hidden or len(style) > MAX_STYLE
        is_settled = True
        if self._sheet is not None and not is_hidden:
            try:
                declarations, is_settled = self._sheet.declarations(element)
                style = f"{declarations};{style}"
            except OutOfWork:
                is_hidden = self._sheet.may_hide
                self.is_cut = True
                is_settled = False
        if "overflow" in style and ("width" in attributes or "height" in attributes):
            style = f"width:{attributes.get('width', 'auto')};height:{attributes.get('height', 'auto')};{style}"
        look = PLAIN if not style.strip(";") else HIDDEN if is_hidden else look_of(style)
        if attributes:
            look = with_old_attributes(look, element)
        return (look, is_hidden or look.hides), is_settled
