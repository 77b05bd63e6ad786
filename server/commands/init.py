"""`postmirror init`: a first configuration for one's own mailbox."""

import sys
from pathlib import Path

import click
from pydantic import ValidationError

from server.commands.options import ConfigOption
from server.setup.entry import CLIENTS

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("address", required=False)
@ConfigOption
@click.option("--provider", help="A provider by name, such as fastmail (default: found by the address).")
@click.option("--imap", metavar="HOST[:PORT[:SECURITY]]", help="The IMAP server; SECURITY is tls, starttls or plain.")
@click.option("--smtp", metavar="HOST[:PORT[:SECURITY]]", help="The submission server.")
@click.option("--no-smtp", is_flag=True, help="There is none.")
@click.option("--username", help="The login name (default: the address, or what the provider wants).")
@click.option("--smtp-username", help="Another one for the submission server.")
@click.option("--display-name", help="The name beside the address.")
@click.option("--alias", "aliases", multiple=True, help="A further address it may send from; may be given again.")
@click.option("--ca-file", type=_FILE, help="Who signed the servers' certificate, or that itself (PEM).")
@click.option("--server-name", help="The name in the certificate, when it is not the host.")
@click.option("--auth", type=click.Choice(["password", "oauth2"]), help="oauth2: the secret is an access token.")
@click.option("--password-file", type=_FILE, help="The password is in this file.")
@click.option("--password-command", help='This command prints the password, such as "pass show mail/me".')
@click.option("--password-env", help="The password is in this environment variable.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--store", type=click.Choice(["file", "keyring"]), help="Where to keep a password that is typed or read.")
@click.option("--oauth-client-id", help="Sign in by OAuth 2, with this client of your own.")
@click.option("--oauth-client-secret-file", type=_FILE, help="Its secret is in this file.")
@click.option("--oauth-client-secret-command", help="The same, from a command.")
@click.option("--oauth-client-secret-env", help="The same, from an environment variable.")
@click.option("--oauth-authorization-url", help="Where a browser signs in (known for Gmail and Microsoft).")
@click.option("--oauth-token-url", help="Where tokens come from (known for Gmail and Microsoft).")
@click.option("--oauth-device-url", help="Where codes for --device come from (known for Microsoft).")
@click.option("--oauth-scope", "oauth_scopes", multiple=True, help="What is asked for; may be given again.")
@click.option("--device", "way", flag_value="device", help="Sign in on another device, with a code.")
@click.option("--paste", "way", flag_value="paste", help="Sign in anywhere, and paste the address it ends at.")
@click.option("--no-browser", is_flag=True, help="Show the address to sign in at and open nothing.")
@click.option("--smtp-password-file", type=_FILE, help="Another password for the submission server.")
@click.option("--smtp-password-command", help="The same, from a command.")
@click.option("--smtp-password-env", help="The same, from an environment variable.")
@click.option("--user", help="What to call the owner in the configuration (me).")
@click.option("--name", help="What to call this mailbox (made of the provider's name).")
@click.option("--profile", default="assistant", show_default=True, help="What to call the profile.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where mirrors and tokens live.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8765, show_default=True, help="The port to serve on.")
@click.option("--client", type=click.Choice(CLIENTS), help="The MCP client to print an entry for.")
@click.option("--add", is_flag=True, help="Put this mailbox into a configuration that is there already.")
@click.option("--yes", is_flag=True, help="Take what is found and every default.")
@click.option("--dry-run", is_flag=True, help="Log in and show, write nothing.")
def init(**flags: object) -> None:
    """Set up a mailbox: find its servers, log in, write the configuration, make a token.

    Asks what it is not told. Nothing is written before the login has worked, and never over a configuration.
    """
    from server.setup.answers import Answers, Asker
    from server.setup.dns import Dns
    from server.setup.run import Setup

    try:
        answers = Answers.model_validate({key: value for key, value in flags.items() if value is not None})
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        flag = str(error["loc"][0]).replace("_", "-")
        raise click.UsageError(f"{flag}: {str(error['msg']).removeprefix('Value error, ')}") from exc
    asker = Asker(is_terminal=sys.stdin.isatty(), takes_defaults=answers.yes)
    done = Setup(answers, asker, Dns(), lambda line: click.echo(line, err=True)).run()
    if done is None:
        return
    entry = done.entry
    click.echo(
        f"\nWritten: {done.config}. Token {done.token_name}, shown only now:\n{done.token}\n\n"
        f"While `postmirror serve` runs, over HTTP ({entry.http_place}):\n{entry.http}\n\n"
        f"Or started by the client itself ({entry.stdio_place}):\n{entry.stdio}\n\n"
        f"Next: postmirror serve --config {done.config}; postmirror status shows how far the mirror is.\n"
        f"To keep it running (systemd): postmirror unit --user --config {done.config}; see docs/operations.md."
    )
