"""`postmirror token`: the tokens that clients present."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from config.identity import Settings, Token
from server.commands.options import ConfigOption, duration, load

if TYPE_CHECKING:
    from server.state.store import IssuedToken, State

_WIDEST = 1_000


@click.group()
def token() -> None:
    """Make, list, rotate, pause and revoke the tokens that clients present."""


@token.command("new")
@ConfigOption
@click.argument("user")
@click.argument("profile")
@click.option("--provider", help="The mailbox, when the user has several.")
@click.option("--name", help="What to call the token (default: made up).")
@click.option("--expires", type=duration, help="After how long it is worthless, such as 30d (default: never).")
def token_new(
    config_path: Path | None, user: str, profile: str, provider: str | None, name: str | None, expires: timedelta | None
) -> None:
    """Make a token for USER with PROFILE and print its secret, once."""
    _, settings = load(config_path)
    try:
        settings.resolve(Token(name=name or "new", sha256="0" * 64, user=user, provider=provider, profile=profile))
        with _state(settings) as state:
            chosen, secret = state.issue_token(
                user,
                profile,
                provider=provider,
                name=name,
                configured=settings.tokens,
                expires=None if expires is None else time.time() + expires.total_seconds(),
            )
    except ValueError as exc:
        raise click.ClickException(_plain(exc).removeprefix("token 'new': ")) from exc
    click.echo(f"token {chosen}, shown only now:", err=True)
    click.echo(secret)


@token.command("list")
@ConfigOption
@click.option("--json", "as_json", is_flag=True, help="Print one list.")
def token_list(config_path: Path | None, as_json: bool) -> None:
    """List every token: those made here and those in the configuration file."""
    _, settings = load(config_path)
    with _state(settings) as state:
        tokens = state.tokens(settings.tokens)
    if as_json:
        click.echo(json.dumps([_fields(each) for each in tokens]))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "user", "provider", "profile", "from", "expires", "last used", "state"):
        table.add_column(column, no_wrap=True)
    for each in tokens:
        made = "configuration" if each.created is None else _day(each.created)
        condition: str = each.condition
        if each.old_secret_until is not None and each.condition == "valid":
            condition = f"valid; the secret before, until {_moment(each.old_secret_until)}"
        table.add_row(
            each.name, each.user, each.provider or "", each.profile, made,
            "never" if each.expires is None else _moment(each.expires),
            "never" if each.last_used is None else _moment(each.last_used), condition,
        )  # fmt: skip
    console = Console()
    # A narrow terminal wraps the lines: a moment cut short would tell another one.
    wanted = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
    console.width = max(console.width, wanted)
    console.print(table)


@token.command("revoke")
@ConfigOption
@click.argument("name")
def token_revoke(config_path: Path | None, name: str) -> None:
    """Make a token worthless from the next request on, for ever, wherever it was written down."""
    with _changing(config_path) as (settings, state):
        state.revoke(name, configured=settings.tokens)
    click.echo(f"token {name} is revoked")


@token.command("pause")
@ConfigOption
@click.argument("name")
def token_pause(config_path: Path | None, name: str) -> None:
    """Make a token worthless from the next request on, until it is resumed."""
    with _changing(config_path) as (settings, state):
        state.pause(name, configured=settings.tokens)
    click.echo(f"token {name} is paused; postmirror token resume {name} lets it in again")


@token.command("resume")
@ConfigOption
@click.argument("name")
def token_resume(config_path: Path | None, name: str) -> None:
    """Let a paused token in again."""
    with _changing(config_path) as (settings, state):
        state.resume(name, configured=settings.tokens)
    click.echo(f"token {name} is valid again")


@token.command("rotate")
@ConfigOption
@click.argument("name")
@click.option(
    "--overlap", type=duration, default="1h", show_default=True, help="How long the old secret goes on working."
)
def token_rotate(config_path: Path | None, name: str, overlap: timedelta) -> None:
    """Give a token a new secret and print it, once. The old one works for a while, so that clients can follow."""
    with _changing(config_path) as (settings, state):
        secret = state.rotate(name, overlap.total_seconds(), configured=settings.tokens)
    until = datetime.now(UTC) + overlap
    click.echo(
        f"token {name}, its old secret ends {_moment(until.timestamp())}; the new one, shown only now:", err=True
    )
    click.echo(secret)


@contextmanager
def _changing(config_path: Path | None) -> Iterator[tuple[Settings, "State"]]:
    from server.state.store import TokenRevoked, TokenUnknown

    _, settings = load(config_path)
    try:
        with _state(settings) as state:
            yield settings, state
    except TokenUnknown as exc:
        raise click.ClickException(f"{exc}; postmirror token list shows them") from exc
    except TokenRevoked as exc:
        raise click.ClickException(str(exc)) from exc


@contextmanager
def _state(settings: Settings) -> Iterator["State"]:
    from server.state.store import State

    state = State(settings.server.data_dir)
    try:
        yield state
    finally:
        state.close()


def _fields(token: "IssuedToken") -> dict[str, object]:
    times = ("created", "expires", "last_used", "paused", "revoked", "old_secret_until")
    fields = {name: _instant(value) if name in times else value for name, value in asdict(token).items()}
    return {**fields, "source": "configuration" if token.created is None else "issued", "state": token.condition}


def _instant(value: float | None) -> str | None:
    return None if value is None else datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _plain(exc: ValueError) -> str:
    if isinstance(exc, ValidationError):
        errors = exc.errors(include_url=False)
        return "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors)
    return str(exc)
