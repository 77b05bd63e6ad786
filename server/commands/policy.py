"""`postmirror policy`: what a token sees and may do."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from config.identity import Settings, Token
from server.commands.options import ConfigOption, load

if TYPE_CHECKING:
    from server.permission import MailboxView
    from server.state.store import IssuedToken


@click.group()
def policy() -> None:
    """Show what the rules of the configuration come to."""


@policy.command("show")
@ConfigOption
@click.argument("name", metavar="TOKENNAME")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def policy_show(config_path: Path | None, name: str, as_json: bool) -> None:
    """Print what a token sees and may do, folder by folder, with counts."""
    from server.offered import offered_tools
    from server.permission import permission_of

    _, settings = load(config_path)
    known = _find(settings, name)
    token = Token(name=name, sha256="0" * 64, user=known.user, provider=known.provider, profile=known.profile)
    try:
        found = permission_of(token, settings, offered_tools(settings.resolve(token)[2]))
    except ValueError as exc:
        raise click.ClickException(str(exc)) from exc
    if as_json:
        click.echo(json.dumps({"token": name, "condition": known.condition, **asdict(found)}))
        return
    console = Console()
    console.print(
        f"{escape(name)}: {known.condition}, user {found.user}, profile {found.profile}",
        highlight=False,
        soft_wrap=True,
    )
    for mailbox in found.mailboxes:
        console.print()
        console.print(_folders(mailbox))
        if not mailbox.is_mirrored:
            console.print("not mirrored yet: postmirror serve or sync makes a mirror", style="yellow", soft_wrap=True)
    for title, rules in (("sees", found.sees), ("may", found.may)):
        console.print()
        console.print(_rules(title, rules))
    for warning in found.warnings:
        console.print(f"note: {escape(warning)}", style="yellow", highlight=False, soft_wrap=True)


def _find(settings: Settings, name: str) -> "IssuedToken":
    from contextlib import closing

    from server.state.store import State

    with closing(State(settings.server.data_dir)) as state:
        for token in state.tokens(settings.tokens):
            if token.name == name:
                return token
    raise click.ClickException(f"there is no token {name!r}; postmirror token list shows them")


def _folders(mailbox: "MailboxView") -> Table:
    table = Table(
        title=f"{mailbox.provider} ({escape(mailbox.address)})", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("folder")
    table.add_column("access")
    table.add_column("messages", justify="right")
    table.add_column("visible", justify="right")
    for each in mailbox.folders:
        style = "dim" if each.access == "hidden" else None
        table.add_row(escape(each.folder), each.access, str(each.messages), str(each.visible), style=style)
    return table


def _rules(title: str, rules: Mapping[str, str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, rule in rules.items():
        table.add_row(name, escape(rule))
    return table
