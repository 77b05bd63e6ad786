"""Searches and reads of the gateway tools beside simple-email-gw's. `python -m bench.gateway --messages 20000`.

Both over stdio, with the SDK's client, on the same mailbox of a Dovecot over TLS. The other program counts every read
against 60 operations a minute, so that it is asked a few times only.
"""

import statistics
import tempfile
import time
from pathlib import Path

import anyio
import click
from mcp.client import Client

from bench.installation import fill
from tests.servers.dovecot import Dovecot
from tests.servers.simple_email_gw import ACCOUNT, ask, environment, installed, ours, theirs

LOGIN = "bench@example.org"
WORDS = ("quarterly", "delivery", "meeting", "budget", "question", "holiday")
SEARCHES = {
    "search: FROM": [f"FROM user{number}" for number in (3, 17, 42, 99, 123, 250)],
    "search: SUBJECT": [f"SUBJECT {word}" for word in WORDS],
    "search: BODY": [f"BODY {word}" for word in WORDS],
    "search: TEXT": [f"TEXT {word}" for word in WORDS],
    "search: SINCE": [f"SINCE {day}-Jun-2020" for day in (1, 5, 9, 13, 17, 21)],
}
REPEATS = 5
READS = 6


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
    click.echo(
        f"{mailbox.described}; medians of {REPEATS} x {len(WORDS)} calls (ours) and {len(WORDS)} (theirs), in ms"
    )
    click.echo(f"{'':<18}{'simple-email-gw':>16}{'postmirror':>12}{'ratio':>8}")
    for kind, (their_times, our_times) in taken.items():
        slow, fast = (1_000 * statistics.median(each) for each in (their_times, our_times))
        click.echo(f"{kind:<18}{slow:>16.1f}{fast:>12.2f}{slow / fast:>7.0f}x")


async def _measure(command: Path, variables: dict[str, str], home: Path) -> dict[str, tuple[list[float], list[float]]]:
    async with ours(variables, home) as our_client:
        await _until_complete(our_client)
        async with theirs(command, variables, home) as their_client:
            await _timed(their_client, "search_emails", criteria="ALL")
            taken: dict[str, tuple[list[float], list[float]]] = {}
            for kind, criteria in SEARCHES.items():
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
    found = await ask(client, "search_emails", account=ACCOUNT, criteria="ALL", limit=READS)
    return [str(each) for each in found.value["message_ids"]]


async def _timed(client: Client, tool: str, **arguments: object) -> float:
    began = time.perf_counter()
    said = await ask(client, tool, account=ACCOUNT, **arguments)
    seconds = time.perf_counter() - began
    if said.is_error:
        raise RuntimeError(f"{tool} {arguments}: {said.value}")
    return seconds


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
