"""What the commands share: where the configuration is."""

from pathlib import Path

import click

from config.identity import Settings
from config.settings import find_config, load_settings

ConfigOption = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file (default: $POSTMIRROR_CONFIG, ./postmirror.toml, the user's config folder).",
)


def load(config_path: Path | None) -> tuple[Path, Settings]:
    """The configuration's file, and what it says."""
    path = find_config(config_path)
    return path, load_settings(path)
