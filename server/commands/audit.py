"""`postmirror audit`: reading the audit log."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from config.identity import Settings
from server.amounts import counted
from server.commands.options import ConfigOption, load

if TYPE_CHECKING:
    from server.audit.chain import Chain


@click.group()
def audit() -> None:
    """Show what every token did, and check that the log is whole."""


@audit.command("verify")
@ConfigOption
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def audit_verify(config_path: Path | None, as_json: bool) -> None:
    """Check every line against the one before it. Exits 0 when the log is whole, 1 when it is not."""
    from server.audit.report import verify

    _, settings = load(config_path)
    verdict = verify(_chain(settings))
    if as_json:
        found = {"lines": verdict.lines, "files": verdict.files, "problems": verdict.problems}
        click.echo(json.dumps(found))
    else:
        for problem in verdict.problems:
            click.echo(problem, err=True)
        state = counted(len(verdict.problems), "problem") if verdict.problems else "whole"
        click.echo(f"{state}: {counted(verdict.lines, 'line')} in {counted(verdict.files, 'file')}")
    sys.exit(1 if verdict.problems else 0)


@audit.command("tail")
@ConfigOption
@click.option("-n", "--lines", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def audit_tail(config_path: Path | None, lines: int, as_json: bool) -> None:
    """Print the last events, oldest first."""
    from server.audit.report import tail

    _, settings = load(config_path)
    events = list(tail(settings.server.data_dir / "audit", lines))
    if not events and not as_json:
        click.echo("no event yet: tool calls, sends, refused logins and the like will be here")
    for event in events:
        if as_json:
            click.echo(json.dumps(event))
        else:
            named = " ".join(f"{name}={value}" for name, value in event.items() if name not in ("seq", "at", "event"))
            click.echo(f"{event.get('at')}  {event.get('event')}  {named}")


def _chain(settings: Settings) -> "Chain":
    from server.audit.chain import Chain
    from server.key import DataKey

    return Chain(
        settings.server.data_dir, DataKey(settings.server.data_dir), settings.audit.file_size, settings.audit.files
    )
