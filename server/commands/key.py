"""`postmirror keys`: the data key."""

from contextlib import closing
from pathlib import Path

import click

from server.commands.options import ConfigOption, load


@click.group()
def keys() -> None:
    """Work with the key that uids, cursors, attachment ids and the audit log are sealed with."""


@keys.command("rotate")
@ConfigOption
def keys_rotate(config_path: Path | None) -> None:
    """Make a new data key. Every uid, cursor and attachment link handed out before is worthless from then on."""
    from server.audit.chain import Chain
    from server.key import DataKey, replace_key
    from server.oauth.grants import Grants
    from server.state.store import State

    _, settings = load(config_path)
    data_dir = settings.server.data_dir
    key = DataKey(data_dir)
    chain = Chain(data_dir, key, settings.audit.file_size, settings.audit.files)
    with closing(State(data_dir)) as state, Grants(state, key).changing_key() as sign_ins, chain.locked():

        def prepare(old: bytes, new: bytes) -> None:
            chain.remember(old, new)
            sign_ins.prepare(old, new)

        replace_key(data_dir, prepare)
        chain.forget()
    chain.append([{"event": "keys", "outcome": "rotated"}])
    click.echo(
        "The data key is new. Every uid, cursor, attachment id and signed link handed out before is invalid: clients "
        "list or search again. Tokens and sign-ins stay valid. A running serve uses the new key from its next request "
        "on."
    )
