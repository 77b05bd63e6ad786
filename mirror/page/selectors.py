"""Selectors of style rules, and whether an element is what one asks for."""

import re
from dataclasses import dataclass

from lxml.etree import _Element as Element

from mirror.page.declarations import name_of

_NAME = r"[^\s.#:\[\]>+~,*()&\"'{}=^$|]+"
_STEP = re.compile(rf"(\*|{_NAME})?((?:[.#]{_NAME}|\[[^\]]*\])*)")
_PARTS = re.compile(rf"([.#])({_NAME})|\[([^\]]*)\]")
_ATTRIBUTE = re.compile(r"\s*([\w-]+)\s*(?:([~^$*|]?=)\s*(?:\"([^\"]*)\"|([^\s\"]+))\s*(?:[is]\s*)?)?")
_SPLIT = re.compile(r"\s*([>+~])\s*|\s+")
_ALTERNATIVES = re.compile(r":(?:is|where|matches|-webkit-any|-moz-any)\(([^()]*)\)")
_PSEUDO = re.compile(r"::?([\w-]+)(\((?:[^()]|\([^()]*\))*\))?")
# What a page is not in when a person just reads it, and boxes that are no elements.
_NEVER = frozenset([
    "hover", "focus", "active", "visited", "checked", "target", "focus-within", "focus-visible", "disabled", "empty",
    "before", "after", "first-line", "first-letter", "selection", "placeholder", "marker", "indeterminate", "invalid",
])  # fmt: skip
_BRACKETS = re.compile(r"\[[^\]]*\]")
_HELD = str.maketrans(" >+~", "\1\2\3\4")
_RELEASED = str.maketrans("\1\2\3\4", " >+~")
_MAX_STEPS = 30
_MAX_ALTERNATIVES = 20


@dataclass(frozen=True, slots=True)
class Compound:
    """One step of a selector: a tag, an id ("" for any), classes and (name, operator, value) that must all be there."""

    tag: str
    id: str
    classes: tuple[str, ...]
    attributes: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Selector:
    """The step an element must fit, and (step, what stands between it and the next) of those before it.

    is_exact: False when it asks for more than is looked at here, so that it may fit less.
    """

    before: tuple[tuple[Compound, str], ...]
    last: Compound
    weight: tuple[int, int, int]
    is_exact: bool


def read_selectors(text: str) -> tuple[list[Selector], bool]:
    """The selectors of a list (after `unescaped`) that may fit, and whether all of them are known to browsers."""
    selectors: list[Selector] = []
    are_known = True
    for part in _listed(text.lower()):
        for alternative in _expanded(part.strip()):
            selector, is_known = _selector(alternative)
            are_known = are_known and is_known
            if selector is not None:
                selectors.append(selector)
    return selectors, are_known


def _listed(text: str) -> list[str]:
    if "(" not in text and "[" not in text:
        return list(dict.fromkeys(text.split(",")))
    parts: list[str] = []
    depth = start = 0
    for match in re.finditer(r"[,()\[\]]", text):
        if match[0] == ",":
            if depth == 0:
                parts.append(text[start : match.start()])
                start = match.end()
        else:
            depth = max(0, depth + (1 if match[0] in "([" else -1))
    return list(dict.fromkeys([*parts, text[start:]]))


def _expanded(selector: str) -> list[str]:
    match = _ALTERNATIVES.search(selector) if ":" in selector else None
    if match is None:
        return [selector]
    before, after = selector[: match.start()], selector[match.end() :]
    alternatives = [alternative.strip() for alternative in match[1].split(",")][:_MAX_ALTERNATIVES]
    stands_alone = not before or before[-1] in " >+~"
    return [
        # A tag after something else, or more than one step, only narrows: left out, and said.
        f"{before}{alternative}{after}"
        if re.fullmatch(r"[.#\[]?[^\s>+~]*", alternative) and (stands_alone or alternative[:1] in (".", "#", "["))
        else f"{before}:not(x){after}"
        for alternative in alternatives
    ]


