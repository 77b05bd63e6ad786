"""`postmirror outbox`: the send journal."""

import json
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from config.identity import Settings
from server.commands.options import ConfigOption, load
from server.state.journal import Submission

_COPIES = {
    "owed": "a copy in Sent is owed",
    "failed": "no copy in Sent",
    "stored": "copy stored in Sent",
    "by_provider": "copy in Sent",
}


@click.command()
@ConfigOption
@click.option("--check", is_flag=True, help="Ask the mail servers about what is uncertain, and store owed copies.")
@click.option(
    "--settle",
    type=(str, click.Choice(["sent", "not-sent"])),
    metavar="MESSAGE-ID sent|not-sent",
    help="Close an uncertain mail: you have found out what became of it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one list.")
def outbox(config_path: Path | None, check: bool, settle: tuple[str, str] | None, as_json: bool) -> None:
    """Show what was handed to the mail server for sending, and what became of it, the newest first.

    What is uncertain is looked for in the mirror of Sent first.
    """
    _, settings = load(config_path)
    lines = _settled(settings, check)
    if settle is not None:
        lines = _settled_by_hand(settings, settle[0].strip("<>"), is_sent=settle[1] == "sent")
    if as_json:
        click.echo(json.dumps([asdict(line) for line in lines]))
        return
    if not lines:
        click.echo("nothing was handed over for sending in the last 90 days")
    for line in lines:
        when = datetime.fromtimestamp(line.created, UTC).isoformat(" ", "seconds")
        click.echo(f"{when}  {line.state}  to {', '.join(line.recipients)}  by {line.token}  <{line.message_id}>")
        notes = [line.reason, _COPIES.get(line.copy, "")]
        if line.state == "uncertain":
            notes.append("check Sent before sending again, then settle it (--settle)")
        if any(notes):
            click.echo(f"    {'; '.join(filter(None, notes))}")


def _settled_by_hand(settings: Settings, message_id: str, *, is_sent: bool) -> list[Submission]:
    from server.state.store import State

    with closing(State(settings.server.data_dir)) as state:
        if not state.settle_by_hand(message_id, is_sent=is_sent):
            raise click.ClickException(f"no mail with the Message-ID <{message_id}> is uncertain")
        return [line for line in state.submissions() if line.message_id == message_id]


def _settled(settings: Settings, check: bool) -> list[Submission]:
    from server.mirrors import Mirrors
    from server.oauth.source import credentials_of
    from server.sending.outbox import Outbox
    from server.state.store import State
    from server.upstreams import Upstreams

    data_dir = settings.server.data_dir
    with (
        credentials_of(settings) as credentials,
        closing(State(data_dir)) as state,
        closing(Mirrors(data_dir)) as mirrors,
        closing(Upstreams(credentials)) as upstreams,
    ):
        accounts = settings.accounts() if check else {}
        Outbox(state, mirrors, upstreams).catch_up(accounts, ask_upstream=check, with_copies=check)
        return state.submissions()
