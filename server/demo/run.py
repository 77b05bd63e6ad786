"""`postmirror demo`: the sample mailbox mirrored in front of the user, then served until Ctrl-C."""

import json
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from config.identity import Settings
from config.settings import load_settings
from mirror.database import private_folder
from mirror.log import configure_logging
from mirror.report import Progress
from server.demo.servers import DemoServers, start_demo_servers
from server.passes import sync_now
from server.serve import serve
from server.state import State

_PORT = 8765
_USER, _PROVIDER, _PROFILE = "alice", "demo", "assistant"

_CONFIGURATION = """\
# Written by `postmirror demo` at every start; edit a copy.
[server]
port = {port}
data_dir = "data"
workspace = "workspace"

[users.alice.providers.demo]
address = "{servers.address}"
display_name = "{servers.display_name}"
username = "{servers.username}"
password = {{ file = "password" }}
imap = {{ host = "{servers.host}", port = {servers.imap_port}, security = "plain" }}
smtp = {{ host = "{servers.host}", port = {servers.smtp_port}, security = "plain" }}
sync = {{ interval = "30s" }}

[profiles.assistant]
tools = "relay"
[[profiles.assistant.folders]]
match = "INBOX"
access = "write"
[[profiles.assistant.folders]]
match = "*"
access = "read"
[profiles.assistant.content]
attachments = {{ max_size = 10000000 }}
[profiles.assistant.outbound]
to_allow = ["*"]
"""


def run_demo(folder: Path, *, once: bool = False, port: int | None = None, console: Console | None = None) -> None:
    """Run until Ctrl-C, or with once until one search and one read were answered. Writes below folder only."""
    console = console or Console()
    configure_logging("demo", level=30)
    private_folder(folder)
    with start_demo_servers(folder, announce=lambda line: console.print(line, markup=False)) as servers:
        config = _configure(folder, servers, _free_port(port))
        settings = load_settings(config)
        _mirror(settings, console)
        name, secret = _token(settings)

        def ready() -> None:
            if once:
                threading.Thread(target=_ask_and_stop, args=(settings, secret, console), daemon=True).start()
            else:
                _explain(settings, secret, console)

        try:
            serve(config, settings, ready=ready)
        except KeyboardInterrupt:
            pass
        finally:
            with closing(State(settings.server.data_dir)) as state:
                state.revoke(name)


def _configure(folder: Path, servers: DemoServers, port: int) -> Path:
    password = folder / "password"
    _write_private(password, servers.password)
    config = folder / "postmirror.toml"
    _write_private(config, _CONFIGURATION.format(servers=servers, port=port))
    return config


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")


def _free_port(wanted: int | None) -> int:
    if wanted:
        return wanted
    for candidate in (_PORT, 0) if wanted is None else (0,):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port")


def _mirror(settings: Settings, console: Console) -> None:
    columns = (TextColumn("mirroring the sample mailbox"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, console=console, transient=not console.is_terminal) as bars:
        task = bars.add_task("mirror", total=None)

        def notice(_: str, progress: Progress) -> None:
            bars.update(task, completed=progress.done, total=progress.total)

        (outcome,) = sync_now(settings, [f"{_USER}/{_PROVIDER}"], notice)
    if not outcome.complete:
        raise RuntimeError(f"the sample mailbox could not be mirrored: {outcome.error or outcome.report}")
    messages = sum(folder["messages"] for folder in outcome.report["folders"].values())
    console.print(f"{messages} messages in {len(outcome.report['folders'])} folders, {outcome.report['seconds']:.1f} s")


def _token(settings: Settings) -> tuple[str, str]:
    with closing(State(settings.server.data_dir)) as state:
        name = f"demo-{secrets.token_hex(4)}"
        return state.issue_token(_USER, _PROFILE, provider=_PROVIDER, name=name)


def _explain(settings: Settings, secret: str, console: Console) -> None:
    url = f"{settings.server.url}/mcp"
    header = {"Authorization": f"Bearer {secret}"}
    entry = json.dumps({"mcpServers": {"postmirror": {"type": "http", "url": url, "headers": header}}}, indent=2)
    say: Callable[[str], None] = lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)  # noqa: E731
    console.print(Panel.fit("Postmirror is serving a sample mailbox. Ctrl-C ends it.", border_style="green"))
    say(f"URL    {url}\nToken  {secret}\n")
    say("Claude Code:")
    say(f'  claude mcp add --transport http postmirror {url} --header "Authorization: Bearer {secret}"\n')
    say("Other MCP clients that speak HTTP (mcp.json or the like):")
    say(entry)
    say(
        "\nThree things to ask your agent:\n"
        "  - What is unread in my inbox, and what is urgent?\n"
        "  - Find the invoices of this year and add up their totals.\n"
        "  - Flag the last message from the bank, and draft a reply to the newest thread."
    )


def _ask_and_stop(settings: Settings, secret: str, console: Console) -> None:
    import os
    import signal

    try:
        anyio.run(_ask, settings, secret, console)
    finally:
        os.kill(os.getpid(), signal.SIGINT)


async def _ask(settings: Settings, secret: str, console: Console) -> None:
    """One search and one read, as any client asks them."""
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"{settings.server.url}/mcp", http_client=http)
        async with Client(transport) as client:
            found = await _call(client, "search_messages", folder="INBOX", query="subject invoice")
            console.print_json(json.dumps(found))
            first = found["messages"][0]["uid"]
            console.print_json(json.dumps(await _call(client, "read_message", folder="INBOX", uid=first)))


async def _call(client: Client, tool: str, **arguments: str) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    text = "".join(getattr(block, "text", "") for block in answer.content)
    if answer.is_error:
        raise RuntimeError(f"{tool}: {text}")
    parsed: dict[str, Any] = json.loads(text)
    return parsed
