"""The rules of a mail's style blocks that may hide something, and what they come to for an element.

Selectors that need a browser's state do not count, nor does what holds on small screens or paper only, because mail
hides its mobile parts there. A rule of which nobody can tell here whether it holds counts where it hides, and never
where it would undo that. The work for a mail has a limit; beyond it a sheet that hides anything hides everything.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lxml.etree import _Element as Element

from mirror.page.css import MAX_STYLE, look_of
from mirror.page.declarations import declared, unescaped
from mirror.page.media import applies
from mirror.page.selectors import (
    Compound,
    Selector,
    classes_of,
    fits,
    fits_attributes,
    fits_names,
    identity_of,
    read_selectors,
)  # fmt: skip

_MAX_SHEET = 1_000_000
_MAX_RULES = 5_000
_MAX_LIST = 100_000
MAX_WORK = 300_000
"""So many tests of a step of a selector are made for a mail."""
_CURLY = re.compile(r"[{}]")
_TELLING = re.compile(
    r"(?i)display|visib|opacity|font|color|background|overflow|indent|left|top|right|bottom|margin|clip|transform|"
    r"filter|hide|inset|contain|scale|zoom|translate|rotate|size|height|width|-fill-"
)
_HIDING = "display:none", "visibility:hidden", "font-size:0"


@dataclass(frozen=True, slots=True)
class Rule:
    """Declarations for the elements of one selector; weight: what decides among rules, the position last."""

    selector: Selector
    weight: tuple[int, int, int, int]
    declarations: str


class OutOfWork(Exception):
    """More work than one mail may cost."""


class StyleSheet:
    """The rules of a mail's style blocks, by what their last step asks for. work: the tests that are left."""

    def __init__(self, css: str, work: int = MAX_WORK) -> None:
        self.work = work
        self.may_hide = False
        self.is_cut = False
        self._rules: dict[tuple[Selector, str], Rule] = {}
        self._by_name: dict[str, list[Rule]] = {}
        self._candidates: dict[tuple[str, str, str], tuple[list[Rule], str | None]] = {}
        self._open: Counter[str] = Counter()
        self._position = 0
        css = unescaped(css.replace("<!--", "").replace("-->", ""))
        for selectors, declarations, is_sure in _rules(css[:_MAX_SHEET]):
            self._add(selectors, declarations, is_sure=is_sure)
        self.is_cut = self.is_cut or len(css) > _MAX_SHEET
        self.may_hide = self.may_hide or self.is_cut
        for rule in self._rules.values():
            self._by_name.setdefault(_key(rule.selector.last), []).append(rule)
        self._has_steps = any(rule.selector.before for rule in self._rules.values())

    def __bool__(self) -> bool:
        return bool(self._rules) or self.is_cut

    def _add(self, listed: str, declarations: str, *, is_sure: bool) -> None:
        if len(declarations) > MAX_STYLE or len(listed) > _MAX_LIST or len(self._rules) > _MAX_RULES:
            self.is_cut = True
            return
        if not declared(declarations):
            return
        look = look_of(declarations)
        self.may_hide = self.may_hide or look.is_hiding
        hiding = _hiding(declarations)
        selectors, are_known = read_selectors(listed)
        for selector in selectors:
            counted = declarations
            if not (is_sure and are_known and selector.is_exact):
                if not hiding:
                    continue
                counted = hiding
            self._position += 1
            self._rules[selector, counted] = Rule(selector, (*selector.weight, self._position), counted)

    def opened(self, element: Element, change: int) -> None:
        """The walk has come into an element (1), or leaves it (-1)."""
        if self._has_steps:
            self._open[element.tag] += change
            for name in classes_of(element):
                self._open[f".{name}"] += change

    def declarations(self, element: Element) -> tuple[str, bool]:
        """What the rules declare for an element, strongest last; whether for all of its tag, class and id.

        Raises OutOfWork.
        """
        if self.is_cut:
            raise OutOfWork
        key = (element.tag, element.get("class", ""), element.get("id", ""))
        found = self._candidates.get(key)
        if found is None:
            rules = sorted(self._fitting(element), key=lambda rule: rule.weight)
            is_same = not any(rule.selector.before or rule.selector.last.attributes for rule in rules)
            found = rules, ";".join(rule.declarations for rule in rules) if is_same else None
            self._candidates[key] = found
        rules, joined = found
        if joined is not None:
            return joined, True
        self._spend(len(rules))
        return ";".join(rule.declarations for rule in rules if self._holds(rule, element)), False

    def _fitting(self, element: Element) -> Iterator[Rule]:
        classes = set(classes_of(element))
        identity = identity_of(element)
        for name in (element.tag, "*", f"#{identity}", *(f".{name}" for name in classes)):
            rules = self._by_name.get(name, ())
            self._spend(len(rules))
            yield from (rule for rule in rules if fits_names(rule.selector.last, element.tag, classes, identity))

    def _holds(self, rule: Rule, element: Element) -> bool:
        before = rule.selector.before
        if rule.selector.last.attributes and not fits_attributes(rule.selector.last, element):
            return False
        if not before:
            return True
        if not all(self._may_be_open(step) for step, combinator in before if combinator in " >"):
            return False
        return self._follows(element, before, len(before) - 1)

    def _may_be_open(self, step: Compound) -> bool:
        return (not step.tag or step.tag == "tbody" or self._open[step.tag] > 0) and all(
            self._open[f".{name}"] > 0 for name in step.classes
        )

    def _follows(self, element: Element, before: tuple[tuple[Compound, str], ...], at: int) -> bool:
        if at < 0:
            return True
        step, combinator = before[at]
        if step == _TABLE_BODY and combinator == ">" and element.tag == "tr":
            # Browsers put one between every table and its rows.
            return self._follows(element, before, at - 1)
        for other in _others(element, combinator):
            self._spend(1)
            if fits(step, other) and self._follows(other, before, at - 1):
                return True
        return False

    def _spend(self, tests: int) -> None:
        self.work -= tests
        if self.work < 0:
            raise OutOfWork


