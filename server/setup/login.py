"""The first login to a mailbox: which credential it wants, asked for, tried, and put away once it works."""

import ssl
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click

from config.secret import SecretSource, SecretUnavailable
from config.settings import presets
from mirror.credential import InMemory
from mirror.errors import AuthenticationRefused, MirrorError, UpstreamUnavailable, in_plain_words
from mirror.upstream import Upstream
from server.oauth.browser import CameNotBack
from server.oauth.signing_in import sign_in
from server.oauth.source import advice
from server.oauth.tokens import EndpointUnavailable, SignInRefused, Tokens
from server.setup.account import Account, OAuthTable
from server.setup.answers import Answers, Asker
from server.setup.finding import Found
from server.setup.looking import Mailbox, look
from server.setup.secret import Keyring, SecretFile, keyring

ATTEMPTS = 3
"""Passwords that are asked for; more refused ones may lock an account."""
_WORDS = {
    "password": "the password of the account",
    "app-password": "an app password, which is made for one program; the password of the account is not accepted",
    "oauth": "a sign-in by OAuth 2; passwords are not accepted",
    "bridge": "the password that the bridge shows",
}
Place = SecretFile | Keyring


class SetupFailed(click.ClickException):
    """The mailbox cannot be set up like this; the text says why and what to do. Nothing was written."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A login that worked. secret: to be put into place; both None when the password is kept elsewhere already.

    tokens: of a sign-in by OAuth 2.
    """

    account: Account
    mailbox: Mailbox
    secret: str | None = None
    place: Place | None = None
    tokens: Tokens | None = None


