"""The names of faults are told to operators, who write scripts over them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_NAMED = re.compile(r'\b(?:warn|fail|_Shut)\(\s*"([a-z0-9-]+)"')


def names() -> set[str]:
    """The name of every fault in the code."""
    return {name for path in (ROOT / "server" / "doctor").glob("*.py") for name in _NAMED.findall(path.read_text())}


@pytest.mark.parametrize("name", sorted(names()))
def test_every_fault_is_documented(name: str) -> None:
    section = (ROOT / "docs" / "operations.md").read_text("utf-8").split("## What doctor finds")[1].split("\n## ")[0]
    assert f"`{name}`" in section
