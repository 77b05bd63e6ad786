"""What the documents say is what the code does: every key, tool, argument, error, command and file they name."""

import ast
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from config.identity import Settings
from config.profile import TOOL_SETS
from config.settings import example_text, parse_settings, presets
from server.cli import main
from server.offered import tools_of
from server.reference import renewed

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text("utf-8")
TOOLS = (ROOT / "docs" / "tools.md").read_text("utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def keys_of(model: type[BaseModel]) -> set[str]:
    """Every key that a table of the configuration may have, at any depth."""
    found = set()
    for name, field in model.model_fields.items():
        found.add(field.alias or name)
        for inner in models_in(field.annotation):
            found |= keys_of(inner)
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, tuple, Annotated) or get_args(annotation):
        return [model for part in get_args(annotation) for model in models_in(part)]
    return []


@pytest.mark.parametrize("key", sorted(keys_of(Settings) - {"users", "providers", "profiles", "tokens", "server"}))
def test_every_key_is_documented_and_in_the_example(key: str) -> None:
    assert re.search(rf"\b{key}\b", CONFIGURATION)
    assert re.search(rf"\b{key}\b", example_text())


def test_example_configuration_loads(tmp_path: Path) -> None:
    settings = parse_settings(example_text(), tmp_path / "postmirror.toml")
    assert settings.users["alice"].providers["private"].imap.host == "imap.fastmail.com"
    assert settings.resolve(settings.tokens[0])[2].outbound is not None


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_is_documented_and_complete(name: str) -> None:
    assert name in CONFIGURATION
    host = "" if name == "generic" else "\nimap = {}\nsmtp = {}"
    if name == "generic":
        host = '\nimap = { host = "mail.example.org" }\nsmtp = { host = "mail.example.org" }'
    text = f'[users.a.providers.b]\nprovider = "{name}"\naddress = "a@example.org"{host}'
    provider = parse_settings(text, Path("postmirror.toml")).users["a"].providers["b"]
    assert provider.smtp is not None
    assert {provider.imap.security, provider.smtp.security} <= {"tls", "starttls"}


def test_tools_and_errors_are_documented_as_the_code_has_them() -> None:
    assert renewed(TOOLS) == TOOLS, "run python -m server.reference docs/tools.md"


def test_profiles_may_name_the_tools_that_there_are() -> None:
    assert TOOL_SETS["relay"].names == tuple(tool.name for tool in tools_of("relay"))
    assert TOOL_SETS["gateway"].names == tuple(tool.name for tool in tools_of("gateway"))


def texts_of(file: str, callee: str) -> list[str]:
    """The literal pieces of text that are passed to an error, in the order of the file."""
    pieces = []
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == callee and node.args:
            text = node.args[0]
            values = text.values if isinstance(text, ast.JoinedStr) else [text]
            pieces += [each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return [piece for piece in pieces if len(piece.strip()) > 3]


@pytest.mark.parametrize("file", sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "server").rglob("*.py")))
def test_every_error_text_is_documented(file: str) -> None:
    for text in (*texts_of(file, "Declined"), *texts_of(file, "Denial"), *texts_of(file, "PathRefused")):
        assert text.strip() in TOOLS, text


def test_every_command_is_documented() -> None:
    for name, command in main.commands.items():
        assert f"postmirror {name}" in OPERATIONS
        for inner in getattr(command, "commands", {}):
            assert f"{name} {inner}" in OPERATIONS


@pytest.mark.parametrize(
    "document", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_every_file_a_document_names_is_there(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def test_follow_one_message_names_the_modules_that_run() -> None:
    section = README.split("## Follow one message")[1].split("\n## ")[0]
    named = {target[:-3].replace("/", ".") for target in re.findall(r"\]\(([^)]+\.py)\)", section)}
    code = "import server.serve, mirror.worker, mirror.parse_child, mirror.sanitize, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert named <= set(loaded), named - set(loaded)


def test_no_other_distribution_ships_our_package_names() -> None:
    from importlib.metadata import packages_distributions

    shipped = packages_distributions()
    for name in ("config", "mirror", "server"):
        assert set(shipped.get(name, [])) <= {"postmirror"}


def test_every_check_that_is_silenced_says_why() -> None:
    """After the code and a dash, or in a comment behind the first one."""
    reasoned = re.compile(r"(?:noqa: [A-Z0-9, ]+ - \S|type: ignore\[[a-z, -]+\]  # \S|fmt: (?:skip|off))")
    silent = re.compile(r"# (?:ruff: )?noqa|# type: ignor[e]")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in ("config", "mirror", "server", "tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if silent.search(line) and not reasoned.search(line)
    ]
    assert found == []
