"""What the commands share: where the configuration is."""

from datetime import timedelta
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from config.identity import Settings
from config.kinds import Duration
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


def duration(text: str) -> timedelta:
    """A length of time as in the configuration file: 30s, 2m, 12h, 7d, 4w. Raises ValueError."""
    try:
        return TypeAdapter(Duration).validate_python(text)
    except ValidationError as exc:
        raise ValueError(str(exc.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")) from None
