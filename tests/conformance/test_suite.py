"""The MCP conformance suite, both revisions of the protocol that we serve, against the application as it is served."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server import app
from tests.conformance.everything import everything_server
from tests.conformance.install import FOLDER, NODE
from tests.conformance.open_door import open_door

SUITE = FOLDER / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

REVISIONS = ("2025-11-25", "2026-07-28")
_SECONDS = 300
GENERIC = {
    "2025-11-25": ("server-initialize", "ping", "tools-list", "dns-rebinding-protection"),
    "2026-07-28": ("tools-list", "dns-rebinding-protection", "http-header-validation", "server-sse-multiple-streams"),
}
"""Scenarios that need nothing of fixed names, by revision."""
WITH_RESOURCES = {
    "2025-11-25": ("resources-list", "prompts-list"),
    "2026-07-28": ("resources-list", "prompts-list", "caching", "sep-2164-resource-not-found"),
}

pytestmark = pytest.mark.skipif(
    not (FOLDER / "complete").is_file(),
    reason="the conformance suite is not here: `python -m tests.conformance.install` fetches it from the npm registry",
)


def run(url: str, *arguments: str | Path) -> str:
    """What the suite prints; fails with it unless everything was as expected."""
    done = subprocess.run(
        [NODE, SUITE, "server", "--url", f"{url}/mcp", *arguments],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    return done.stdout


@pytest.fixture
def everything(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a tool set with everything that the suite asks for is served, in the place of the relay tools."""
    monkeypatch.setitem(app.PROFILES, "relay", lambda parts, caller: everything_server())
    with open_door(data_dir, "relay") as door:
        yield door.url


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_a_revision_requires_passes_or_fails_for_a_reason_that_is_written_down(
    everything: str, revision: str
) -> None:
    expected = Path(__file__).with_name(f"expected-{revision}.yaml")
    printed = run(everything, "--requirements", revision, "--expected-failures", expected)
    passed, failed = map(int, re.findall(r"Total: (\d+) passed, (\d+) failed", printed)[-1])
    sys.stdout.write(
        f"conformance {revision}: {passed} checks passed, {failed} failed as expected or without a score\n"
    )
    assert passed > 50


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("profile", ["relay", "gateway"])
def test_what_needs_no_fixed_names_passes_with_the_real_tools(data_dir: Path, profile: str, revision: str) -> None:
    scenarios = GENERIC[revision] + (WITH_RESOURCES[revision] if profile == "gateway" else ())
    with open_door(data_dir, profile) as door:
        for scenario in scenarios:
            printed = run(door.url, "--scenario", scenario, "--spec-version", revision)
            assert "0 failed" in printed
