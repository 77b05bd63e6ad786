"""`postmirror stdio`: one local client over standard input and output."""

import logging
import os
from pathlib import Path

import click

from config.environment import PROFILE, USER, EnvironmentUnusable, from_environment, names_accounts
from config.settings import FILE_VARIABLE, load_settings
from mirror.database import private_folder
from mirror.log import configure_logging
from server.commands.options import ConfigOption, load

NEITHER = (
    "give --user and --profile of a configuration file; or, without a file, set EMAIL_IMAP_HOST, EMAIL_SMTP_HOST, "
    "EMAIL_USERNAME and EMAIL_PASSWORD, or EMAIL_ACCOUNTS_JSON"
)


@click.command()
@ConfigOption
@click.option("--user", help="The user whose mail it is.")
@click.option("--profile", help="The profile that decides what may be seen and done.")
@click.option("--provider", help="The mailbox, when the user has several.")
def stdio(config_path: Path | None, user: str | None, profile: str | None, provider: str | None) -> None:
    """Serve one local MCP client over standard input and output.

    Without a user, a profile and a configuration file, the accounts are those of the EMAIL_* variables, with the
    gateway tools.
    """
    from server.supervisor import Supervisor

    configure_logging("stdio", logging.WARNING)
    if user is None and profile is None and config_path is None and FILE_VARIABLE not in os.environ:
        if not names_accounts(os.environ):
            raise click.UsageError(NEITHER)
        user, profile, path = USER, PROFILE, _file_of_environment()
        settings = load_settings(path)
    elif user is None or profile is None:
        raise click.UsageError(NEITHER)
    else:
        path, settings = load(config_path)
    private_folder(settings.server.data_dir)
    # Whichever process comes first keeps the mirror in step; the others read it. The worker looks at the mailbox while
    # the rest of the program is loaded: the first answer comes that much sooner.
    with Supervisor(path):
        from server.serve import serve_stdio

        try:
            serve_stdio(path, settings, user, profile, provider)
        except ValueError as exc:
            raise click.ClickException(str(exc)) from exc


def _file_of_environment() -> Path:
    data_home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    data_dir = private_folder(Path(data_home) / "postmirror")
    try:
        return from_environment(os.environ, data_dir).write(data_dir)
    except EnvironmentUnusable as exc:
        raise click.ClickException(str(exc)) from exc
