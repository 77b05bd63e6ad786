"""The simple rules of a mail's style blocks that may hide something.

Tag, class and id selectors and their descendants count; selectors that need a browser's state do not. Of `@media` only
what holds on a desktop screen counts, because mail hides its mobile parts there.
"""

import re
from dataclasses import dataclass

from mirror.page.declarations import declared

_MAX_SHEET = 200_000
_MAX_RULES = 1_000
_MAX_SELECTORS = 3_000
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)|<!--|-->", re.S)
_NAME = re.compile(r"[.#][\w-]+")
_COMPOUND = re.compile(r"(\*|[a-zA-Z][\w-]*)?((?:[.#][\w-]+)*)")
_CURLY = re.compile(r"[{}]")
_MEDIA_THAT_APPLIES = re.compile(
    r"@media\s*(?:only\s+)?(?:all|screen)?\s*(?:and\s*)?(?:\(\s*min-width\s*:\s*(?:[0-9]{1,2}|[1-6][0-9]{2})px\s*\)\s*)?",
    re.I,
)
_TELLING = re.compile(
    r"(?i)display|visib|opacity|font|color|background|overflow|indent|left|top|right|bottom|margin|clip|transform|filter|hide|\\"
)


@dataclass(frozen=True, slots=True)
class Compound:
    """One step of a selector: a tag ("" for any), an id ("" for any) and classes that must all be there."""

    tag: str
    id: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Declarations, and the chain of ancestors that an element matching the last step must have."""

    ancestors: tuple[Compound, ...]
    last: Compound
    weight: tuple[int, int, int, int]
    declarations: str


class StyleSheet:
    """The rules of a mail's style blocks that may hide something, by what their last step asks for."""

    def __init__(self, css: str) -> None:
        self.by_class: dict[str, list[Rule]] = {}
        self.by_id: dict[str, list[Rule]] = {}
        self.by_tag: dict[str, list[Rule]] = {}
        self._count = 0
        for selectors, declarations in _rules(css[:_MAX_SHEET]):
            if self._count >= _MAX_SELECTORS:
                break
            self._add(selectors, declarations)

    def __bool__(self) -> bool:
        return self._count > 0

    def _add(self, selectors: str, declarations: str) -> None:
        if not declared(declarations):
            return
        for selector in selectors[:2_000].split(","):
            steps = [_compound(step) for step in selector.replace(">", " ").split()]
            if not steps or any(step is None for step in steps):
                continue
            *ancestors, last = [step for step in steps if step is not None]
            self._count += 1
            weight = (
                sum(bool(step.id) for step in (*ancestors, last)),
                sum(len(step.classes) for step in (*ancestors, last)),
                sum(bool(step.tag) for step in (*ancestors, last)),
                self._count,
            )
            rule = Rule(tuple(ancestors), last, weight, declarations)
            if last.id:
                self.by_id.setdefault(last.id, []).append(rule)
            elif last.classes:
                self.by_class.setdefault(last.classes[0], []).append(rule)
            else:
                self.by_tag.setdefault(last.tag, []).append(rule)

    def candidates(self, tag: str, classes: list[str], identity: str) -> list[Rule]:
        """The rules whose last step fits such an element, weakest first."""
        found = [*self.by_tag.get(tag, ()), *self.by_tag.get("", ())]
        for name in classes:
            found.extend(self.by_class.get(name, ()))
        if identity:
            found.extend(self.by_id.get(identity, ()))
        fitting = [rule for rule in found if fits(rule.last, tag, classes, identity)]
        return sorted(fitting, key=lambda rule: rule.weight)


def fits(step: Compound, tag: str, classes: list[str], identity: str) -> bool:
    """Whether an element is what one step of a selector asks for."""
    return (
        (not step.tag or step.tag == tag)
        and (not step.id or step.id == identity)
        and all(name in classes for name in step.classes)
    )


def _compound(step: str) -> Compound | None:
    match = _COMPOUND.fullmatch(step)
    if match is None:
        return None
    names = _NAME.findall(match[2])
    identities = [name[1:] for name in names if name.startswith("#")]
    tag = (match[1] or "").lower()
    return Compound(
        "" if tag == "*" else tag,
        identities[0].lower() if identities else "",
        tuple(name[1:].lower() for name in names if name.startswith(".")),
    )


def applies(media: str) -> bool:
    """Whether an `@media` prelude holds on a desktop screen."""
    return _MEDIA_THAT_APPLIES.fullmatch(media[:200]) is not None


def _rules(css: str) -> list[tuple[str, str]]:
    """(selectors, declarations) of every plain rule, those within an `@media` for desktop screens included."""
    css = _COMMENT.sub("", css)
    rules: list[tuple[str, str]] = []
    position = 0
    while len(rules) < _MAX_RULES:
        opening = css.find("{", position)
        if opening < 0:
            break
        prelude = css[position:opening].rpartition(";")[2].rpartition("}")[2].strip()
        if prelude.startswith("@"):
            position = opening + 1 if applies(prelude) else _closing(css, opening)
            continue
        closing = css.find("}", opening)
        closing = len(css) if closing < 0 else closing
        body = css[opening + 1 : closing]
        if _TELLING.search(body):
            rules.append((prelude, body))
        position = closing + 1
    return rules


def _closing(css: str, opening: int) -> int:
    depth = 0
    for match in _CURLY.finditer(css, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(css)
