"""The `postmirror` command."""

import errno
import json
import logging
import os
import socket
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from config.identity import Settings
from config.settings import ConfigError
from mirror.errors import MirrorError
from mirror.log import configure_logging
from server.audit_command import audit
from server.command import ConfigOption
from server.command import load as _load
from server.key_command import keys
from server.status_command import status
from server.sync_command import sync
from server.unusable import FileUnusable


class _Group(click.Group):
    """Known faults end a command with one clear message, not a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ConfigError, MirrorError, FileUnusable) as exc:
            raise click.ClickException(str(exc)) from exc
        except KeyboardInterrupt:
            # Ctrl-C is how `serve` and `demo` end; what ran has been shut down in order by then.
            ctx.exit(0 if ctx.invoked_subcommand in ("serve", "demo", "stdio") else 130)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="postmirror")
def main() -> None:
    """Mirror IMAP mailboxes and serve them to AI agents over MCP."""


main.add_command(audit)
main.add_command(keys)
main.add_command(status)
main.add_command(sync)


@main.command()
@ConfigOption
@click.option("--host", help="Listen on this address instead of server.host.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Listen on this port instead of server.port.")
def serve(config_path: Path | None, host: str | None, port: int | None) -> None:
    """Keep the mirrors in step and serve MCP over HTTP until Ctrl-C."""
    from server.serve import AlreadyServing
    from server.serve import serve as serve_until_stopped

    configure_logging("serve")
    path, settings = _load(config_path)
    settings = _with_address(settings, host, port)
    if not settings.identities():
        raise click.ClickException(f"{path}: there is no mailbox to mirror; add a [users.NAME.providers.NAME] table")
    logger = logging.getLogger(__name__)
    try:
        serve_until_stopped(
            path, settings, ready=lambda: logger.info("serving", extra={"url": f"{settings.server.url}/mcp"})
        )
    except AlreadyServing as exc:
        raise click.ClickException(str(exc)) from exc
    except OSError as exc:
        raise click.ClickException(
            f"cannot listen on {settings.server.host}:{settings.server.port}: {_why(exc)}"
        ) from exc


def _why(exc: OSError) -> str:
    reason = os.strerror(exc.errno) if exc.errno else str(exc)
    return f"{reason}; choose another --port" if exc.errno == errno.EADDRINUSE else reason


def _with_address(settings: Settings, host: str | None, port: int | None) -> Settings:
    changes: dict[str, object] = {}
    if host is not None:
        changes["host"] = host
    if port is not None:
        with socket.socket() as probe:
            if port == 0:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
        changes["port"] = port
    if not changes:
        return settings
    # Checked again: another address may need TLS files.
    server = type(settings.server).model_validate(settings.server.model_dump() | changes)
    return settings.model_copy(update={"server": server})


@main.command()
@ConfigOption
@click.option("--user", required=True, help="The user whose mail it is.")
@click.option("--profile", required=True, help="The profile that decides what may be seen and done.")
@click.option("--provider", help="The mailbox, when the user has several.")
def stdio(config_path: Path | None, user: str, profile: str, provider: str | None) -> None:
    """Serve one local MCP client over standard input and output."""
    from server.serve import serve_stdio

    configure_logging("stdio", logging.WARNING)
    path, settings = _load(config_path)
    try:
        serve_stdio(path, settings, user, profile, provider)
    except ValueError as exc:
        raise click.ClickException(str(exc)) from exc


@main.group()
def token() -> None:
    """Make, list and revoke the tokens that clients present."""


@token.command("new")
@ConfigOption
@click.argument("user")
@click.argument("profile")
@click.option("--provider", help="The mailbox, when the user has several.")
@click.option("--name", help="What to call the token (default: made up).")
def token_new(config_path: Path | None, user: str, profile: str, provider: str | None, name: str | None) -> None:
    """Make a token for USER with PROFILE and print its secret, once."""
    from config.identity import Token
    from server.state import TokenExists

    _, settings = _load(config_path)
    try:
        settings.resolve(Token(name=name or "new", sha256="0" * 64, user=user, provider=provider, profile=profile))
        taken = [each.name for each in settings.tokens]
        with _state(settings) as state:
            chosen, secret = state.issue_token(user, profile, provider=provider, name=name, taken=taken)
    except (TokenExists, ValueError) as exc:
        raise click.ClickException(_plain(exc).removeprefix("token 'new': ")) from exc
    click.echo(f"token {chosen}, shown only now:", err=True)
    click.echo(secret)


@token.command("list")
@ConfigOption
def token_list(config_path: Path | None) -> None:
    """List every token: those made here and those in the configuration file."""
    _, settings = _load(config_path)
    table = Table(box=None, pad_edge=False)
    for column in ("name", "user", "provider", "profile", "from", "state"):
        table.add_column(column)
    with _state(settings) as state:
        revoked = state.revoked()
        for issued in state.tokens():
            made = datetime.fromtimestamp(issued.created, UTC).strftime("%Y-%m-%d")
            condition = "revoked" if issued.name in revoked else "valid"
            table.add_row(issued.name, issued.user, issued.provider or "", issued.profile, made, condition)
    for each in settings.tokens:
        condition = "revoked" if each.name in revoked else "valid"
        table.add_row(each.name, each.user, each.provider or "", each.profile, "configuration", condition)
    Console().print(table)


@token.command("revoke")
@ConfigOption
@click.argument("name")
def token_revoke(config_path: Path | None, name: str) -> None:
    """Make a token worthless from the next request on, wherever it was written down."""
    from server.state import TokenUnknown

    _, settings = _load(config_path)
    try:
        with _state(settings) as state:
            state.revoke(name, configured=[each.name for each in settings.tokens])
    except TokenUnknown as exc:
        raise click.ClickException(f"{exc}; postmirror token list shows them") from exc
    click.echo(f"token {name} is revoked")


@main.command()
@ConfigOption
@click.option("--json", "as_json", is_flag=True, help="Print one list.")
def outbox(config_path: Path | None, as_json: bool) -> None:
    """Show what was handed to the mail server for sending, and what became of it."""
    _, settings = _load(config_path)
    with _state(settings) as state:
        lines = state.submissions()
    if as_json:
        click.echo(json.dumps([asdict(line) for line in lines]))
        return
    for line in lines:
        when = datetime.fromtimestamp(line.created, UTC).isoformat(" ", "seconds")
        click.echo(f"{when}  {line.state}  to {', '.join(line.recipients)}  by {line.token}  <{line.message_id}>")
        if line.reason:
            click.echo(f"    {line.reason}")


@main.group("config")
def config_group() -> None:
    """Work with the configuration file."""


@config_group.command("check")
@ConfigOption
def config_check(config_path: Path | None) -> None:
    """Read the configuration, resolve every token, read every secret, and say what is wrong."""
    from config.secret import SecretUnavailable
    from mirror.errors import UpstreamUnavailable
    from mirror.upstream.tls import tls_context

    path, settings = _load(config_path)
    problems = []
    for user, name, provider in settings.identities():
        for kind, endpoint in (("imap", provider.imap), ("smtp", provider.smtp)):
            if endpoint is None:
                continue
            _, secret = provider.login(endpoint)
            place = f"users.{user}.providers.{name}.{kind}"
            try:
                if secret is None:
                    problems.append(f"{place}: there is no password; set password")
                elif not secret.read():
                    problems.append(f"{place}: the password is empty")
                tls_context(endpoint)
            except (SecretUnavailable, UpstreamUnavailable) as exc:
                problems.append(f"{place}: {exc}")
    if problems:
        raise click.ClickException("\n".join(f"{path}: {problem}" for problem in dict.fromkeys(problems)))
    click.echo(
        f"{path}: ok, {len(settings.identities())} mailboxes, {len(settings.profiles)} profiles, "
        f"{len(settings.tokens)} tokens; data in {settings.server.data_dir}"
    )


@main.command()
@click.option("--once", is_flag=True, help="Ask one search and one read over HTTP, print the answers and exit.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".demo"),
    help="Where it keeps its files (.demo).",
)
@click.option("--port", type=click.IntRange(0, 65_535), help="The port to serve on (default: 8765, or a free one).")
def demo(once: bool, folder: Path, port: int | None) -> None:
    """Serve a sample mailbox from embedded mail servers: nothing to set up, nothing left outside its folder."""
    from server.serve import AlreadyServing

    try:
        from server.demo.run import run_demo
    except ModuleNotFoundError as exc:
        raise click.ClickException(str(exc)) from exc
    try:
        run_demo(folder.absolute(), once=once, port=port)
    except AlreadyServing as exc:
        raise click.ClickException(str(exc)) from exc
    except OSError as exc:
        raise click.ClickException(f"the demo cannot start: {_why(exc)}") from exc


def _state(settings: Settings) -> Any:
    from contextlib import closing

    from server.state import State

    return closing(State(settings.server.data_dir))


def _plain(exc: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(exc, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors(include_url=False)
        )
    return str(exc)


if __name__ == "__main__":
    main()
