"""What clients are told."""

import json
import shlex
import tomllib

import pytest

from server.setup.entry import CLIENTS, ClientName, Door, entry

DOOR = Door("http://127.0.0.1:8765/mcp", "pm_secret", ("/opt/post mirror/bin/postmirror", "stdio", "--user", "me"))


@pytest.mark.parametrize("client", CLIENTS)
def test_both_ways_are_in_the_form_that_the_client_reads(client: ClientName) -> None:
    made = entry(client, DOOR)
    assert DOOR.url in made.http
    assert DOOR.token in made.http
    assert DOOR.token not in made.stdio
    if client == "claude-code":
        assert shlex.split(made.stdio)[-4:] == list(DOOR.command)
        assert shlex.split(made.http)[-1] == "Authorization: Bearer pm_secret"
    elif client == "codex":
        assert tomllib.loads(made.http)["mcp_servers"]["postmirror"]["http_headers"]["Authorization"]
        assert tomllib.loads(made.stdio)["mcp_servers"]["postmirror"]["command"] == DOOR.command[0]
    else:
        key = "servers" if client == "vscode" else "mcpServers"
        assert json.loads(made.stdio)[key]["postmirror"]["args"] == list(DOOR.command[1:])
        assert json.loads(made.http)[key]["postmirror"]
