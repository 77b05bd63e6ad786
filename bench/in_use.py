"""Memory of the web process while many mailboxes are in use, each by a token of its own."""

import json
import shutil
import time
from pathlib import Path

from bench.accounts import HEAD
from bench.clients import LeanClient, tool_call
from bench.figures import Figure, Section
from bench.installation import Installation, fill, serving
from bench.memory import sizes
from server.state.store import State
from tests.servers.dovecot import Dovecot
from tests.servers.ports import free_port

IDENTITIES = 50
MESSAGES = 400
"""In each mailbox."""
ROUNDS = 10
QUERIES = ("from user3", "body the and not flag seen", "subject re order by date", "not flag seen")
_SETTLE = 2.0

# Nothing listens on port 9: what is measured are reads.
_ACCOUNT = """
[users.user{number}.providers.work]
address = "user{number}@example.org"
imap = {{ host = "127.0.0.1", port = 9, security = "plain" }}
"""


def many_in_use(dovecot: Dovecot, folder: Path) -> Section:
    """PSS and RSS before the first call, after one round of every identity, and after ten."""
    source = Installation(folder / "in-use-source", fill(dovecot, "in-use", MESSAGES))
    source.postmirror("sync", "--json")
    place = folder / "in-use"
    place.mkdir(mode=0o700)
    port = free_port()
    config = place / "postmirror.toml"
    config.touch(mode=0o600)
    config.write_text(HEAD.format(port=port) + "".join(_ACCOUNT.format(number=each) for each in range(IDENTITIES)))
    for number in range(IDENTITIES):
        shutil.copytree(
            source.mirror, place / "data" / "mirrors" / f"user{number}" / "work", ignore=shutil.ignore_patterns("wake")
        )
    (place / "data").chmod(0o700)
    state = State(place / "data")
    secrets = [state.issue_token(f"user{number}", "open")[1] for number in range(IDENTITIES)]
    state.close()
    with serving(config, port) as served, LeanClient(port) as client:
        figures = [_figure("before the first call", served.pid)]
        for number in range(ROUNDS):
            for secret in secrets:
                _use(client, port, secret)
            if number == 0:
                figures.append(_figure("every mailbox used once", served.pid))
        figures.append(_figure(f"used {ROUNDS} times", served.pid))
    note = f"{MESSAGES} messages in each. A use: a list, {len(QUERIES)} searches, and a message read."
    return Section(f"Web process, {IDENTITIES} mailboxes in use", ("PSS", "RSS"), figures, note)


def _use(client: LeanClient, port: int, secret: str) -> None:
    def call(tool: str, **arguments: object) -> dict[str, object]:
        answer = json.loads(client.send(tool_call(port, "/mcp", secret, tool, {"folder": "INBOX", **arguments})))
        result = answer["result"]
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result}")
        found: dict[str, object] = json.loads(result["content"][0]["text"])
        return found

    page = call("list_messages")["messages"]
    for query in QUERIES:
        call("search_messages", query=query)
    if isinstance(page, list):
        call("read_message", uid=page[0]["uid"])


def _figure(name: str, web: int) -> Figure:
    time.sleep(_SETTLE)
    pss, rss = dict(sizes(web))["web process"]
    return Figure(name, pss, "MB", rss)
