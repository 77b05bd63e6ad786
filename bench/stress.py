"""`python -m bench.stress [CASE …]`: mailboxes beyond what people have, each mirrored whole by `serve` on a Dovecot.

Cases: ordinary (20,000 messages of every kind, for comparison), folder (150,000 in one folder), scale (200,000 small
ones beside 20,000), folders (100 of them, and the round trips of a pass that finds nothing new), large (one message of
50 MB), chain (a conversation of 20,000 messages).
"""

import json
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from bench.accounts import cpu
from bench.figures import Figure, Report, Section
from bench.installation import PROVIDER, SEED, USER, Installation, Mailbox
from bench.machine import this_machine
from bench.mail import date_of, generate
from bench.maildir import write_folder
from bench.memory import sizes
from bench.stress_mails import chain, large, small
from config.identity import mirror_folder
from mirror.keeper import Keeper
from mirror.parsing import Parsers
from tests.servers.dovecot import Dovecot
from tests.servers.proxy import Proxy

_LOOK_EVERY = 0.2
_LONGEST = 3_600.0
_ENDED_WITHIN = 30.0
_LARGE = 50_000_000
_PASS = "SELECT pass_began_at, pass_ended_at, error, report FROM mirror"
_WHOLE = "SELECT count(*), coalesce(sum(state >= 2), 0) FROM content"


@dataclass(frozen=True, slots=True)
class Whole:
    """A first sync that is done. searchable, seconds: from its start. computed: CPU. peaks: PSS in MB by process."""

    messages: int
    octets: int
    searchable: float
    seconds: float
    computed: float
    peaks: dict[str, float]

    def figures(self, name: str) -> list[Figure]:
        """What is shown of it."""
        return [
            Figure(f"{name}: mail", self.octets / 1e6, "MB"),
            Figure(f"{name}: searchable", self.searchable, "s"),
            Figure(f"{name}: whole", self.seconds, "s"),
            Figure(f"{name}: rate", self.rate, "/s"),
            Figure(f"{name}: CPU, a message", 1_000 * self.computed / self.messages, "ms"),
            *(Figure(f"{name}: peak, {role}", peak, "MB") for role, peak in self.peaks.items()),
        ]

    @property
    def rate(self) -> float:
        """Messages a second until all can be searched."""
        return self.messages / self.searchable


def mirrored(dovecot: Dovecot, login: str, folder: Path, messages: int, octets: int) -> Whole:
    """The first sync of a mailbox by `serve`. Raises RuntimeError when the mirror lacks something."""
    installation = Installation(folder / login, Mailbox(dovecot, login, messages, octets), idle=False)
    peaks: dict[str, float] = {}
    with installation.serving() as served:
        deadline = time.monotonic() + _LONGEST
        while (done := _ended(installation.mirror / "mirror.db")) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{login}: the first sync did not end")
            now = {role: pss for role, (pss, _) in sizes(served.pid)}
            now["all of it"] = sum(now.values())
            peaks |= {role: max(pss, peaks.get(role, 0.0)) for role, pss in now.items()}
            time.sleep(_LOOK_EVERY)
        computed = cpu(served.pid)
    seconds, searchable, error = done
    with closing(_connection(installation.mirror / "mirror.db")) as connection:
        known, whole = connection.execute(_WHOLE).fetchone()
    if error or (known, whole) != (messages, messages):
        raise RuntimeError(f"{login}: {whole} of {messages} messages are there, {known} are known. {error}")
    return Whole(messages, octets, searchable, seconds, computed, peaks)


def _ended(database: Path) -> tuple[float, float, str] | None:
    """Seconds of the first pass, seconds until all could be searched, and its error; None while it runs."""
    try:
        with closing(_connection(database)) as connection:
            began, ended, error, report = connection.execute(_PASS).fetchone()
    except (sqlite3.OperationalError, TypeError):
        return None  # the tables are being made
    if ended <= began:
        return None
    return ended - began, json.loads(report).get("searchable_s", 0.0), error


def _connection(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True)


def ordinary(dovecot: Dovecot, folder: Path) -> Iterable[Figure]:
    """20,000 messages as people have them."""
    mails = ((raw, int(date_of(raw).timestamp())) for raw in generate(20_000, SEED))
    octets = write_folder(dovecot, "ordinary", "INBOX", mails)
    return mirrored(dovecot, "ordinary", folder, 20_000, octets).figures("ordinary")


