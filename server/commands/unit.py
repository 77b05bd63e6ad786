"""`postmirror unit`: the systemd unit for this configuration."""

import getpass
import shutil
import sys
from pathlib import Path

import click

from config.identity import Settings
from server.commands.options import ConfigOption, load


@click.command()
@ConfigOption
@click.option("--user", "is_of_user", is_flag=True, help="For `systemctl --user`, without an account of its own.")
@click.option("--run-as", default="", metavar="NAME", help="The account that it runs as (default: yours).")
def unit(config_path: Path | None, is_of_user: bool, run_as: str) -> None:
    """Print a hardened systemd unit that runs serve with this configuration.

    postmirror unit > /etc/systemd/system/postmirror.service, then systemctl enable --now postmirror.
    """
    from server.unit import Unit

    path, settings = load(config_path)
    found = shutil.which("postmirror", path=str(Path(sys.executable).parent))
    program = (found,) if found else (sys.executable, "-m", "server.cli")
    account = "" if is_of_user else run_as or getpass.getuser()
    click.echo(Unit(program, path.absolute(), account, _written(settings)).text, nl=False)
    if account and (hidden := [each for each in (path.absolute(), *_written(settings)) if _is_temporary(each)]):
        named = ", ".join(map(str, hidden))
        click.echo(
            f"The unit gets a /tmp of its own (PrivateTmp) and would not find {named}: put it elsewhere", err=True
        )
    if account == "root":
        click.echo("This unit runs as root: give it an account of its own with --run-as.", err=True)


def _is_temporary(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in ("/tmp", "/var/tmp"))  # noqa: S108 - compared, not written to


def _written(settings: Settings) -> tuple[Path, ...]:
    place = settings.server
    has_workspace = any(profile.tools == "gateway" for profile in settings.profiles.values())
    return (place.data_dir, *((place.workspace,) if has_workspace else ()))
