"""`postmirror init`, step by step: nothing is written before the login worked and everything was agreed to."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import click

from config.identity import Settings
from config.settings import ConfigError, find_config, load_settings, parse_settings
from mirror.errors import AuthenticationRefused
from server.amounts import counted, lasting, octets
from server.key import DataKey
from server.oauth.grants import Grants
from server.sending.submission import Login, SubmissionUnavailable, check_login
from server.setup.account import Account, added_toml, file_toml, slug
from server.setup.answers import Answers, Asker, is_address, server
from server.setup.dns import Names
from server.setup.entry import CLIENTS, ClientName, Door, Entry, entry, stdio_command
from server.setup.finding import Found, ProviderUnknown, Server, find, named
from server.setup.login import FirstLogin, LoggedIn, SetupFailed
from server.setup.looking import Mailbox
from server.setup.secret import NotStored
from server.setup.writing import AlreadyThere, CannotAdd, create, extended, replace_text
from server.state.store import State

_SHOWN = 15


@dataclass(frozen=True, slots=True)
class SetUp:
    """What came of it. entry: for the chosen client."""

    config: Path
    token_name: str
    token: str
    entry: Entry


class Setup:
    """One run. say: shows a line to the user."""

    def __init__(self, answers: Answers, asker: Asker, names: Names, say: Callable[[str], None]) -> None:
        self._answers = answers
        self._asker = asker
        self._names = names
        self._say = say
        self._config = find_config(answers.config_path)

    def run(self) -> SetUp | None:
        """Ask, log in, show, write. None after a dry run. Raises SetupFailed or ConfigError, nothing half-written."""
        existing = self._existing()
        address = self._address()
        found = self._found(address)
        account = self._account(address, found, existing)
        first = FirstLogin(self._answers, self._asker, self._config, self._say)
        account = first.reach(account, found)
        logged_in = first.log_in(account, found)
        self._show(logged_in.mailbox)
        self._check_submission(logged_in)
        text = self._text(logged_in.account, existing)
        if self._answers.dry_run:
            self._say(f"This is what {self._config} would say; nothing was written.")
            click.echo(text)
            return None
        question = "Which client shall use it"
        client = self._answers.client or self._asker.choice(question, "--client", CLIENTS, "json")
        return self._write(logged_in, text, existing, cast(ClientName, client))

    def _existing(self) -> Settings | None:
        if not self._config.exists():
            if self._answers.add:
                raise SetupFailed(f"there is no {self._config} to add to: leave --add out")
            return None
        if not self._answers.add:
            raise SetupFailed(
                f"{self._config} is there already, and init never writes over a configuration. To put another account "
                "into it: postmirror init --add. For one beside it: --config FILE and --data-dir FOLDER"
            )
        return load_settings(self._config)

    def _address(self) -> str:
        given = self._answers.address or self._asker.text("The mail address", "ADDRESS")
        while not is_address(given):
            self._say(f"{given!r} is not a mail address")
            given = self._asker.text("The mail address", "ADDRESS")
        return given

    def _found(self, address: str) -> Found:
        if self._answers.provider is not None:
            try:
                return named(self._answers.provider, address)
            except ProviderUnknown as exc:
                raise SetupFailed(str(exc)) from exc
        domain = address.rpartition("@")[2]
        if self._answers.imap is None and (found := find(address, self._names)) is not None:
            servers = f"{_said(found.imap)} and {_said(found.smtp) if found.smtp else 'no submission server'}"
            self._say(f"{found.label}: {servers} ({found.source}).")
            if found.is_sure or self._asker.is_agreed("Are these the servers?", "--imap and --smtp"):
                return found
        imap = self._server("imap", self._answers.imap, f"imap.{domain}")
        smtp = None if self._answers.no_smtp else self._server("smtp", self._answers.smtp, f"smtp.{domain}")
        return Found(str(imap["host"]), imap, smtp, "as you say", True)

    def _server(self, kind: Literal["imap", "smtp"], given: str | None, guess: str) -> Server:
        what = f"{'IMAP' if kind == 'imap' else 'Submission (SMTP)'} server, HOST[:PORT[:tls|starttls|plain]]"
        flag = f"--{kind} HOST[:PORT[:SECURITY]]" + (", or --no-smtp" if kind == "smtp" else "")
        text = given or self._asker.text(f"{what}, such as {guess}", flag)
        while True:
            try:
                return server(kind, text)
            except ValueError as exc:
                if given is not None or not self._asker.can_ask:
                    raise SetupFailed(f"--{kind}: {exc}") from exc
                self._say(str(exc))
                text = self._asker.text(f"{what}, such as {guess}", flag)

    def _account(self, address: str, found: Found, existing: Settings | None) -> Account:
        answers = self._answers
        only = next(iter(existing.users), None) if existing is not None and len(existing.users) == 1 else None
        display_name = answers.display_name
        if display_name is None:
            display_name = self._asker.text("Your name, as it stands beside the address", "--display-name", "")
        overridden = answers.imap is not None or answers.smtp is not None
        return Account(
            user=answers.user or only or "me",
            name=answers.name or slug(found.preset or address.rpartition("@")[2].split(".")[0], "mail"),
            address=address,
            imap=server("imap", answers.imap) if answers.imap else found.imap,
            smtp=None if answers.no_smtp else server("smtp", answers.smtp) if answers.smtp else found.smtp,
            preset="" if overridden or answers.no_smtp else found.preset,
            display_name=display_name,
            aliases=answers.aliases,
            username=answers.username or found.username,
            smtp_username=answers.smtp_username or "",
            server_name=answers.server_name or "",
            ca_file=answers.ca_file and answers.ca_file.expanduser().absolute(),
            smtp_password=answers.smtp_password,
        )

    def _show(self, mailbox: Mailbox) -> None:
        self._say(f"Logged in. {counted(len(mailbox.folders), 'folder')}:")
        for folder in sorted(mailbox.folders, key=lambda each: (each.name != "INBOX", each.name))[:_SHOWN]:
            count = "? messages" if folder.messages is None else counted(folder.messages, "message")
            access = {"\\Junk": "hidden", "\\Trash": "hidden"}.get(folder.role, "read")
            access = "read, flags may change" if folder.name == "INBOX" else access
            self._say(f"  {folder.name:<32} {count:>18} {octets(folder.octets):>9}   {access}")
        if len(mailbox.folders) > _SHOWN:
            self._say(f"  and {len(mailbox.folders) - _SHOWN} more")
        limit = f" (it lets {octets(mailbox.daily)} be fetched in a day)" if mailbox.daily else ""
        self._say(
            f"A first sync fetches about {counted(mailbox.messages, 'message')}, {octets(mailbox.octets)}, in "
            f"{lasting(mailbox.seconds())}{limit}. The newest mail comes first and can be searched at once."
        )

    def _check_submission(self, logged_in: LoggedIn) -> None:
        provider = logged_in.account.provider(self._config)
        if provider.smtp is None:
            return
        user, source = provider.login(provider.smtp)
        try:
            secret = logged_in.secret if provider.smtp.password is None else None
            if logged_in.tokens is not None and provider.is_signed_in(provider.smtp):
                secret = logged_in.tokens.access
            elif secret is None and source is not None:
                secret = source.read()
            check_login(provider.smtp, Login(user, secret or "", is_token=provider.takes_token(provider.smtp)))
        except (SubmissionUnavailable, AuthenticationRefused, RuntimeError) as exc:
            self._say(
                f"Reading works, but {provider.smtp.host} does not let us in for sending: {exc}. Nothing can be sent "
                "until the profile allows it, so this can wait: see --smtp, --smtp-username and --smtp-password-file."
            )
        else:
            self._say(
                f"{provider.smtp.host} lets us in too. The profile sends nothing until you give it an outbound table."
            )

    def _text(self, account: Account, existing: Settings | None) -> str:
        answers = self._answers
        if existing is not None:
            return added_toml(account, existing, answers.profile)
        data_dir = answers.data_dir
        if not str(data_dir).startswith("~"):
            # A relative path counts from where the command is given, and in the file from the file's folder.
            data_dir = data_dir.absolute()
        return file_toml(account, answers.profile, answers.port, data_dir)

    def _write(self, logged_in: LoggedIn, text: str, existing: Settings | None, client: ClientName) -> SetUp:
        account, place = logged_in.account, logged_in.place
        before = after = ""
        try:
            if existing is not None:
                before, after = extended(self._config, text, account.user, account.name)
            settings = parse_settings(after or text, self._config)
            if place is not None and logged_in.secret is not None:
                place.store(logged_in.secret)
            try:
                state = State(settings.server.data_dir)
                try:
                    if existing is None:
                        create(self._config, text)
                    else:
                        replace_text(self._config, before, after)
                    if logged_in.tokens is not None:
                        grants = Grants(state, DataKey(settings.server.data_dir))
                        grants.put(account.user, account.name, logged_in.tokens)
                    name, token = state.issue_token(
                        account.user, self._answers.profile, provider=account.name, configured=settings.tokens
                    )
                finally:
                    state.close()
            except BaseException:
                if place is not None and not self._names_account(account):
                    place.forget()
                raise
        except (NotStored, AlreadyThere, CannotAdd, OSError) as exc:
            raise SetupFailed(f"{exc}. Nothing was written") from exc
        command = stdio_command(self._config, account.user, account.name, self._answers.profile)
        door = Door(f"{settings.server.url}/mcp", token, command)
        return SetUp(self._config, name, token, entry(client, door))

    def _names_account(self, account: Account) -> bool:
        """Whether the configuration came to have the account, so that its password is needed."""
        try:
            return account.name in load_settings(self._config).users[account.user].providers
        except (ConfigError, KeyError):
            return False


def _said(place: Server) -> str:
    return f"{place['host']}:{place['port']} ({place['security']})"
