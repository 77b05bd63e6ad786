"""The other program of these tools, simple-email-gw from PyPI, beside ours: both over stdio, on the same mailbox.

It is fetched into a virtual environment of its own, once, and only by long runs and benchmarks.
"""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

from tests.servers.dovecot import Dovecot
from tests.servers.ports import HOST

ROOT = Path(__file__).parents[2]
RELEASE = "simple-email-gw==0.3.1"
ACCOUNT = "main"


@dataclass(frozen=True, slots=True)
class Said:
    """What a call answered. value: its JSON, or the text of its error."""

    value: Any
    is_error: bool


def installed(folder: Path) -> Path | None:
    """Its command, fetched from PyPI into this folder where it is not there yet; None without a network."""
    command = folder / "bin" / "email-gw-mcp-server"
    if not command.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
            install = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", RELEASE]
            subprocess.run(install, check=True, capture_output=True, timeout=300)
        except (subprocess.SubprocessError, OSError):
            return None
    return command


def environment(dovecot: Dovecot, user: str, home: Path) -> dict[str, str]:
    """One client's entry for either program."""
    assert dovecot.certificates is not None
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SSL_CERT_FILE": str(dovecot.certificates.ca_file),
        "EMAIL_IMAP_HOST": HOST,
        "EMAIL_IMAP_PORT": str(dovecot.tls_port),
        "EMAIL_SMTP_HOST": HOST,
        "EMAIL_SMTP_PORT": "9",
        "EMAIL_USERNAME": user,
        "EMAIL_PASSWORD": dovecot.password,
        "EMAIL_ACCOUNT_NAME": ACCOUNT,
        "EMAIL_WORKSPACE": str(home / "files"),
    }


def their_program(command: Path, variables: Mapping[str, str], home: Path) -> StdioServerParameters:
    """How the other program is started."""
    return StdioServerParameters(command=str(command), env=dict(variables), cwd=home)


def our_program(variables: Mapping[str, str], home: Path) -> StdioServerParameters:
    """How ours is started under the same environment."""
    arguments = ["-m", "server.cli", "stdio"]
    own = {**variables, "PYTHONPATH": str(ROOT)}
    return StdioServerParameters(command=sys.executable, args=arguments, env=own, cwd=home)


@asynccontextmanager
async def theirs(command: Path, variables: Mapping[str, str], home: Path) -> AsyncIterator[Client]:
    """A session with the other program."""
    async with _session(their_program(command, variables, home), home) as client:
        yield client


@asynccontextmanager
async def ours(variables: Mapping[str, str], home: Path) -> AsyncIterator[Client]:
    """A session with ours."""
    async with _session(our_program(variables, home), home) as client:
        yield client


@asynccontextmanager
async def _session(parameters: StdioServerParameters, home: Path) -> AsyncIterator[Client]:
    with (home / "errors.log").open("a") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield client


async def ask(client: Client, tool: str, **arguments: object) -> Said:
    """One call."""
    try:
        result = await client.call_tool(tool, dict(arguments))
    except RuntimeError as exc:
        # The SDK's client refuses an answer that is against the tool's own output schema.
        return Said(str(exc).partition(":")[0], is_error=True)
    assert isinstance(result, CallToolResult)
    text = next((block.text for block in result.content if isinstance(block, TextContent)), "null")
    if result.is_error:
        return Said(text, is_error=True)
    return Said(json.loads(text), is_error=False)
