"""Whether declarations take an element, with all it holds, out of a person's sight."""

import math
import re

from mirror.page.lengths import listed, number, pixels, single

TINY = 2.0
"""Font sizes and boxes up to this many pixels are hidden."""
_FAINT = 0.05
_OFF_SCREEN = -100.0
_FAR_AWAY = 1_000.0
_FUNCTION = re.compile(r"(?<![a-z0-9-])([a-z0-9-]++)\(([^()]*(?:\([^()]*\)[^()]*)*)\)?")
_ANGLE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(deg|rad|grad|turn)")
_DEGREES = {"deg": 1.0, "rad": 57.29578, "grad": 0.9, "turn": 360.0}
_CLIPPING = frozenset(
    ["hidden", "clip", "auto", "scroll", "overlay", "-moz-hidden-unscrollable", "-moz-scrollbars-none"]
)
_INSETS = (
    "left", "top", "right", "bottom", "inset", "inset-inline", "inset-block", "inset-inline-start",
    "inset-inline-end", "inset-block-start", "inset-block-end",
)  # fmt: skip
_MARGINS_AT_START = (
    "margin-left", "margin-top", "margin", "margin-inline", "margin-inline-start", "margin-block",
    "margin-block-start",
)  # fmt: skip
_SIZES = {
    "height": "min-height", "max-height": "min-height", "block-size": "min-height", "max-block-size": "min-height",
    "width": "min-width", "max-width": "min-width", "inline-size": "min-width", "max-inline-size": "min-width",
}  # fmt: skip
_NEVER_HIDES = frozenset(
    ["font", "font-size", "color", "-webkit-text-fill-color", "background", "background-color", "background-image"]
)
"""What most styles of a mail declare, and nothing below asks for."""
_Values = dict[str, str]


def hides(values: _Values) -> bool:
    """Whether these declarations (property -> valid value) hide an element with all it holds."""
    if values.keys() <= _NEVER_HIDES:
        return False
    get = values.get
    if get("display") == "none" or get("mso-hide") == "all" or get("content-visibility") == "hidden":
        return True
    if any("var(" in get(name, "") for name in ("display", "opacity", "visibility")):
        return True
    return _is_faint(values) or _is_moved_away(values) or _is_cut_away(values) or _is_transformed_away(values)


def opacity(values: _Values) -> float:
    """How opaque an element is, from 0 to 1."""
    shown = 1.0
    if "opacity" in values:
        given = number(values["opacity"])
        # A sum that cannot be worked out may be zero.
        shown = given if given is not None else 0.0 if "(" in values["opacity"] else 1.0
    for name, arguments in _functions(values, "filter", "-webkit-filter"):
        if name == "opacity":
            shown *= 1.0 if not arguments else _or(number(arguments), 0.0)
    return max(0.0, min(1.0, shown))


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _functions(values: _Values, *names: str) -> list[tuple[str, str]]:
    return [
        (match[1], match[2].strip()) for name in names if name in values for match in _FUNCTION.finditer(values[name])
    ]


def _is_faint(values: _Values) -> bool:
    if opacity(values) < _FAINT:
        return True
    if any(name in values and _least(values[name]) < _FAINT for name in ("scale", "zoom")):
        return True
    blurs = (arguments for name, arguments in _functions(values, "filter", "-webkit-filter") if name == "blur")
    return any(_or(pixels(blur), 0.0) >= 10 for blur in blurs)


def _least(value: str) -> float:
    numbers = [abs(found) for part in listed(value)[:2] if (found := number(part)) is not None]
    return min(numbers, default=0.0 if "(" in value else 1.0)


def _lengths(values: _Values, name: str) -> list[float]:
    if name not in values:
        return []
    return [found for part in listed(values[name])[:4] if (found := pixels(part)) is not None]


def _is_moved_away(values: _Values) -> bool:
    indents = _lengths(values, "text-indent")
    if any(indent <= _OFF_SCREEN or indent >= _FAR_AWAY for indent in indents):
        return True
    if any(length <= _OFF_SCREEN for name in _MARGINS_AT_START for length in _lengths(values, name)):
        return True
    if any(length >= _FAR_AWAY for name in ("margin-left", "margin-inline-start") for length in _lengths(values, name)):
        return True
    position = values.get("position", "static")
    if position == "static":
        return False
    lengths = [length for name in _INSETS for length in _lengths(values, name)]
    if position in ("absolute", "fixed"):
        lengths += [length for name in _MARGINS_AT_START for length in _lengths(values, name)]
        return any(length <= _OFF_SCREEN or length >= _FAR_AWAY for length in lengths)
    return any(length <= _OFF_SCREEN for length in lengths)