def _selector(text: str) -> tuple[Selector | None, bool]:
    is_exact = True
    pseudos = 0
    if ":" in text:
        names = [match[1] for match in _PSEUDO.finditer(text)]
        plain = [match[1] for match in _PSEUDO.finditer(text) if not match[2]]
        if "::" in text or not _NEVER.isdisjoint(plain):
            return None, all(not name.startswith("-") for name in names)
        text = _PSEUDO.sub(lambda match: "html" if match[1] == "root" else "\0", text)
        text = re.sub(r"(?<![^\s>+~])\0+(?![^\s>+~\0])", "*", text).replace("\0", "")
        pseudos = len(names)
        is_exact = False
    if "[" in text:
        text = _BRACKETS.sub(lambda match: match[0].translate(_HELD), text)
    pieces = _SPLIT.split(text.strip())
    if not pieces[0] or len(pieces) > 2 * _MAX_STEPS:
        return None, False
    steps: list[tuple[Compound, str]] = []
    for piece, combinator in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        step = _compound(piece.translate(_RELEASED))
        if step is None:
            return None, False
        steps.append((step, combinator or " "))
    compounds = [step for step, _ in steps]
    weight = (
        sum(bool(step.id) for step in compounds),
        sum(len(step.classes) + len(step.attributes) for step in compounds) + pseudos,
        sum(bool(step.tag) for step in compounds),
    )
    return Selector(tuple(steps[:-1]), compounds[-1], weight, is_exact), True


def _compound(text: str) -> Compound | None:
    match = _STEP.fullmatch(text)
    if match is None or not text:
        return None
    identity, classes, attributes = "", [], []
    for part in _PARTS.finditer(match[2]):
        if part[1] == "#":
            identity = part[2]
        elif part[1] == ".":
            classes.append(part[2])
        else:
            attribute = _ATTRIBUTE.fullmatch(part[3])
            if attribute is None:
                return None
            value = attribute[3] if attribute[3] is not None else attribute[4] or ""
            attributes.append((attribute[1], attribute[2] or "", value))
    tag = match[1] or ""
    return Compound("" if tag == "*" else tag, identity, tuple(classes), tuple(attributes))


def classes_of(element: Element) -> list[str]:
    """The classes of an element, each once, as selectors name them."""
    written = element.get("class", "").lower()
    names = dict.fromkeys(written.split())
    return (
        list(names) if written.isascii() and written.replace(" ", "").isalnum() else [name_of(name) for name in names]
    )


def identity_of(element: Element) -> str:
    """The id of an element, as selectors name it."""
    return name_of(element.get("id", "").lower())


def fits_names(step: Compound, tag: str, classes: set[str], identity: str) -> bool:
    """Whether tag, classes and id are what a step asks for."""
    return (
        (not step.tag or step.tag == tag)
        and (not step.id or step.id == identity)
        and all(name in classes for name in step.classes)
    )


def fits_attributes(step: Compound, element: Element) -> bool:
    """Whether the attributes are what a step asks for."""
    return all(_has(element.get(name), operator, value) for name, operator, value in step.attributes)


def fits(step: Compound, element: Element) -> bool:
    """Whether an element is what a step asks for."""
    if step.tag and step.tag != element.tag:
        return False
    if (step.classes or step.id) and not fits_names(step, element.tag, set(classes_of(element)), identity_of(element)):
        return False
    return not step.attributes or fits_attributes(step, element)


def _has(found: str | None, operator: str, value: str) -> bool:
    if found is None:
        return False
    found = found.lower()
    match operator:
        case "=":
            return found == value
        case "~=":
            return value in found.split()
        case "|=":
            return found == value or found.startswith(f"{value}-")
        case "^=":
            return bool(value) and found.startswith(value)
        case "$=":
            return bool(value) and found.endswith(value)
        case "*=":
            return bool(value) and value in found
    return True
