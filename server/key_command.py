"""`postmirror keys`: the data key."""

from pathlib import Path

import click

from server.command import ConfigOption, load


@click.group()
def keys() -> None:
    """Work with the key that uids, cursors, attachment ids and the audit log are sealed with."""


@keys.command("rotate")
@ConfigOption
def keys_rotate(config_path: Path | None) -> None:
    """Make a new data key. Every uid, cursor and attachment link handed out before is worthless from then on."""
    from server.audit_chain import Chain
    from server.key import DataKey, replace_key

    _, settings = load(config_path)
    data_dir = settings.server.data_dir
    chain = Chain(data_dir, DataKey(data_dir), settings.audit.file_size, settings.audit.files)
    with chain.locked():
        replace_key(data_dir, chain.remember)
        chain.forget()
    chain.append([{"event": "keys", "outcome": "rotated"}])
    click.echo(
        "The data key is new. Every uid, cursor, attachment id and signed link handed out before is invalid: clients "
        "list or search again. Tokens stay valid. A running serve uses the new key from its next request on."
    )
