"""`postmirror auth`: signing in to mailboxes by OAuth 2."""

import webbrowser
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from config.identity import Settings
from config.provider import Provider
from server.commands.options import ConfigOption, load

if TYPE_CHECKING:
    from server.oauth.signing_in import Way


@click.group()
def auth() -> None:
    """Sign in to mailboxes whose provider wants OAuth 2."""


@auth.command("login")
@ConfigOption
@click.argument("mailbox", metavar="USER/PROVIDER")
@click.option("--device", "way", flag_value="device", help="Sign in on another device, with a code.")
@click.option("--paste", "way", flag_value="paste", help="Sign in anywhere, and paste the address it ends at.")
@click.option("--no-browser", is_flag=True, help="Show the address and open nothing.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="The port that the browser comes back to.")
def auth_login(config_path: Path | None, mailbox: str, way: "Way | None", no_browser: bool, port: int) -> None:
    """Sign in to a mailbox: by the browser of this machine, or as the options say."""
    from mirror.credential import InMemory
    from mirror.errors import AuthenticationRefused, MirrorError, in_plain_words
    from mirror.upstream import Upstream
    from mirror.wake import wake
    from server.key import DataKey
    from server.oauth.browser import CameNotBack
    from server.oauth.grants import Grants
    from server.oauth.signing_in import sign_in
    from server.oauth.source import advice
    from server.oauth.tokens import EndpointUnavailable, SignInRefused
    from server.state.store import State

    path, settings = load(config_path)
    user, name, provider = _provider(settings, mailbox)
    if provider.oauth is None:
        raise click.ClickException(
            f"{path}: users.{user}.providers.{name} has no oauth table: give it one with the "
            "client_id of your own client"
        )
    try:
        tokens = sign_in(
            provider.oauth,
            provider.address,
            way or "browser",
            show=lambda line: click.echo(line, err=True),
            ask=lambda question: str(click.prompt(question, err=True)),
            go=(lambda _: None) if no_browser else webbrowser.open,
            port=port,
        )
    except SignInRefused as exc:
        raise click.ClickException(f"not signed in: {advice(exc.fault)} ({exc.reason}) try again") from exc
    except (EndpointUnavailable, CameNotBack) as exc:
        raise click.ClickException(f"not signed in: {exc}") from exc
    try:
        Upstream.connect(provider, credential=InMemory(tokens.access)).close()
    except AuthenticationRefused as exc:
        raise click.ClickException(
            f"signed in, but {provider.imap.host} does not let that account into the mailbox of {provider.address}: "
            f"sign in as its owner, and check that IMAP is switched on. Nothing was kept ({exc})"
        ) from exc
    except MirrorError as exc:
        click.echo(f"the mail server could not be asked: {in_plain_words(exc)}", err=True)
    with closing(State(settings.server.data_dir)) as state:
        grants = Grants(state, DataKey(settings.server.data_dir))
        with grants.alone(user, name):
            grants.put(user, name, tokens)
    wake(settings.mirror_dir(user, name))
    renewed = "it is renewed by itself" if tokens.refresh else "without a refresh token, so that it ends soon"
    click.echo(f"signed in to {mailbox}; {renewed}")


@auth.command("logout")
@ConfigOption
@click.argument("mailbox", metavar="USER/PROVIDER")
def auth_logout(config_path: Path | None, mailbox: str) -> None:
    """Forget what a sign-in left. The provider's own list of connected programs keeps it until it is removed there."""
    from server.state.store import State

    _, settings = load(config_path)
    user, name, _ = _provider(settings, mailbox)
    with closing(State(settings.server.data_dir)) as state:
        if not state.forget_sign_in(user, name):
            raise click.ClickException(f"nobody is signed in to {mailbox}")
    click.echo(f"signed out of {mailbox}")


def _provider(settings: Settings, mailbox: str) -> tuple[str, str, Provider]:
    for user, name, provider in settings.identities():
        if mailbox == f"{user}/{name}":
            return user, name, provider
    known = ", ".join(f"{user}/{name}" for user, name, _ in settings.identities()) or "none"
    raise click.ClickException(f"there is no mailbox {mailbox!r}; the configuration has {known}")
