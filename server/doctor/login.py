"""Logging in to IMAP, once, and what the server can do for this account."""

import re
from collections.abc import Iterator

from config.known import KnownProvider, known_providers
from config.provider import Provider
from mirror.errors import AuthenticationRefused, MirrorError, UpstreamThrottled, in_plain_words
from mirror.upstream import Upstream
from server.amounts import counted
from server.doctor.account import Account
from server.doctor.door import SECONDS, Door
from server.doctor.finding import Finding, fail, ok, warn

_APP_PASSWORD = re.compile(
    r"app(?:lication)?[- ]?(?:specific|password)|two[- ]factor|2fa|web ?login|invalidsecond", re.I
)
_SWITCHED_OFF = re.compile(r"imap (?:access )?is (?:disabled|not enabled)|not enabled for imap|disabled for imap", re.I)
_TOKEN_LOGINS = frozenset(("AUTH=XOAUTH2", "AUTH=OAUTHBEARER"))
_USE_OAUTH = "give it an oauth table with a client of your own, then postmirror auth login (docs/operations.md)"
_MEANINGS = {
    "IDLE": "new mail is noticed once in sync.interval, not at once",
    "CONDSTORE": "changed flags are found by asking for all of them",
    "UIDPLUS": "a stored copy is found again by its Message-ID",
    "MOVE": "a move is a copy and a deletion",
}


def check_login(account: Account, door: Door, about: str) -> Iterator[Finding]:
    """Whether the account's login is accepted; then what the server's extensions mean for it."""
    provider = account.provider
    takes_token = provider.takes_token(provider.imap)
    takes_passwords = "AUTH=PLAIN" in door.offered or "LOGINDISABLED" not in door.offered
    if not takes_token and not takes_passwords:
        if door.offered & _TOKEN_LOGINS:
            yield fail("login-oauth-only", about, "the server takes no passwords, only OAuth", _USE_OAUTH)
        else:
            yield fail(
                "login-needs-tls",
                about,
                "the server takes no password without TLS",
                'use security = "tls" or "starttls"',
            )
        return
    if takes_token and not door.offered & _TOKEN_LOGINS:
        yield fail("login-no-oauth", about, "the server takes no OAuth tokens", "give a password instead")
        return
    try:
        with Upstream.connect(
            provider,
            connect_timeout=SECONDS,
            read_timeout=2 * SECONDS,
            credential=account.credential(provider.imap),
        ) as session:
            folders, _ = session.list_folders()
            yield ok("login", about, f"accepted; {counted(len(folders), 'folder')}")
            yield _capabilities(session, about)
    except AuthenticationRefused as exc:
        if provider.is_signed_in(provider.imap):
            yield fail("sign-in", about, str(exc), f"postmirror auth login {account.mailbox}")
            return
        yield _refused(provider, f"{exc} {exc.__cause__ or ''}", about)
    except UpstreamThrottled as exc:
        yield warn("login-throttled", about, str(exc), "wait: every further try makes it longer")
    except MirrorError as exc:
        yield fail("login-fails", about, str(exc), exc.remedy or in_plain_words(exc))


def _refused(provider: Provider, said: str, about: str) -> Finding:
    user, _ = provider.login(provider.imap)
    known = _known(provider.imap.host)
    wants = known.credential if known is not None else ""
    if provider.takes_token(provider.imap):
        return fail("login-token", about, "the access token is not accepted", "sign in again for a new token")
    if _SWITCHED_OFF.search(said):
        return fail("login-imap-off", about, "IMAP is switched off for this account", "switch it on at the provider")
    if wants == "oauth":
        return fail("login-oauth-only", about, "this provider takes no passwords, only OAuth", _USE_OAUTH)
    if wants == "app-password" or _APP_PASSWORD.search(said):
        where = known.where if known is not None and known.where else "in the security settings of the account"
        return fail(
            "login-app-password",
            about,
            f"the login of {user} is refused: this provider wants an app password",
            f"make an app password, and use it as the password: {where}",
        )
    return fail(
        "login-refused",
        about,
        f"the server does not accept this password for {user} (tried once)",
        "correct username and password; try them in webmail before you run this again",
    )


def _known(host: str) -> KnownProvider | None:
    """The provider whose IMAP server this is."""
    return next((each for each in known_providers() if each.imap.get("host") == host.casefold()), None)


def _capabilities(session: Upstream, about: str) -> Finding:
    lacking = [
        f"no {name}: {meaning}"
        for name, meaning in _MEANINGS.items()
        if not (session.has(name) or (name == "CONDSTORE" and session.has_condstore))
    ]
    return ok("capabilities", about, "; ".join([f"uses {session.rung}", *lacking]))
