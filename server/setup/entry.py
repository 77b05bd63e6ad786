"""What an MCP client is told: the entry for its own configuration, over HTTP and as a program it starts."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

ClientName = Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex", "json"]
CLIENTS: tuple[ClientName, ...] = get_args(ClientName)
_NAME = "postmirror"


@dataclass(frozen=True, slots=True)
class Door:
    """The two ways to one mailbox. url and token: over HTTP; command: the program that speaks over stdio."""

    url: str
    token: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be pasted where. http: while `postmirror serve` runs; stdio: the client starts it itself."""

    http_place: str
    http: str
    stdio_place: str
    stdio: str


def stdio_command(config: Path, user: str, provider: str, profile: str) -> tuple[str, ...]:
    """The argv that serves one mailbox over standard input and output."""
    script = Path(sys.executable).with_name("postmirror")
    program = (str(script),) if script.exists() else (sys.executable, "-m", "server.cli")
    return (
        *(*program, "stdio", "--config", str(config.absolute())),
        *("--user", user, "--provider", provider, "--profile", profile),
    )


def entry(client: ClientName, door: Door) -> Entry:
    """The entry of a client."""
    headers = {"Authorization": f"Bearer {door.token}"}
    program = {"command": door.command[0], "args": list(door.command[1:])}
    match client:
        case "claude-code":
            header = shlex.quote(f"Authorization: Bearer {door.token}")
            return Entry(
                "in a shell",
                f"claude mcp add --transport http {_NAME} {door.url} --header {header}",
                "in a shell",
                f"claude mcp add {_NAME} -- {shlex.join(door.command)}",
            )
        case "claude-desktop":
            # It takes no header for a server of one's own; mcp-remote, started by it, does.
            bridge = ["-y", "mcp-remote", door.url, "--header", "Authorization:${POSTMIRROR_AUTHORIZATION}"]
            remote = {"command": "npx", "args": bridge, "env": {"POSTMIRROR_AUTHORIZATION": headers["Authorization"]}}
            place = "claude_desktop_config.json (Settings, Developer, Edit Config)"
            return Entry(f"{place}, with Node.js", _servers(remote), place, _servers(program))
        case "cursor":
            place = "~/.cursor/mcp.json"
            return Entry(place, _servers({"url": door.url, "headers": headers}), place, _servers(program))
        case "vscode":
            place = ".vscode/mcp.json"
            http = {"type": "http", "url": door.url, "headers": headers}
            return Entry(
                place, _servers(http, key="servers"), place, _servers({"type": "stdio", **program}, key="servers")
            )
        case "codex":
            place = "~/.codex/config.toml"
            table = f"[mcp_servers.{_NAME}]\n"
            return Entry(
                place,
                f"{table}url = {json.dumps(door.url)}\nhttp_headers = {{ Authorization = {_toml(headers)} }}",
                place,
                f"{table}command = {json.dumps(door.command[0])}\nargs = {_list(door.command[1:])}",
            )
        case "json":
            http = {"type": "http", "url": door.url, "headers": headers}
            place = "the client's mcpServers"
            return Entry(place, _servers(http), place, _servers(program))


def _servers(server: object, *, key: str = "mcpServers") -> str:
    return json.dumps({key: {_NAME: server}}, indent=2, ensure_ascii=False)


def _toml(headers: dict[str, str]) -> str:
    return json.dumps(headers["Authorization"])


def _list(words: Sequence[str]) -> str:
    return json.dumps(list(words), ensure_ascii=False)
