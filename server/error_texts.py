"""Every error text of the tools, found in the code that raises it: nothing is written twice, nothing is forgotten."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator

_RELAY = ("relay",)
_GATEWAY = (
    *("gateway.accounts", "gateway.changes", "gateway.files", "gateway.mail", "gateway.reads", "gateway.answers"),
    "gateway.limits",
)
_BOTH = ("refusal",)
_MODULES = {"both": _BOTH, "relay": _RELAY, "gateway": _GATEWAY}


def error_texts(tool_set: str) -> list[tuple[str, str]]:
    """(text, when it comes) of a tool set: "relay", "gateway", or "both" for what they share."""
    modules = [_Module(name) for name in _MODULES[tool_set]]
    found = [each for module in modules for callee in ("Declined", "reading") for each in module.calls(callee)]
    if tool_set == "both":
        found += [
            ("query error at position N: expected EXPECTED. Example of a valid query: EXAMPLE", "it cannot be read"),
            (str(importlib.import_module("mirror.errors").QueryTooSlow()), "it takes more than its time"),
        ]
    return list({text: (text, when) for text, when in found if text.strip("A Z")}.values())


def denial_reasons() -> list[str]:
    """Why policy or form forbids a mail."""
    return sorted({text for module in ("outgoing", "sending.mail") for text, _ in _Module(module).calls("Denial")})


def path_refusals() -> list[str]:
    """Why the workspace refuses a path."""
    return sorted({text for text, _ in _Module("workspace").calls("PathRefused")})


def note_texts() -> list[str]:
    """What may stand beside an answer: texts of modules that are not raised as errors."""
    found: dict[str, None] = {}
    for module in (*_BOTH, *_RELAY, *_GATEWAY):
        parsed = _Module(module)
        raised = {text for callee in ("Declined", "reading") for text, _ in parsed.calls(callee)}
        for name, text in parsed.constants.items():
            if re.fullmatch(r"[A-Z][^\n]{20,}\.", text) and text not in raised and name != "INSTRUCTIONS":
                found[text] = None
    return sorted(found)


class _Module:
    def __init__(self, name: str) -> None:
        self._module = importlib.import_module(f"server.{name}")
        self._tree = ast.parse(inspect.getsource(self._module))
        self.constants = {
            name: value for name, value in vars(self._module).items() if name.isupper() and isinstance(value, str)
        }

    def calls(self, callee: str) -> Iterator[tuple[str, str]]:
        """(text, when) of each error of this kind that the module makes."""
        yield from self._within(self._tree, callee, "")

    def _within(self, node: ast.AST, callee: str, when: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            when = "; ".join(filter(None, map(self._said_of, ast.walk(node.type))))
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and base.id == callee for base in node.bases
        ):
            said = (ast.get_docstring(node) or "").partition("\n")[0]
            when = said.partition(". ")[0].rstrip(".")
        if isinstance(node, ast.Call) and node.args and self._makes(node, callee):
            text = self._text(node.args[0])
            if text:
                yield text, "unknown, foreign, hidden, moved and deleted ones alike" if callee == "reading" else when
        for child in ast.iter_child_nodes(node):
            yield from self._within(child, callee, when)

    @staticmethod
    def _makes(call: ast.Call, callee: str) -> bool:
        match call.func:
            case ast.Name(id=name):
                return name == callee
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
                return isinstance(call.args[0], ast.Constant) and callee == "Declined"
        return False

    def _said_of(self, node: ast.AST) -> str:
        """What an exception's own docstring says that it means."""
        named = getattr(self._module, node.id, None) if isinstance(node, ast.Name) else None
        if not inspect.isclass(named) or named.__module__.partition(".")[0] not in ("mirror", "server"):
            return ""
        documented = inspect.getdoc(named) or ""
        return " ".join(documented.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=values):
                return "".join(map(self._text, values)).replace("\0\0", ": ").replace("\0", "")
            case ast.FormattedValue(value=value):
                return f"\0{_placeholder(value)}\0"
            case ast.Name(id=name):
                return self.constants.get(name, "")
        return ""


def _placeholder(value: ast.expr) -> str:
    """A word for what is put into a text: the first name in the expression that says something."""
    names = [getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(value)]
    if "len" in names:
        return "N"
    return next((name for name in names if name not in ("", "str", "exc", "join")), "reason").upper().strip("_")
