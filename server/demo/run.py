"""`postmirror demo`: the sample mailbox mirrored in front of the user, then served until Ctrl-C."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
from mirror.lock import Lock
from mirror.log import configure_logging
from mirror.report import Progress
from server.amounts import counted
from server.demo.servers import DemoServers, start_demo_servers
from server.passes import sync_now
from server.serve import AlreadyServing, serve
from server.state.store import State, digest

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
# pymap 0.36.7 hangs up when its maildir backend is asked for an EMAILID.
imap = {{ host = "{servers.host}", port = {servers.imap_port}, security = "plain", disable = ["OBJECTID"] }}
smtp = {{ host = "{servers.host}", port = {servers.smtp_port}, security = "plain" }}
sync = {{ interval = "30s" }}

[profiles.assistant]
tools = "relay"
[[profiles.assistant.folders]]
match = "\\\\Sent"
access = "read"
[[profiles.assistant.folders]]
match = "*"
access = "write"
[profiles.assistant.content]
attachments = {{ max_size = 10000000 }}
[profiles.assistant.outbound]
to_allow = ["*"]
"""


def run_demo(folder: Path, *, once: bool = False, port: int | None = None, console: Console | None = None) -> None:
    """Run until Ctrl-C, or with once until one search and one read were answered. Writes below folder only.

    Token and port stay the same from one start to the next. Raises AlreadyServing when a demo runs in this folder, and
    OSError when the port is not to be had.
    """
    console = console or Console()
    configure_logging("demo", level=30)
    with (
        _alone(private_folder(folder)),
        start_demo_servers(folder, announce=lambda line: console.print(line, markup=False)) as servers,
    ):
        config = _configure(folder, servers, _free_port(port))
        settings = load_settings(config)
        _mirror(settings, console)
        secret = _secret(settings, folder / "token")

        def ready() -> None:
            if once:
                threading.Thread(target=_ask_and_stop, args=(settings, secret, console), daemon=True).start()
            else:
                _explain(settings, secret, console)

        serve(config, settings, ready=ready)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nothing is written before it is sure that no other demo uses the folder."""
    lock = Lock(folder / "demo.lock")
    if not lock.acquire():
        raise AlreadyServing(f"another demo runs in {folder}: use that one, or give this one a --folder of its own")
    try:
        yield
    finally:
        lock.release()


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
            # As a server binds: a port whose last connections are still fading out is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port")


def _mirror(settings: Settings, console: Console) -> None:
    columns = (TextColumn("mirroring the sample mailbox"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("mirror", total=None)

        def notice(_: str, progress: Progress) -> None:
            bars.update(task, completed=progress.done, total=progress.total)

        (outcome,) = sync_now(settings, [f"{_USER}/{_PROVIDER}"], notice)
    if not outcome.complete:
        raise RuntimeError(f"the sample mailbox could not be mirrored: {outcome.error or outcome.report}")
    messages = sum(folder["messages"] for folder in outcome.report["folders"].values())
    console.print(f"{counted(messages, 'message')} mirrored, {outcome.report['seconds']:.1f} s")


def _secret(settings: Settings, path: Path) -> str:
    """The demo's token: made once, and kept beside its mailbox so that a client's entry goes on working."""
    with closing(State(settings.server.data_dir)) as state:
        if path.exists() and state.find_token(digest(path.read_text("ascii")), settings.tokens) is not None:
            return path.read_text("ascii")
        _, secret = state.issue_token(_USER, _PROFILE, provider=_PROVIDER)
    _write_private(path, secret)
    return secret


def _explain(settings: Settings, secret: str, console: Console) -> None:
    url = f"{settings.server.url}/mcp"
    header = {"Authorization": f"Bearer {secret}"}
    entry = json.dumps({"mcpServers": {"postmirror": {"type": "http", "url": url, "headers": header}}}, indent=2)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    console.print(Panel.fit("Postmirror is serving a sample mailbox. Ctrl-C ends it.", border_style="green"))
    say(f"URL    {url}\nToken  {secret}\n")
    say("Claude Code:")
    say(f'  claude mcp add --transport http postmirror {url} --header "Authorization: Bearer {secret}"\n')
    say("Other MCP clients that speak HTTP (mcp.json or the like):")
    say(entry)
    say(
        "\nThree things to ask your agent:\n"
        "  - What is unread in my inbox, and what of it is urgent?\n"
        "  - Which invoices came this year, and from whom?\n"
        "  - Flag the newest message from the bank, then write to bob@example.net about lunch."
        "\n\nWhat is sent stays here, in the folder sent/ beside the demo's mailbox."
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
