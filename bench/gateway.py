"""Searches and reads of the gateway tools beside simple-email-gw's. `python -m bench.gateway --messages 20000`.

Both over stdio, with the SDK's client, on the same mailbox of a Dovecot over TLS. The other program counts every read
against 60 operations a minute, so that it is asked a few times only. First comes how soon ours answers after its very
first start, when nothing is mirrored yet.
"""

import json
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio
import click
from mcp.client import Client

from bench.installation import SEED, fill
from bench.mail import generate
from tests.servers.dovecot import Dovecot
from tests.servers.simple_email_gw import ACCOUNT, ask, environment, installed, ours, theirs

LOGIN = "bench@example.org"
ASKED = 6
REPEATS = 5
SAMPLE = 400


def searches() -> dict[str, list[str]]:
    """Criteria of each kind, of words that the mailbox has: common ones and rare ones."""
    raws = [raw for raw in generate(SAMPLE, SEED) if b"base64" not in raw]
    counts = Counter(
        word for raw in raws for word in set(re.findall(rb"\b[a-z]{5,9}\b", raw.partition(b"\r\n\r\n")[2]))
    )
    ordered = [word.decode() for word, _ in counts.most_common()]
    words = [ordered[len(ordered) * number // ASKED // 2] for number in range(ASKED)]
    subjects = dict.fromkeys(re.findall(r"\nSubject: (?:Re: )?([A-Za-z]{4,9})\b", b"".join(raws).decode("latin-1")))
    return {
        "search: FROM": [f"FROM user{number}" for number in (3, 17, 42, 99, 123, 250)],
        "search: SUBJECT": [f"SUBJECT {word}" for word in [*subjects][:ASKED]],
        "search: BODY": [f"BODY {word}" for word in words],
        "search: TEXT": [f"TEXT {word}" for word in words],
        "search: SINCE": [f"SINCE {day}-Jun-2020" for day in (1, 5, 9, 13, 17, 21)],
    }


@click.command(help=__doc__)
@click.option("--messages", default=20_000, show_default=True, type=click.IntRange(200))
@click.option("--venv", type=click.Path(path_type=Path), default=Path(".bench-simple-email-gw"))
def main(messages: int, venv: Path) -> None:
    """Fill, mirror, ask both and print the table."""
    command = installed(venv.absolute())
    if command is None:
        click.echo("simple-email-gw could not be fetched from PyPI: not compared")
        return
    with tempfile.TemporaryDirectory(prefix="postmirror-bench-") as name, Dovecot() as dovecot:
        home = Path(name)
        mailbox = fill(dovecot, LOGIN, messages)
        taken = anyio.run(_measure, command, environment(dovecot, LOGIN, home), home)
    click.echo(f"{mailbox.described}; medians of {REPEATS} x {ASKED} calls (ours) and {ASKED} (theirs), in ms")
    click.echo(f"{'':<18}{'simple-email-gw':>16}{'postmirror':>12}{'ratio':>8}")
    for kind, (their_times, our_times) in taken.items():
        slow, fast = (1_000 * statistics.median(each) for each in (their_times, our_times))
        click.echo(f"{kind:<18}{slow:>16.1f}{fast:>12.2f}{slow / fast:>7.0f}x")


async def _measure(command: Path, variables: dict[str, str], home: Path) -> dict[str, tuple[list[float], list[float]]]:
    began = time.perf_counter()
    async with ours(variables, home) as our_client:
        await _first_answers(our_client, began)
        await _until_complete(our_client)
        click.echo(f"everything mirrored after {time.perf_counter() - began:.1f} s")
        async with theirs(command, variables, home) as their_client:
            await _timed(their_client, "search_emails", criteria="ALL")
            taken: dict[str, tuple[list[float], list[float]]] = {}
            for kind, criteria in searches().items():
                their_times = [await _timed(their_client, "search_emails", criteria=each) for each in criteria]
                for each in criteria:
                    await _timed(our_client, "search_emails", criteria=each)
                our_times = [await _timed(our_client, "search_emails", criteria=each) for each in criteria * REPEATS]
                taken[kind] = their_times, our_times
            their_ids = await _ids(their_client)
            our_ids = await _ids(our_client)
            taken["get_email"] = (
                [await _timed(their_client, "get_email", message_id=each) for each in their_ids],
                [await _timed(our_client, "get_email", message_id=each) for each in our_ids * REPEATS],
            )
            return taken


async def _ids(client: Client) -> list[str]:
    found = await ask(client, "search_emails", account=ACCOUNT, criteria="ALL", limit=ASKED)
    return [str(each) for each in found.value["message_ids"]]


async def _timed(client: Client, tool: str, **arguments: object) -> float:
    began = time.perf_counter()
    said = await ask(client, tool, account=ACCOUNT, **arguments)
    seconds = time.perf_counter() - began
    if said.is_error:
        raise RuntimeError(f"{tool} {arguments}: {said.value}")
    return seconds


async def _first_answers(client: Client, began: float) -> None:
    """Say how soon after its start each first answer came, and what it said of what is not there yet."""
    for tool, arguments in (("list_folders", {}), ("search_emails", {}), ("search_emails", {"criteria": "FROM user3"})):
        result = await client.call_tool(tool, {"account": ACCOUNT, **arguments})
        seconds = time.perf_counter() - began
        answer, *notes = [block.text for block in getattr(result, "content", ()) if block.type == "text"]
        found = json.loads(answer)
        count = found["count"] if isinstance(found, dict) else len(found)
        click.echo(f"first {tool} {arguments or ''}: {seconds:.2f} s after the start, {count} found; {' '.join(notes)}")


async def _until_complete(client: Client) -> None:
    """Return when the mirror has everything."""
    while True:
        result = await client.call_tool("search_emails", {"account": ACCOUNT, "limit": 1})
        meta = getattr(result, "meta", None) or {}
        if meta.get("postmirror/complete"):
            return
        await anyio.sleep(1)


if __name__ == "__main__":
    main()