def _is_cut_away(values: _Values) -> bool:
    if any(_leaves_nothing(*shape) for shape in _functions(values, "clip", "clip-path", "-webkit-clip-path")):
        return True
    overflow = " ".join(values.get(name, "") for name in ("overflow", "overflow-x", "overflow-y"))
    cuts = not _CLIPPING.isdisjoint(overflow.split()) or any(
        word in ("paint", "strict", "content") for word in values.get("contain", "").split()
    )
    if not cuts:
        return False
    if any(indent >= 600 for indent in _lengths(values, "text-indent")):
        return True
    return any(
        min(_lengths(values, size), default=99.0) <= TINY and max(_lengths(values, least), default=0.0) <= TINY
        for size, least in _SIZES.items()
    )


def _leaves_nothing(shape: str, arguments: str) -> bool:
    """Whether this shape of `clip` or `clip-path` has next to no area."""
    arguments = re.split(r"\b(?:at|round)\b", arguments)[0]
    parts = listed(arguments)
    sizes = [pixels(part) for part in parts[:4]]
    if shape == "rect" and len(sizes) == 4:
        top, right, bottom, left = (
            _or(size, otherwise) for size, otherwise in zip(sizes, (0, 9e9, 9e9, 0), strict=True)
        )
        return bottom - top <= TINY or right - left <= TINY
    if shape == "inset" and sizes:
        top, right, bottom, left = (_or(size, 0.0) for size in _four(sizes))
        return top + bottom >= 595 or left + right >= 595
    if shape in ("circle", "ellipse"):
        return any(size is not None and size <= TINY for size in sizes)
    if shape == "xywh":
        return any(size is not None and size <= TINY for size in sizes[2:])
    if shape == "polygon":
        return _area(arguments) <= TINY * TINY
    return shape in ("path", "shape")


def _four(sizes: list[float | None]) -> list[float | None]:
    """The values for top, right, bottom and left that one to four values stand for."""
    return [sizes[0], sizes[1 % len(sizes)], sizes[2 % len(sizes)] if len(sizes) != 3 else sizes[2],
            sizes[3] if len(sizes) == 4 else sizes[1 % len(sizes)]]  # fmt: skip


def _area(arguments: str) -> float:
    corners = [[_or(pixels(part), 0.0) for part in listed(corner)[-2:]] for corner in arguments.split(",")[:500]]
    corners = [corner for corner in corners if len(corner) == 2]
    pairs = zip(corners, [*corners[1:], *corners[:1]], strict=True)
    return abs(sum(x * other_y - other_x * y for (x, y), (other_x, other_y) in pairs)) / 2


def _is_transformed_away(values: _Values) -> bool:
    functions = _functions(values, "transform", "-webkit-transform", "-moz-transform")
    if "translate" in values:
        functions.append(("translate", values["translate"]))
    if "rotate" in values:
        axis, _, angle = values["rotate"].rpartition(" ")
        functions.append((f"rotate{axis.strip()}" if axis.strip() in ("x", "y") else "rotate", angle))
    return any(_moves_out_of_sight(name, listed(arguments)) for name, arguments in functions)


def _moves_out_of_sight(name: str, arguments: list[str]) -> bool:
    if name.startswith("translate"):
        return any(map(_is_far, arguments[:2]))
    if name in ("scale", "scalex", "scaley", "scale3d"):
        return _least(" ".join(arguments)) < _FAINT
    if name in ("rotatex", "rotatey") and arguments and (match := _ANGLE.fullmatch(arguments[0])):
        return abs(math.cos(math.radians(float(match[1]) * _DEGREES[match[2]]))) < _FAINT
    if name in ("matrix", "matrix3d"):
        cells = [_or(number(argument), 0.0) for argument in arguments]
        cells = [*cells[:2], *cells[4:6], *cells[12:14]] if name == "matrix3d" else cells
        if len(cells) < 6:
            return False
        a, b, c, d, x, y = cells[:6]
        return abs(a * d - b * c) < _FAINT * _FAINT or any(move <= _OFF_SCREEN or move >= _FAR_AWAY for move in (x, y))
    return False


def _is_far(move: str) -> bool:
    one = single(move)
    if one is not None and one[1] == "%":
        return one[0] <= -100 or one[0] >= 500
    length = pixels(move)
    return length is not None and (length <= _OFF_SCREEN or length >= _FAR_AWAY)
