"""Every check, in the order in which one rests on another."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from config.identity import Settings
from config.settings import ConfigError, load_settings
from mirror.credential import Credentials, as_configured
from server.amounts import counted
from server.doctor.account import Account
from server.doctor.audit import check_audit
from server.doctor.certificate import check_certificate
from server.doctor.clock import check_clock
from server.doctor.disk import check_disk
from server.doctor.door import open_door
from server.doctor.finding import Finding, fail, ok, worst
from server.doctor.locks import check_locks, is_held
from server.doctor.login import check_login
from server.doctor.mirror import check_mirror, check_strangers
from server.doctor.network import check_network
from server.doctor.permissions import check_agent, check_configuration, check_data, check_secrets
from server.doctor.state import check_state
from server.doctor.submission import check_submission
from server.doctor.versions import check_versions
from server.oauth.source import credentials_of
from server.unusable import FileUnusable


def examine(path: Path, agent: str = "", *, is_offline: bool = False) -> Iterator[Finding]:
    """Findings about the installation whose configuration this is, as they come.

    agent: the user that the agent runs as. is_offline: leave the mail servers alone.
    """
    yield from check_versions()
    found = list(check_configuration(path))
    yield from found
    try:
        settings = load_settings(path)
    except ConfigError as exc:
        if worst(found) != "fail":
            for problem in exc.problems:
                yield fail("configuration", path, problem, "correct it; postmirror config check reads it again")
        return
    if not settings.identities():
        yield fail("configuration", path, "there is no mailbox in it", "add a [users.NAME.providers.NAME] table")
        return
    mailboxes = counted(len(settings.identities()), "mailbox", "mailboxes")
    yield ok("configuration", path, f"{mailboxes}, {counted(len(settings.profiles), 'profile')}")
    secrets = list(check_secrets(settings))
    yield from secrets
    data = list(check_data(settings.server.data_dir))
    yield from data
    if agent:
        yield from check_agent(settings.server.data_dir, agent)
    greetings: list[str] = []
    if not is_offline:
        unusable = {finding.about for finding in secrets if finding.state == "fail"}
        with ExitStack() as opened:
            credential_of = _credentials(settings, opened)
            for user, name, provider in settings.identities():
                account = Account(user, name, provider, credential_of)
                yield from _account(account, unusable, greetings)
    yield from check_clock(greetings, settings.server.data_dir)
    yield from check_disk(settings.server.data_dir)
    if any(finding.name in ("data-owner", "data-file-owner") for finding in data):
        return
    for user, name, provider in settings.identities():
        yield from check_mirror(settings.mirror_dir(user, name), provider, f"{user}/{name}")
    yield from check_strangers(settings)
    yield from check_state(settings)
    yield from check_audit(settings)
    yield from check_locks(settings)
    yield from check_network(settings.server, is_serving=is_held(settings.server.data_dir / "serve.lock"))


def _credentials(settings: Settings, opened: ExitStack) -> Credentials:
    try:
        return opened.enter_context(credentials_of(settings))
    except FileUnusable:
        return as_configured  # the checks of data and state tell


def _account(account: Account, unusable: set[str], greetings: list[str]) -> Iterator[Finding]:
    provider, mailbox = account.provider, account.mailbox
    about = f"{mailbox} imap"
    door = open_door(provider.imap, "imap", about)
    is_refused = False
    if isinstance(door, Finding):
        yield door
    else:
        greetings.append(door.greeting)
        if door.certificate is not None:
            yield from check_certificate(door.certificate, about)
        if about not in unusable:
            login = list(check_login(account, door, about))
            is_refused = worst(login) == "fail"
            yield from login
    if provider.smtp is None:
        yield ok("smtp", f"{mailbox} smtp", "not configured: nothing can be sent")
        return
    is_same = provider.login(provider.smtp) == provider.login(provider.imap)
    if f"{mailbox} smtp" not in unusable and not (is_same and about in unusable):
        may_log_in = not (is_same and is_refused)
        yield from check_submission(account, provider.smtp, f"{mailbox} smtp", may_log_in=may_log_in)
