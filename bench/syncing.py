"""First sync and the pass that finds nothing new: ours, and on the same server in turn with it, the classic tools'."""

import json
import resource
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure, Section, seconds
from bench.installation import PROVIDER, USER, Installation, Mailbox
from bench.peers import Peer
from mirror.keeper import Keeper
from mirror.parsing import Parsers
from tests.servers.proxy import Proxy

_FIRST = 500
_LOOK_EVERY = 0.05
_WARM_PASSES = 20
_ROUND_TRIP = 0.05
_AFAR = "searchable, 50 ms away"

_TEXTS = "SELECT count(*) FROM (SELECT 1 FROM content WHERE state >= 2 ORDER BY id DESC LIMIT ?)"
_LISTED = "SELECT (SELECT count(*) FROM content) - (SELECT count(*) FROM content WHERE state < 2 AND state = 0)"
_BEGAN = "SELECT pass_began_at FROM mirror"


class Milestones(threading.Thread):
    """Watches a mirror grow: when its first messages could be searched, and when all could be listed (time.time)."""

    def __init__(self, database: Path, messages: int) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._messages = messages
        self._ended = threading.Event()
        self.began = self.first_searchable = self.all_listed = 0.0

    def run(self) -> None:
        """Look until both came true, or until stop."""
        while not self._ended.wait(_LOOK_EVERY) and not (self.first_searchable and self.all_listed):
            if self._database.exists():
                try:
                    self._look()
                except sqlite3.OperationalError:
                    continue  # the tables are being made

    def _look(self) -> None:
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as connection:
            self.began = connection.execute(_BEGAN).fetchone()[0]
            wanted = min(_FIRST, self._messages)
            if not self.first_searchable and connection.execute(_TEXTS, (wanted,)).fetchone()[0] == wanted:
                self.first_searchable = time.time()
            if not self.all_listed and connection.execute(_LISTED).fetchone()[0] == self._messages:
                self.all_listed = time.time()

    def stop(self) -> None:
        """Give up what did not come true."""
        self._ended.set()
        self.join()


@dataclass
class Rounds:
    """What each round found, by its name, in seconds."""

    taken: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """Note one more run."""
        self.taken.setdefault(name, []).append(value)


def first_sync(
    mailbox: Mailbox, folder: Path, runs: int, peers: Sequence[Peer], *, title: str = "First sync"
) -> tuple[Section, Installation]:
    """Figures of the first sync, and the last installation that was made, whose mirror is complete."""
    rounds = Rounds()
    for number in range(runs):
        installation = Installation(folder / f"{mailbox.login}-{number}", mailbox)
        _sync_once(installation, mailbox, rounds)
        _sync_from_afar(folder / f"{mailbox.login}-afar-{number}", mailbox, rounds)
        for peer in peers:
            rounds.add(peer.name, peer.first_run(mailbox, folder / f"{mailbox.login}-{peer.slug}-{number}"))
    ours = (
        "whole process",
        "the pass",
        "searchable",
        f"first {_FIRST} searchable",
        "everything listed",
        "CPU of it all",
        _AFAR,
    )
    figures = [seconds(f"postmirror: {name}", rounds.taken[name]) for name in ours if name in rounds.taken]
    searchable = statistics.median(rounds.taken["searchable"])
    figures.append(Figure("postmirror: searchable messages", mailbox.messages / searchable, "/s"))
    distant = statistics.median(rounds.taken[_AFAR])
    figures.append(Figure(f"{_AFAR} / searchable", distant / searchable, "x"))
    figures += [seconds(peer.name, rounds.taken[peer.name]) for peer in peers]
    if "everything listed" in rounds.taken:
        share = statistics.median(rounds.taken["everything listed"]) / statistics.median(rounds.taken["the pass"])
        figures.append(Figure("everything listed / the pass", share, "x"))
    figures += _compared(rounds)
    note = "Searchable, first and listed count from the start of the pass; the others are whole processes."
    return Section(title, ("median", "slowest"), figures, note), installation