def one_folder(dovecot: Dovecot, folder: Path) -> Iterable[Figure]:
    """150,000 messages."""
    return _in_one_folder(dovecot, folder, 150_000).figures("150,000")


def of_any_size(dovecot: Dovecot, folder: Path) -> Iterable[Figure]:
    """20,000 messages and ten times as many: the rate stays."""
    few, many = (_in_one_folder(dovecot, folder, messages) for messages in (20_000, 200_000))
    return [
        *few.figures("20,000"),
        *many.figures("200,000"),
        Figure("rate, of that of 20,000", many.rate / few.rate, "x"),
        Figure("the same by CPU", few.computed / few.messages / (many.computed / many.messages), "x"),
    ]


def _in_one_folder(dovecot: Dovecot, folder: Path, messages: int) -> Whole:
    login = f"stress{messages}"
    return mirrored(dovecot, login, folder, messages, write_folder(dovecot, login, "INBOX", small(messages)))


def one_large(dovecot: Dovecot, folder: Path) -> Iterable[Figure]:
    """One message of 50 MB."""
    return mirrored(dovecot, "large", folder, 1, write_folder(dovecot, "large", "INBOX", [large(_LARGE)])).figures(
        "50 MB"
    )


def one_conversation(dovecot: Dovecot, folder: Path) -> Iterable[Figure]:
    """20,000 answers."""
    octets = write_folder(dovecot, "chain", "INBOX", chain(20_000))
    return mirrored(dovecot, "chain", folder, 20_000, octets).figures("chain")


class _RoundTrips:
    """How often the client speaks after the server did."""

    def __init__(self) -> None:
        self.count = 0
        self._is_answered = True

    def asked(self, _: bytes) -> None:
        self.count += self._is_answered
        self._is_answered = False

    def heard(self, _: bytes) -> None:
        self._is_answered = True


def many_folders(dovecot: Dovecot, folder: Path) -> Iterable[Figure]:
    """100 folders of 50 messages, and passes that find nothing new."""
    octets = write_folder(dovecot, "folders", "INBOX", small(50))
    for number in range(1, 100):
        octets += write_folder(dovecot, "folders", f"Folder {number}", small(50, number))
    first = mirrored(dovecot, "folders", folder, 5_000, octets)
    counted = _RoundTrips()
    with Proxy(dovecot.port, heard=counted.heard, asked=counted.asked) as line, Parsers(1) as parsers:
        by_line = Installation(folder / "by-line", Mailbox(dovecot, "folders", 5_000, octets), imap_port=line.port)
        provider = by_line.settings.users[USER].providers[PROVIDER]
        mirror = mirror_folder(folder / "folders" / "data", USER, PROVIDER)
        keeper = Keeper(f"{USER}/{PROVIDER}", mirror, provider, parsers, threading.Event())
        _wait_until_held(keeper)
        try:
            trips = []
            for _ in range(3):
                counted.count = 0
                if keeper.one_pass().work:
                    raise RuntimeError("a pass over an unchanged mailbox found work")
                trips.append(counted.count)
        finally:
            keeper.close()
    return [
        *first.figures("100 folders"),
        Figure("nothing new: round trips of a pass", trips[-1], ""),
        Figure("nothing new: with the login", trips[0], ""),
    ]


def _wait_until_held(keeper: Keeper) -> None:
    """A worker, niced as it is, may outlive its `serve` by a moment."""
    deadline = time.monotonic() + _ENDED_WITHIN
    while not keeper.hold():
        if time.monotonic() > deadline:
            raise TimeoutError("another process keeps the mirror")
        time.sleep(_LOOK_EVERY)


CASES: dict[str, Callable[[Dovecot, Path], Iterable[Figure]]] = {
    "ordinary": ordinary,
    "folder": one_folder,
    "scale": of_any_size,
    "folders": many_folders,
    "large": one_large,
    "chain": one_conversation,
}


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice(list(CASES)))
def main(cases: Sequence[str]) -> None:
    """Run the cases and show what they found."""
    report = Report(this_machine(), "mailboxes beyond what people have")
    folder = Path(tempfile.mkdtemp(prefix="postmirror-stress-"))
    try:
        with Dovecot(tls=False) as dovecot:
            for name in cases or CASES:
                run = CASES[name]
                figures = list(run(dovecot, folder))
                report.sections.append(Section(run.__doc__ or name, ("", ""), figures))
    finally:
        shutil.rmtree(folder)
    report.show(Console())


if __name__ == "__main__":
    main()