_TABLE_BODY = Compound("tbody", "", ())


def _others(element: Element, combinator: str) -> Iterable[Element]:
    if combinator in "~ ":
        others: Iterable[Element] = (
            element.itersiblings(preceding=True) if combinator == "~" else element.iterancestors()
        )
        return others
    other = element.getparent() if combinator == ">" else element.getprevious()
    return () if other is None else (other,)


def _key(step: Compound) -> str:
    return f"#{step.id}" if step.id else f".{step.classes[-1]}" if step.classes else step.tag or "*"


def _hiding(declarations: str) -> str:
    """Of declarations that may not hold, those that hide."""
    look = look_of(declarations)
    mark = "!important" if "important" in declarations.lower() else ""
    hiding = look.hides, bool(look.invisible), look.font is not None and replace(look, opacity=1.0).is_tiny
    return ";".join(f"{text}{mark}" for text, counts in zip(_HIDING, hiding, strict=True) if counts)


def _rules(css: str) -> Iterator[tuple[str, str, bool]]:
    """(selectors, declarations, whether it surely holds) of every rule that may hold, nested ones included."""
    # Of each open block: its selectors ("" for an at-rule) and whether it holds (None: cannot be told).
    blocks: list[tuple[str, bool | None]] = []
    start = 0
    ends = [(match.start(), match[0]) for match in _CURLY.finditer(css)]
    for position, sign in [*ends, *((len(css), "}") for _ in range(min(2, len(css))))]:
        text = css[start:position]
        start = position + 1
        holds = blocks[-1][1] if blocks else True
        before, semicolon, prelude = text.rpartition(";")
        if sign == "{":
            prelude = prelude.strip()
            if blocks and blocks[-1][0] and holds is not False and semicolon and _TELLING.search(before):
                yield blocks[-1][0], before, holds is True
            if prelude.startswith("@"):
                inner = applies(prelude)
                blocks.append((blocks[-1][0] if blocks else "", _both(holds, inner)))
            else:
                # A rule within a rule asks for more than its own selector says.
                is_nested = any(selectors for selectors, _ in blocks[-3:])
                blocks.append((prelude.replace("&", "") or "*", _both(holds, None if is_nested else True)))
        elif blocks:
            selectors, holds = blocks.pop()
            if selectors and holds is not False and _TELLING.search(text):
                yield selectors, text, holds is True


def _both(outer: bool | None, inner: bool | None) -> bool | None:
    return False if outer is False or inner is False else None if outer is None or inner is None else True
