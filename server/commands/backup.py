"""`postmirror backup` and `postmirror restore`: what cannot be had again, as one file."""

from pathlib import Path

import click

from config.identity import Settings
from config.settings import find_config, load_settings, parse_settings
from server.amounts import counted, octets
from server.commands.options import ConfigOption, load


@click.command()
@ConfigOption
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--with-mirrors", is_flag=True, help="The mirrors too: restored, they need no first sync, and uids stay.")
def backup(config_path: Path | None, file: Path, with_mirrors: bool) -> None:
    """Write configuration, key, state.db and audit log into FILE, also while serve runs. Passwords are not in it.

    FILE is made 0600 and is as precious as the originals: keep it as private.
    """
    from server.backup.writing import write_archive

    path, settings = load(config_path)
    try:
        contents = write_archive(file, path, settings, with_mirrors=with_mirrors)
    except OSError as exc:
        raise click.ClickException(str(exc)) from exc
    mirrors = f", mirrors of {', '.join(contents.mirrors)}" if contents.mirrors else ", no mirrors"
    click.echo(f"{file}: {counted(contents.files, 'file')}, {octets(contents.size)}{mirrors}")
    if secrets := _secret_files(settings):
        click.echo(f"Not in it, keep them elsewhere: {', '.join(sorted(secrets))}")


def _secret_files(settings: Settings) -> set[str]:
    return {
        str(source.file)
        for _, _, provider in settings.identities()
        for endpoint in (provider.imap, provider.smtp)
        if endpoint is not None and (source := provider.login(endpoint)[1]) is not None and source.file is not None
    }


@click.command()
@ConfigOption
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Instead of what the configuration says."
)
def restore(config_path: Path | None, file: Path, data_dir: Path | None) -> None:
    """Put a backup into an empty data directory. A configuration that is there already is kept, and says where.

    Stop serve before. Tokens that were revoked after the backup was made count again: revoke them again.
    """
    from server.backup.archive import read_config
    from server.backup.restoring import record_restored, restore_archive

    path = find_config(config_path)
    is_there = path.exists()
    settings = load_settings(path) if is_there else parse_settings(read_config(file), path)
    into = data_dir or settings.server.data_dir
    try:
        contents = restore_archive(file, path, into)
        record_restored(into, settings.audit, contents)
    except OSError as exc:
        raise click.ClickException(str(exc)) from exc
    click.echo(
        f"{into}: restored as of {contents.made}; the configuration is {'kept' if is_there else 'restored'}: {path}"
    )
    if into != settings.server.data_dir:
        click.echo(f'Set data_dir = "{into.absolute()}" in it.')
    lacking = sorted(file for file in _secret_files(settings) if not Path(file).exists())
    if lacking:
        click.echo(f"Passwords are not in a backup, put them back or name others: {', '.join(lacking)}")
    if contents.mirrors:
        click.echo(f"Mirrors of {', '.join(contents.mirrors)} are restored: message uids are those of before.")
    else:
        click.echo(
            "Mirrors are built again from upstream by the next sync: message uids given out before are not found."
        )
    click.echo("Tokens revoked since then count again: postmirror token list, and revoke them again.")
