"""Searches and reads of the gateway tools beside simple-email-gw's. `python -m bench.gateway --messages 20000`.

Both over stdio, on the same mailbox of a Dovecot over TLS, asked in turn: by a client that does no more than exchange
lines of JSON, and by the SDK's, which takes half a millisecond of its own for a call. The other program counts every
read against 60 operations a minute, so that it is asked a few times only. First comes how soon ours answers after its
very first start, when nothing is mirrored yet.
"""

import json
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import click
from mcp.client import Client

from bench.clients import LineClient
from bench.installation import SEED, fill
from bench.mail import generate
from tests.servers.dovecot import Dovecot
from tests.servers.simple_email_gw import (
    ACCOUNT,
    ask,
    environment,
    installed,
    our_program,
    ours,
    their_program,
    theirs,
)

LOGIN = "bench@example.org"
ASKED = 6
READ = 20
REPEATS = 10
SAMPLE = 400

Taken = dict[str, tuple[list[float], list[float]]]
"""Seconds of the calls of each kind: theirs, and ours."""


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
        variables = environment(dovecot, LOGIN, home)
        anyio.run(_first_start, variables, home)
        lines = _by_lines(command, variables, home)
        sdk = anyio.run(_by_the_sdk, command, variables, home)
    click.echo(f"{mailbox.described}; medians in ms")
    click.echo(f"{'':<18}{'simple-email-gw':>16}{'postmirror':>12}{'ratio':>8}    by the SDK's client{'ratio':>8}")
    for kind in lines:
        shown = [[1_000 * statistics.median(each) for each in taken[kind]] for taken in (lines, sdk)]
        (slow, fast), (slow_sdk, fast_sdk) = shown
        click.echo(
            f"{kind:<18}{slow:>16.1f}{fast:>12.2f}{slow / fast:>7.0f}x"
            f"{slow_sdk:>14.1f}{fast_sdk:>9.2f}{slow_sdk / fast_sdk:>7.0f}x"
        )


async def _first_start(variables: Mapping[str, str], home: Path) -> None:
    began = time.perf_counter()
    async with ours(variables, home) as client:
        await _first_answers(client, began)
        await _until_complete(client)
        click.echo(f"everything mirrored after {time.perf_counter() - began:.1f} s")


def _kinds(ids: Callable[[], tuple[list[str], list[str]]]) -> Iterable[tuple[str, str, list[tuple[Any, Any]]]]:
    """(kind, tool, what is asked of the other program and of ours). ids: of the newest mails, for each of the two."""
    for kind, criteria in searches().items():
        yield kind, "search_emails", [({"criteria": each}, {"criteria": each}) for each in criteria]
    same = zip(*ids(), strict=True)
    yield "get_email", "get_email", [({"message_id": one}, {"message_id": other}) for one, other in same]


def _by_lines(command: Path, variables: Mapping[str, str], home: Path) -> Taken:
    with ExitStack() as stack:
        their_client, our_client = (
            stack.enter_context(LineClient(program, home / "errors.log"))
            for program in (their_program(command, variables, home), our_program(variables, home))
        )

        def newest(client: LineClient) -> list[str]:
            answer = client.call("search_emails", {"account": ACCOUNT, "criteria": "ALL", "limit": READ})
            return [str(each) for each in answer["message_ids"]]

        def timed(client: LineClient, tool: str, arguments: Mapping[str, Any]) -> float:
            began = time.perf_counter()
            client.call(tool, {"account": ACCOUNT, **arguments})
            return time.perf_counter() - began

        taken: Taken = {}
        for kind, tool, asked in _kinds(lambda: (newest(their_client), newest(our_client))):
            timed(their_client, tool, asked[0][0])
            for _, of_ours in asked:
                timed(our_client, tool, of_ours)
            slow, fast = taken.setdefault(kind, ([], []))
            for of_theirs, of_ours in asked:
                slow.append(timed(their_client, tool, of_theirs))
                fast.extend(timed(our_client, tool, of_ours) for _ in range(REPEATS))
        return taken


async def _by_the_sdk(command: Path, variables: Mapping[str, str], home: Path) -> Taken:
    async with ours(variables, home) as our_client, theirs(command, variables, home) as their_client:
        both = [await _ids(client) for client in (their_client, our_client)]
        taken: Taken = {}
        for kind, tool, asked in _kinds(lambda: (both[0], both[1])):
            await _timed(their_client, tool, asked[0][0])
            for _, of_ours in asked:
                await _timed(our_client, tool, of_ours)
            slow, fast = taken.setdefault(kind, ([], []))
            for of_theirs, of_ours in asked:
                slow.append(await _timed(their_client, tool, of_theirs))
                fast.extend([await _timed(our_client, tool, of_ours) for _ in range(REPEATS)])
        return taken


async def _ids(client: Client) -> list[str]:
    found = await ask(client, "search_emails", account=ACCOUNT, criteria="ALL", limit=READ)
    return [str(each) for each in found.value["message_ids"]]


async def _timed(client: Client, tool: str, arguments: Mapping[str, Any]) -> float:
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
