"""`postmirror cleanup`: remove what gone messages left behind, now."""

import sys
from pathlib import Path

import click

from server.commands.options import ConfigOption, load


@click.command()
@ConfigOption
@click.argument("mirrors", nargs=-1, metavar="[USER/PROVIDER]...")
def cleanup(config_path: Path | None, mirrors: tuple[str, ...]) -> None:
    """Make a pass, and remove every trace of messages that are gone from the mirror's files.

    This happens once a week by itself. Exits 1 when a mirror could not be cleaned.
    """
    from server.passes import UnknownMirror, clean_now

    _, settings = load(config_path)
    try:
        outcomes = clean_now(settings, mirrors)
    except UnknownMirror as exc:
        raise click.ClickException(str(exc)) from exc
    for mirror, error in outcomes.items():
        click.echo(f"{mirror}: {error or 'cleaned up'}", err=bool(error))
    sys.exit(1 if any(outcomes.values()) else 0)
