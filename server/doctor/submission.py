"""The submission server: reached, logged in to and asked about each sender address. No mail is sent."""

from collections.abc import Iterator

from config.provider import Endpoint
from mirror.errors import AuthenticationRefused, MirrorError
from server.amounts import counted
from server.doctor.account import Account
from server.doctor.certificate import check_certificate
from server.doctor.door import open_door
from server.doctor.finding import Finding, fail, ok, warn
from server.sending.submission import Login, SubmissionUnavailable, check_login


def check_submission(account: Account, endpoint: Endpoint, about: str, *, may_log_in: bool) -> Iterator[Finding]:
    """may_log_in: False when this login was refused a moment ago, and a second try could lock the account."""
    provider = account.provider
    door = open_door(endpoint, "smtp", about)
    if isinstance(door, Finding):
        yield door
        return
    if door.certificate is not None:
        yield from check_certificate(door.certificate, about)
    if not may_log_in:
        yield warn(
            "smtp-not-tried", about, "the same login was refused by IMAP", "mend that one first, then run this again"
        )
        return
    user, source = provider.login(endpoint)
    if source is None and not provider.is_signed_in(endpoint):
        return
    try:
        secret = account.credential(endpoint).secret()
    except MirrorError:
        return  # told by the check of secrets, or by the login to IMAP
    try:
        login = Login(user, secret, is_token=provider.takes_token(endpoint))
        refused = check_login(endpoint, login, provider.addresses)
    except AuthenticationRefused as exc:
        if "offers no login" in str(exc):
            yield fail(
                "smtp-no-login",
                about,
                str(exc),
                'submission is on port 465 (security = "tls") or 587 ("starttls"), not on 25: correct port',
            )
        else:
            yield fail(
                "smtp-refused",
                about,
                f"{exc} for {user}",
                "correct username and password; a server with a login of its own wants smtp.username and smtp.password",
            )
        return
    except SubmissionUnavailable as exc:
        yield fail("smtp-unavailable", about, f"the server ends the conversation: {exc}", "try again; ask its operator")
        return
    for sender, reply in refused.items():
        yield fail(
            "smtp-sender",
            about,
            f"the server does not let this login send as {sender} ({reply})",
            "allow the alias at the provider, or remove it from aliases",
        )
    if not refused:
        yield ok(
            "smtp",
            about,
            f"login accepted, and {counted(len(provider.addresses), 'sender address', 'sender addresses')}",
        )
