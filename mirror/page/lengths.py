"""Lengths and numbers of style sheets, in pixels of a desktop screen; sums and products in `calc()` are worked out."""

import re

# Of a column that is 600 pixels wide, as mail is.
_PIXELS_A_PERCENT = 6.0
_PIXELS = {
    "px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.945, "rem": 16.0, "em": 16.0,
    "ex": 8.0, "rex": 8.0, "ch": 8.0, "rch": 8.0, "cap": 11.0, "rcap": 11.0, "ic": 16.0, "ric": 16.0, "lh": 19.0,
    "rlh": 19.0, "": 1.0, "%": _PIXELS_A_PERCENT,
} | {f"{size}{side}": 8.0 for size in ("", "s", "l", "d") for side in ("vw", "vh", "vi", "vb", "vmin", "vmax")} | {
    f"cq{side}": 6.0 for side in ("w", "h", "i", "b", "min", "max")
}  # fmt: skip
# Lengths in these grow with the font size of the parent.
RELATIVE = {"em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0, "lh": 1.2, "%": 0.01}
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_SINGLE = re.compile(rf"({NUMBER})\s?([a-z]{{1,5}}|%)?")
_TOKEN = re.compile(r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([a-z]{1,5}|%)?|([a-z-]*\()|([-+*/),]))")
_FUNCTIONS = frozenset(["(", "calc(", "-webkit-calc(", "-moz-calc(", "min(", "max(", "clamp("])
_MAX_SUM = 100
_MAX_DEPTH = 20


def single(value: str) -> tuple[float, str] | None:
    """(number, unit) of a value that is one number with or without a unit browsers know."""
    match = _SINGLE.fullmatch(value)
    if match is None or (match[2] or "") not in _PIXELS:
        return None
    return float(match[1]), match[2] or ""


def pixels(value: str) -> float | None:
    """The pixels of a length, or of a `calc()` of lengths; None when that cannot be told."""
    one = single(value)
    if one is not None:
        return one[0] * _PIXELS[one[1]]
    return _Sum(value, _PIXELS).result() if "(" in value else None


def number(value: str) -> float | None:
    """A plain number or a percentage of one, or a `calc()` of them; None when that cannot be told."""
    one = single(value)
    if one is not None:
        return one[0] * (0.01 if one[1] == "%" else 1.0) if one[1] in ("", "%") else None
    return _Sum(value, {"": 1.0, "%": 0.01}).result() if "(" in value else None


def listed(value: str) -> list[str]:
    """The parts of a value, split at blanks and commas outside parentheses."""
    parts: list[str] = []
    depth = start = 0
    for index, character in enumerate(value):
        depth += (character == "(") - (character == ")")
        if character in " ,\t\n" and depth == 0:
            parts.append(value[start:index])
            start = index + 1
    return [part for part in (*parts, value[start:]) if part]


class _Sum:
    """One `calc()`, `min()`, `max()` or `clamp()`, read by recursive descent."""

    def __init__(self, value: str, units: dict[str, float]) -> None:
        self.units = units
        self.tokens: list[re.Match[str]] = []
        position, end = 0, len(value.rstrip())
        while end <= _MAX_SUM and position < end and (match := _TOKEN.match(value, position)):
            self.tokens.append(match)
            position = match.end()
        self.is_read = position == end <= _MAX_SUM
        self.at = 0

    def result(self) -> float | None:
        if not self.is_read:
            return None
        try:
            result = self._sum(0)
        except (IndexError, ValueError, ZeroDivisionError, OverflowError):
            return None
        return result if self.at == len(self.tokens) else None

    def _sum(self, depth: int) -> float:
        result = self._product(depth)
        while self._sign() in ("+", "-"):
            sign = self._take()[4]
            other = self._product(depth)
            result += other if sign == "+" else -other
        return result

    def _product(self, depth: int) -> float:
        result = self._term(depth)
        while self._sign() in ("*", "/"):
            sign = self._take()[4]
            other = self._term(depth)
            result = result * other if sign == "*" else result / other
        return result

    def _term(self, depth: int) -> float:
        token = self._take()
        if token[1]:
            return float(token[1]) * self.units[token[2] or ""] if (token[2] or "") in self.units else self._fail()
        if token[4] in ("-", "+"):
            return self._term(depth) * (-1.0 if token[4] == "-" else 1.0)
        if token[3] not in _FUNCTIONS or depth >= _MAX_DEPTH:
            return self._fail()
        terms = [self._sum(depth + 1)]
        while self._sign() == ",":
            self._take()
            terms.append(self._sum(depth + 1))
        if self._take()[4] != ")":
            return self._fail()
        if token[3] == "min(":
            return min(terms)
        if token[3] == "clamp(" and len(terms) == 3:
            return max(terms[0], min(terms[1], terms[2]))
        return max(terms) if token[3] == "max(" or len(terms) == 1 else self._fail()

    def _sign(self) -> str:
        return self.tokens[self.at][4] or "" if self.at < len(self.tokens) else ""

    def _take(self) -> re.Match[str]:
        self.at += 1
        return self.tokens[self.at - 1]

    @staticmethod
    def _fail() -> float:
        raise ValueError
