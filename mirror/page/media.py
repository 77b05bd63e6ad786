"""Whether the condition of a style block or of an at-rule holds on a desktop screen."""

import re

_AT_RULE = re.compile(r"(@[\w-]*)(.*)", re.S)
_MAY_HOLD = frozenset(["@layer", "@container", "@scope", "@document", "@nest"])
_FEATURE = re.compile(r"\(\s*([\w-]+)\s*(?:[:<>=]+\s*([^()]*))?\)")
_WIDTH = re.compile(r"(?:(min|max)-(?:device-)?)?width")
_LENGTH = re.compile(r"(\d+(?:\.\d*)?)\s*(px|r?em)?")
_OTHER_ENGINES = re.compile(r"-ms-|touch-callout|overflow-scrolling")
# A window is at least so wide, and at most.
_NARROW, _WIDE = 700, 1_900
# Mail keeps rules for telephones and tablets below this width.
_TABLET = 1_200
_NEVER = frozenset(["prefers-color-scheme:dark", "-ms-high-contrast", "monochrome", "scripting", "prefers-contrast"])


def applies(at_rule: str) -> bool | None:
    """Whether what stands in this block holds (`@media (min-width: 400px)`); None when that cannot be told."""
    match = _AT_RULE.match(at_rule.strip().lower()[:2_000])
    if match is None:
        return False
    name, condition = match[1], match[2].strip()
    if name == "@media":
        holding = [_holds(query.strip()) for query in condition.split(",")]
        return True if True in holding else None if None in holding else False
    if name == "@supports":
        return False if _OTHER_ENGINES.search(condition) and "not" not in condition else None
    return None if name in _MAY_HOLD else False


def _holds(query: str) -> bool | None:
    is_not = query.startswith("not ")
    medium = re.sub(r"^(?:not|only)\s+", "", query)
    name = re.match(r"[\w-]*", medium)
    kind = name[0] if name else ""
    if kind and kind not in ("all", "screen"):
        return is_not
    holding: list[bool | None] = [True]
    rest = medium[len(kind) :]
    for match in _FEATURE.finditer(rest):
        holding.append(_has(match[1], match[0], (match[2] or "").strip()))
    if _FEATURE.sub("", rest).replace("and", "").strip():
        holding.append(None)
    held = False if False in holding else None if None in holding else True
    return held if held is None or not is_not else not held


def _has(feature: str, written: str, value: str) -> bool | None:
    if feature in _NEVER or re.sub(r"[\s()]", "", written) in _NEVER:
        return False
    if feature == "prefers-color-scheme":
        return True
    width = _WIDTH.fullmatch(feature)
    length = _LENGTH.fullmatch(value)
    if width is None or length is None:
        return None
    pixels = float(length[1]) * (16 if length[2] in ("em", "rem") else 1)
    if width[1] == "min" or (width[1] is None and ">" in written):
        return True if pixels <= _NARROW else None if pixels <= _WIDE else False
    if width[1] == "max" or (width[1] is None and "<" in written):
        return True if pixels >= _WIDE else None if pixels >= _TABLET else False
    return None