class FirstLogin:
    """One mailbox that nobody has logged in to yet. say: shows a line to the user."""

    def __init__(self, answers: Answers, asker: Asker, config: Path, say: Callable[[str], None]) -> None:
        self._answers = answers
        self._asker = asker
        self._config = config
        self._say = say

    def reach(self, account: Account, found: Found) -> Account:
        """The account, once its server answers behind TLS that can be trusted and takes a credential we can have.

        Raises SetupFailed.
        """
        provider = account.provider(self._config)
        try:
            offered = Upstream.offered(provider)
        except UpstreamUnavailable as exc:
            if not isinstance(exc.__cause__, ssl.SSLCertVerificationError):
                raise SetupFailed(f"{exc}. Check host, port, security and the network; nothing was written") from exc
            trusted = self._trusting(account, exc.__cause__)
            return self.reach(trusted, found)
        takes_token = bool(offered & {"AUTH=XOAUTH2", "AUTH=OAUTHBEARER"})
        takes_password = bool(offered & {"AUTH=PLAIN", "AUTH=LOGIN"}) or not (takes_token or "LOGINDISABLED" in offered)
        if self._answers.auth == "oauth2":
            if not takes_token:
                raise SetupFailed(f"{provider.imap.host} takes no access tokens: leave --auth oauth2 out")
            return replace(account, auth="oauth2")
        if self._answers.oauth_client_id is not None:
            if not takes_token:
                raise SetupFailed(f"{provider.imap.host} takes no access tokens: leave --oauth-client-id out")
            return replace(account, oauth=self._answers.oauth)
        if takes_token and (not takes_password or found.credential == "oauth"):
            return replace(account, oauth=self._client(provider.imap.host, found))
        if not takes_password:
            raise SetupFailed(f"{provider.imap.host} offers no login here (LOGINDISABLED): use tls or starttls")
        return account

    def _client(self, host: str, found: Found) -> OAuthTable:
        where = f" Where: {found.where}." if found.where else ""
        wish = f"{host} wants {_WORDS['oauth']}.{where}"
        if not self._asker.can_ask or "oauth" not in presets().get(found.preset, {}):
            urls = "" if found.preset else ", --oauth-authorization-url, --oauth-token-url and --oauth-scope"
            raise SetupFailed(
                f"{wish} Give --oauth-client-id{urls} of a client of your own (docs/operations.md); or --auth oauth2 "
                "and --password-command, a program that prints a fresh access token. Nothing was written"
            )
        self._say(wish)
        return {**self._answers.oauth, "client_id": self._asker.text("Its client id", "--oauth-client-id")}

    def _trusting(self, account: Account, fault: ssl.SSLCertVerificationError) -> Account:
        reason = fault.verify_message
        if "mismatch" in reason.lower() or "not valid for" in reason.lower():
            if account.server_name or not self._asker.can_ask:
                raise SetupFailed(
                    f"the server's certificate has another name ({reason}): give the host by the name in it, or say "
                    "the name with --server-name. Nothing was written"
                )
            self._say(f"The certificate has another name: {reason}")
            return replace(account, server_name=self._asker.text("The name in the certificate", "--server-name"))
        if account.ca_file is not None or not self._asker.can_ask:
            raise SetupFailed(
                f"the server's certificate cannot be trusted ({reason}). A certificate of one's own needs the file of "
                "the authority that signed it, or the certificate itself (PEM): give --ca-file. Nothing was written"
            )
        self._say(f"The certificate cannot be trusted: {reason}.")
        given = self._asker.text(
            "File of the authority that signed it, or of the certificate itself (PEM)", "--ca-file"
        )
        return replace(account, ca_file=Path(given).expanduser().absolute())

    def log_in(self, account: Account, found: Found) -> LoggedIn:
        """The account, logged in. Raises SetupFailed once it was refused as often as is safe."""
        if account.oauth:
            return self._signed_in(account)
        if account.auth == "password":
            where = f" Where: {found.where}." if found.where else ""
            self._say(f"{found.label} wants {_WORDS[found.credential]}.{where}")
        if (source := self._answers.password) is not None:
            return self._with_known(account.with_password(source), source, found)
        place = self._place(account)
        refusals = 0
        while True:
            secret = self._ask()
            try:
                mailbox = self._look(account, secret)
            except AuthenticationRefused as exc:
                refusals += 1
                self._say(self._refused(exc, found))
                if refusals == ATTEMPTS or not self._asker.can_ask or self._answers.password_stdin:
                    raise SetupFailed(
                        f"not logged in after {refusals} of at most {ATTEMPTS} attempts, since more may lock the "
                        "account. Nothing was written"
                    ) from exc
            else:
                return LoggedIn(account.with_password(place.source), mailbox, secret, place)

    def _signed_in(self, account: Account) -> LoggedIn:
        provider = account.provider(self._config)
        if provider.oauth is None:
            raise SetupFailed("the oauth table is empty: give --oauth-client-id")
        try:
            tokens = sign_in(
                provider.oauth,
                account.address,
                self._answers.way,
                show=self._say,
                ask=lambda question: self._asker.text(question, "--device"),
                go=(lambda _: None) if self._answers.no_browser else webbrowser.open,
            )
            return LoggedIn(account, self._look(account, tokens.access), tokens=tokens)
        except SignInRefused as exc:
            raise SetupFailed(f"not signed in: {advice(exc.fault)} ({exc.reason}). Nothing was written") from exc
        except (EndpointUnavailable, CameNotBack) as exc:
            raise SetupFailed(f"not signed in: {exc}. Nothing was written") from exc
        except AuthenticationRefused as exc:
            raise SetupFailed(
                f"signed in, but {provider.imap.host} does not let that account into the mailbox of {account.address}: "
                f"sign in as its owner, and check that IMAP is switched on ({exc}). Nothing was written"
            ) from exc

    def _with_known(self, account: Account, source: SecretSource, found: Found) -> LoggedIn:
        try:
            return LoggedIn(account, self._look(account, source.read()))
        except SecretUnavailable as exc:
            raise SetupFailed(f"{exc}. Nothing was written") from exc
        except AuthenticationRefused as exc:
            raise SetupFailed(f"{self._refused(exc, found)} Nothing was written") from exc

    def _look(self, account: Account, secret: str) -> Mailbox:
        try:
            return look(account.provider(self._config), InMemory(secret))
        except AuthenticationRefused:
            raise
        except MirrorError as exc:
            raise SetupFailed(f"{in_plain_words(exc)}. Nothing was written") from exc

    def _refused(self, exc: AuthenticationRefused, found: Found) -> str:
        hint = f" It wants {_WORDS[found.credential]}: {found.where}." if found.where else ""
        return f"Not logged in: {exc}.{hint}"

    def _ask(self) -> str:
        if self._answers.password_stdin:
            return sys.stdin.readline().rstrip("\r\n")
        flags = "--password-file, --password-command, --password-env or --password-stdin"
        return self._asker.secret("Password (not shown)", flags)

    def _place(self, account: Account) -> Place:
        chain = keyring(account.address)
        kinds = ("file",) if chain is None else ("file", "keyring")
        kind = self._answers.store
        if kind is None:
            question = "Keep the password in a file that only you can read, or in the keyring"
            kind = "keyring" if self._asker.choice(question, "--store", kinds, kinds[-1]) == "keyring" else "file"
        if kind == "keyring":
            if chain is None:
                raise SetupFailed(
                    "there is no keyring here (secret-tool and a session bus, or macOS): use --store file"
                )
            return chain
        path = self._config.absolute().with_name(f"{account.user}-{account.name}.password")
        if path.exists():
            raise SetupFailed(
                f"{path} is there already: use it with --password-file, move it away, or choose another --name"
            )
        return SecretFile(path)
