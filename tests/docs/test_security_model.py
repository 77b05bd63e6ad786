"""The security model names what there is: every route, every file that is kept, every event that is written down."""

import ast
import re
from pathlib import Path

import pytest

from server.app import build_app
from server.certificate import LOOK_EVERY
from server.gate import FAILURES, FAILURES_PER_SECOND
from server.links import GOOD_FOR
from tests.server.door import Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "docs" / "security-model.md").read_text("utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
EVENT_CALLS = ("note", "record", "recorded", "_tell", "_entry")


def events() -> set[str]:
    """Every event that the code writes into the audit log."""
    found = set()
    for path in (ROOT / "server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            first = node.args[0]
            if name in EVENT_CALLS and isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add(first.value)
    return found | {"audit", "keys"}


@pytest.mark.parametrize("event", sorted(events()))
def test_every_event_of_the_audit_log_is_documented(event: str) -> None:
    table = OPERATIONS.split("## The audit log")[1].split("\n## ")[0]
    assert f"`{event}`" in table


def test_every_route_and_every_kept_file_is_named(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port())
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [Mail()])])
    with Door(settings) as door:
        door.caller().call("list_folders")
        door.parts.audit.record("send", "begun")
        routes = {route.path for route in build_app(door.parts).routes}  # type: ignore[attr-defined]  # every route of ours has a path
        kept = {path.relative_to(data_dir) for path in data_dir.rglob("*") if path.is_file()}
    table = MODEL.split("HTTP has these routes")[1].split("## ")[0]
    assert set(re.findall(r"`(?:GET|POST) (/[^`]*)`", table)) == routes
    for path in kept:
        if path.parts[0] == "audit":
            assert "`audit/`" in MODEL
        elif path.parts[0] == "mirrors":
            assert path.name.removesuffix("-wal").removesuffix("-shm") in MODEL
        else:
            assert f"`{path.name.removesuffix('-wal').removesuffix('-shm')}`" in MODEL, path


def test_the_figures_are_those_of_the_code() -> None:
    assert f"after {FAILURES} failed attempts" in MODEL
    assert FAILURES_PER_SECOND == 0.5
    assert "one more every two seconds" in MODEL
    assert GOOD_FOR == 300
    assert LOOK_EVERY <= 10
