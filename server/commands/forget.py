"""`postmirror forget`: nothing of a mailbox is left here."""

from pathlib import Path

import click

from server.amounts import counted, octets
from server.commands.options import ConfigOption, load


@click.command()
@ConfigOption
@click.argument("mailbox", metavar="USER[/PROVIDER]")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(config_path: Path | None, mailbox: str, yes: bool) -> None:
    """Remove a mailbox, or all of a user: mirror, attachments, send journal and tokens. The mail server keeps its mail.

    Remove it from the configuration first, or the next pass mirrors it again.
    """
    from server.forgetting import NothingKnown, find_mailbox, kept_files
    from server.forgetting import forget as forget_mailbox

    path, settings = load(config_path)
    try:
        found = find_mailbox(settings, mailbox)
    except NothingKnown as exc:
        raise click.ClickException(str(exc)) from exc
    names = ", ".join(f"{found.user}/{provider}" for provider in found.providers)
    if not yes:
        click.confirm(
            f"Remove {names} with mirror, send journal and tokens from {settings.server.data_dir}?", abort=True
        )
    gone = forget_mailbox(settings, found)
    lines = counted(gone.lines, "line")
    click.echo(f"{names}: forgotten; {octets(gone.size)} of mirrors, {lines} of the send journal and the like")
    if gone.tokens:
        click.echo(f"Tokens that count no more: {', '.join(gone.tokens)}")
    if any((found.user, provider) in settings.accounts() for provider in found.providers):
        click.echo(f"It is still in {path}: the next pass mirrors it again, unless you remove it there.")
    for kept in kept_files(settings, found):
        click.echo(f"Not touched: files that agents saved in {kept}")