def _sync_once(installation: Installation, mailbox: Mailbox, rounds: Rounds) -> None:
    milestones = Milestones(installation.mirror / "mirror.db", mailbox.messages)
    milestones.start()
    cpu, began = _cpu_of_children(), time.perf_counter()
    summary = json.loads(installation.postmirror("sync", "--json"))
    rounds.add("whole process", time.perf_counter() - began)
    rounds.add("CPU of it all", _cpu_of_children() - cpu)
    milestones.stop()
    rounds.add("the pass", summary["seconds"])
    rounds.add("searchable", summary["searchable_s"])
    if milestones.first_searchable:
        rounds.add(f"first {_FIRST} searchable", milestones.first_searchable - milestones.began)
    if milestones.all_listed:
        rounds.add("everything listed", milestones.all_listed - milestones.began)
    found = sum(each["messages"] for each in summary["folders"])
    if found != mailbox.messages or not summary["complete"]:
        raise RuntimeError(f"{found} of {mailbox.messages} messages were mirrored: {summary['errors']}")


def _sync_from_afar(folder: Path, mailbox: Mailbox, rounds: Rounds) -> None:
    with Proxy(mailbox.dovecot.port, delay=_ROUND_TRIP / 2) as line:
        summary = json.loads(Installation(folder, mailbox, imap_port=line.port).postmirror("sync", "--json"))
    rounds.add(_AFAR, summary["searchable_s"])


def _compared(rounds: Rounds) -> list[Figure]:
    """The two sums that decide whether the mirror is sooner than what people use."""
    figures = []
    for ours, indexer in (("searchable", "mu index"), ("the pass", "mu index"), ("the pass", "notmuch new")):
        if {"mbsync", indexer} <= rounds.taken.keys():
            theirs = sum(statistics.median(rounds.taken[name]) for name in ("mbsync", indexer))
            ratio = statistics.median(rounds.taken[ours]) / theirs
            figures.append(Figure(f"{ours} / (mbsync + {indexer})", ratio, "x"))
    return figures


def nothing_new(installation: Installation, mailbox: Mailbox, runs: int, peers: Sequence[Peer]) -> Section:
    """Figures of a pass over a mailbox in which nothing happened."""
    rounds = Rounds()
    for _ in range(runs):
        rounds.add("whole process", _timed(lambda: installation.postmirror("sync", "--json")))
        for peer in peers:
            rounds.add(peer.name, _timed(peer.again))
    settings = installation.settings
    provider = settings.users[USER].providers[PROVIDER]
    with Parsers(settings.sync.parse_children) as parsers:
        keeper = Keeper(f"{USER}/{PROVIDER}", installation.mirror, provider, parsers, threading.Event())
        if not keeper.hold():
            raise RuntimeError("another process keeps the mirror")
        try:
            passes = [_timed(keeper.one_pass) for _ in range(_WARM_PASSES)]
        finally:
            keeper.close()
    figures = [
        seconds("postmirror: whole process", rounds.taken["whole process"]),
        Figure(
            "postmirror: a pass in a warm process",
            statistics.median(passes) * 1_000,
            "ms",
            max(passes) * 1_000,
            "",
            "wire",
        ),
        *(seconds(peer.name, rounds.taken[peer.name]) for peer in peers),
    ]
    if "mbsync" in rounds.taken:
        ratio = statistics.median(passes) / statistics.median(rounds.taken["mbsync"])
        figures.append(Figure("warm pass / mbsync", ratio, "x"))
    return Section("Nothing new", ("median", "slowest"), figures)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def mirror_size(installation: Installation, mailbox: Mailbox) -> Section:
    """Octets on the disk, beside those of the mail."""
    files = sum(path.stat().st_size for path in installation.mirror.rglob("*") if path.is_file())
    with closing(sqlite3.connect(f"file:{installation.mirror / 'mirror.db'}?mode=ro", uri=True)) as connection:
        text = connection.execute("SELECT sum(length(CAST(text AS BLOB))) FROM body").fetchone()[0]
    figures = (
        Figure("mail on the server", mailbox.octets / 1e6, "MB", key="mail"),
        Figure("plain text in it", text / 1e6, "MB", against="mail"),
        Figure("the mirror's files", files / 1e6, "MB", against="mail"),
    )
    return Section("Size", ("", ""), figures)
