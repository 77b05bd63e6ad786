"""Clients of other makers against `serve` and `stdio`: the TypeScript ones of both generations, and the inspector."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.install import FOLDER, HERE, NODE
from tests.server.test_many_calls import serving

INSPECTOR = FOLDER / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
FIRST = {"relay": "list_folders", "gateway": "list_accounts"}
_SECONDS = 60

pytestmark = pytest.mark.skipif(
    not (FOLDER / "complete").is_file(),
    reason="the clients are not here: `python -m tests.conformance.install` fetches them from the npm registry",
)


def ran(*command: str | Path, cwd: Path = FOLDER) -> str:
    """What a command prints; fails with it when the command does."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout


def test_typescript_clients_of_both_generations_list_and_call_tools(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url, secrets):
        for generation in ("sdk", "client"):
            for profile, secret in secrets.items():
                told = json.loads(ran(NODE, HERE / "call.mjs", generation, f"{url}/mcp", secret))
                assert told["names"][0] == FIRST[profile]
                assert not told["good"].get("isError")
                assert told["bad"]["isError"]


@pytest.mark.soak
@pytest.mark.skipif(not INSPECTOR.is_file(), reason="the inspector comes with `--all`")
def test_the_inspector_finds_every_schema_portable_in_both_eras(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url, secrets):
        for era in ("legacy", "modern"):
            strict = ("--protocol-era", era, "--method", "tools/list", "--strict")
            for profile, secret in secrets.items():
                over_http = ran(
                    NODE, INSPECTOR, "--cli", f"{url}/mcp", "--header", f"Authorization: Bearer {secret}", *strict
                )
                stdio = (sys.executable, "-m", "server.cli", "stdio", "--user", "alice", "--profile", profile)
                config = f"POSTMIRROR_CONFIG={tmp_path / 'postmirror.toml'}"
                over_stdio = ran(
                    NODE,
                    INSPECTOR,
                    "--cli",
                    "--cwd",
                    HERE.parents[1],
                    "-e",
                    config,
                    *strict,
                    *stdio,
                    "--provider",
                    "work",
                )
                for printed in (over_http, over_stdio):
                    assert json.loads(printed)["tools"][0]["name"] == FIRST[profile]
