"""The `postmirror` command."""

import errno
import logging
import os
import socket
from pathlib import Path
from typing import Any

import click

from config.identity import Settings
from config.settings import ConfigError
from mirror.errors import MirrorError
from mirror.log import configure_logging
from server.amounts import counted
from server.commands.audit import audit
from server.commands.auth import auth
from server.commands.backup import backup, restore
from server.commands.cleanup import cleanup
from server.commands.doctor import doctor
from server.commands.forget import forget
from server.commands.init import init
from server.commands.key import keys
from server.commands.options import ConfigOption
from server.commands.options import load as _load
from server.commands.outbox import outbox
from server.commands.policy import policy
from server.commands.search import search
from server.commands.status import status
from server.commands.stdio import stdio
from server.commands.sync import sync
from server.commands.token import token
from server.commands.unit import unit
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
main.add_command(auth)
main.add_command(backup)
main.add_command(cleanup)
main.add_command(doctor)
main.add_command(forget)
main.add_command(init)
main.add_command(keys)
main.add_command(outbox)
main.add_command(policy)
main.add_command(restore)
main.add_command(search)
main.add_command(status)
main.add_command(stdio)
main.add_command(sync)
main.add_command(token)
main.add_command(unit)


@main.command()
@ConfigOption
@click.option("--host", help="Listen on this address instead of server.host.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Listen on this port instead of server.port.")
def serve(config_path: Path | None, host: str | None, port: int | None) -> None:
    """Keep the mirrors in step and serve MCP over HTTP until Ctrl-C."""
    from server.certificate import CertificateUnusable
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
    except CertificateUnusable as exc:
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
    from server.certificate import Certificate, CertificateUnusable

    path, settings = _load(config_path)
    problems = []
    for user, name, provider in settings.identities():
        for kind, endpoint in (("imap", provider.imap), ("smtp", provider.smtp)):
            if endpoint is None:
                continue
            _, secret = provider.login(endpoint)
            place = f"users.{user}.providers.{name}.{kind}"
            try:
                if provider.oauth is not None and provider.is_signed_in(endpoint):
                    if provider.oauth.client_secret is not None:
                        provider.oauth.client_secret.read()
                elif secret is None:
                    problems.append(f"{place}: there is no password; set password")
                elif not secret.read():
                    problems.append(f"{place}: the password is empty")
                tls_context(endpoint)
            except (SecretUnavailable, UpstreamUnavailable) as exc:
                problems.append(f"{place}: {exc}")
    listening = settings.server
    if listening.tls_cert_file is not None and listening.tls_key_file is not None:
        try:
            Certificate(listening.tls_cert_file, listening.tls_key_file)
        except CertificateUnusable as exc:
            problems.append(f"server: {exc}")
    if problems:
        raise click.ClickException("\n".join(f"{path}: {problem}" for problem in dict.fromkeys(problems)))
    click.echo(
        f"{path}: ok, {counted(len(settings.identities()), 'mailbox', 'mailboxes')}, "
        f"{counted(len(settings.profiles), 'profile')}, {counted(len(settings.tokens), 'token')} written in it; "
        f"data in {settings.server.data_dir}"
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

    from server.state.store import State

    return closing(State(settings.server.data_dir))


if __name__ == "__main__":
    main()
