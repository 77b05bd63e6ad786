"""`postmirror sync`: one full pass now."""

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from mirror.arenas import share_arenas
from mirror.log import configure_logging
from mirror.report import Progress
from server.amounts import counted
from server.commands.options import ConfigOption, load

if TYPE_CHECKING:
    from server.passes import Outcome


@click.command()
@ConfigOption
@click.argument("mirrors", nargs=-1, metavar="[USER/PROVIDER]...")
@click.option("--json", "as_json", is_flag=True, help="Print one summary object.")
def sync(config_path: Path | None, mirrors: tuple[str, ...], as_json: bool) -> None:
    """Make one full pass now.

    Exits 0 when every folder that can be opened is complete, 1 when any is not.
    """
    from server.passes import UnknownMirror, sync_now

    configure_logging("sync", logging.WARNING)
    share_arenas()
    _, settings = load(config_path)
    console = Console(stderr=True)
    bars = Bars(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    tasks: dict[str, Any] = {}

    def notice(mirror: str, progress: Progress) -> None:
        if mirror not in tasks:
            tasks[mirror] = bars.add_task(mirror, total=progress.total)
        bars.update(tasks[mirror], completed=progress.done, total=progress.total)

    try:
        if console.is_terminal and not as_json:
            with bars:
                outcomes = sync_now(settings, mirrors, notice)
        else:
            outcomes = sync_now(settings, mirrors)
    except UnknownMirror as exc:
        raise click.ClickException(str(exc)) from exc
    if not outcomes and not as_json:
        click.echo("no mailbox is configured: postmirror init --add puts one into the configuration")
    click.echo(json.dumps(_summary(outcomes))) if as_json else _print_outcomes(outcomes)
    sys.exit(0 if all(outcome.complete for outcome in outcomes) else 1)


def _summary(outcomes: "Sequence[Outcome]") -> dict[str, Any]:
    return {
        "seconds": round(sum(outcome.report.get("seconds", 0.0) for outcome in outcomes), 3),
        "searchable_s": max((outcome.report.get("searchable_s", 0.0) for outcome in outcomes), default=0.0),
        "complete": all(outcome.complete for outcome in outcomes),
        "waiting": sum(outcome.report.get("waiting", 0) for outcome in outcomes),
        "folders": [
            {"mirror": outcome.mirror, "folder": name} | {key: folder[key] for key in folder if key != "name"}
            for outcome in outcomes
            for name, folder in outcome.report.get("folders", {}).items()
        ],
        "errors": {outcome.mirror: outcome.error for outcome in outcomes if outcome.error},
    }


def _print_outcomes(outcomes: "Sequence[Outcome]") -> None:
    for outcome in outcomes:
        if outcome.error:
            click.echo(f"{outcome.mirror}: {outcome.error}", err=True)
            continue
        folders = outcome.report["folders"].values()
        counts = {key: sum(folder[key] for folder in folders) for key in ("messages", "new", "changed", "removed")}
        messages = counted(counts["messages"], "message")
        click.echo(
            f"{outcome.mirror}: {messages} in {counted(len(folders), 'folder')}, {counts['new']} new, "
            f"{counts['changed']} changed, {counts['removed']} removed, {outcome.report['seconds']:.1f} s"
        )
        if waiting := outcome.report.get("waiting"):
            limited = "today's byte limit is reached; see postmirror status"
            click.echo(f"  {counted(waiting, 'message')} to come: {limited}", err=True)
        for folder in folders:
            if folder["error"]:
                click.echo(f"  {folder['name']}: {folder['error']}", err=True)
