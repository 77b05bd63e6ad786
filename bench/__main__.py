"""`python -m bench [PART …]`: how long a generated mailbox on a real Dovecot takes to be mirrored, searched and read.

Parts: wire, sync (with the classic tools beside it), real (the same with the mail corpus), reads, http, memory,
contended (reads beside a first sync), arrival (new mail), distance (a round trip of 50 ms), accounts (50 idle ones);
search and content have tables of their own. Without a part, everything runs but stress: mailboxes of up to 200,000
messages, a quarter of an hour (`python -m bench.stress CASE` for one of them).
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from bench.accounts import idle_accounts
from bench.arrival import new_mail
from bench.chart import first_sync_chart
from bench.contended import reads_beside_first_sync
from bench.distance import fill_small, over_distance
from bench.door import over_http
from bench.figures import Report, Section
from bench.in_use import many_in_use
from bench.installation import ROOT, Installation, Mailbox, fill
from bench.machine import this_machine
from bench.memory import resident_memory
from bench.peers import installed_peers
from bench.reading import in_process, questions
from bench.real import fill_real
from bench.syncing import first_sync, mirror_size, nothing_new
from bench.wire import wire_floor
from tests.servers.dovecot import Dovecot

OWN_TABLES = {
    "gateway": ("Gateway tools beside simple-email-gw", "bench.gateway", ("--messages", "{messages}")),
    "search": (
        "Searches on a mirror of their own",
        "bench.search",
        ("--messages", "{messages}", "--dovecot", "--writing"),
    ),
    "content": ("Parsing and cleaning, and agreement with another parser", "bench.content", ()),
    "stress": ("Mailboxes beyond what people have", "bench.stress", ()),
}
"""Parts that are programs of their own: title, module and arguments."""
ON_MAILBOX = ("wire", "sync", "reads", "http", "memory", "contended", "arrival")
"""Parts that need the generated mailbox."""
PARTS = (*ON_MAILBOX, "real", "distance", "accounts", *OWN_TABLES)
ONLY_WHEN_ASKED = ("stress",)
_CHART = "First sync"
_REAL_SHARE = 0.6
"""Messages of the real mailbox, of those of the generated one: 12,000 beside 20,000."""
_DOCUMENT = ROOT / "docs" / "benchmarks.md"

_HEAD = """\
# Benchmarks

Written by `make bench ARGS=--write-docs`; do not edit. `make bench` prints the same table for your machine. Other
numbers of messages: `make bench ARGS="--messages 20000"`; single parts: `make bench ARGS="sync http"`.

Machine: {machine}.

Mailbox: {mailbox}.

The mailbox is on a Dovecot on loopback (Maildir, no fsync). The wire floor is the same mailbox fetched by imapclient
and thrown away; ratios are to it (`wire`), to an echo tool of the MCP SDK in the same server process (`echo`,
`sdk echo`) or to the size of the mail (`mail`). mbsync, mu and notmuch run in turn with ours on the same server, from
nothing each time, with their own settings where nothing else is said. A load above 0.5 at the start means that other
programs ran on the machine: then the ratios count, and not the times.

"""


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--messages", default=5_000, show_default=True, type=click.IntRange(200), help="Size of the mailbox.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1), help="Runs that a median is taken of.")
@click.option(
    "--calls", default=400, show_default=True, type=click.IntRange(20), help="Calls of each kind of question."
)
@click.option("--idle", default=60.0, show_default=True, help="Seconds for which idle accounts are watched.")
@click.option("--peers/--no-peers", default=True, help="Whether mbsync, mu and notmuch run beside the first sync.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Also write the figures here."
)
@click.option("--write-docs", is_flag=True, help="Also write docs/benchmarks.md.")
def main(
    parts: Sequence[str],
    messages: int,
    runs: int,
    calls: int,
    idle: float,
    peers: bool,
    json_file: Path | None,
    write_docs: bool,
) -> None:
    """Run the parts and show what they found."""
    chosen = set(parts) or {*PARTS} - {*ONLY_WHEN_ASKED}
    console = Console(stderr=True)
    report = Report(this_machine(), "none")
    if chosen - OWN_TABLES.keys():
        folder = Path(tempfile.mkdtemp(prefix="postmirror-bench-"))
        try:
            with Dovecot(tls=False) as dovecot:
                if chosen.intersection(ON_MAILBOX):
                    console.print(f"filling a mailbox with {messages} messages")
                    mailbox = fill(dovecot, "bench", messages)
                    report.mailbox = mailbox.described
                    _measure(report, mailbox, folder, chosen, runs=runs, calls=calls, peers=peers, console=console)
                if "real" in chosen:
                    _measure_real(report, dovecot, folder, int(messages * _REAL_SHARE), runs, console)
                if "distance" in chosen:
                    console.print("distance")
                    report.sections.append(over_distance(fill_small(dovecot, "small", messages), folder, runs))
                if "accounts" in chosen:
                    console.print("accounts")
                    report.sections.append(idle_accounts(dovecot, folder, idle))
        finally:
            shutil.rmtree(folder)
    for part in (part for part in OWN_TABLES if part in chosen):
        console.print(part)
        report.sections.append(_own_table(part, messages))
    report.show(Console())
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(), indent=2) + "\n", "utf-8")
    if write_docs:
        write_document(report)


def _measure(
    report: Report,
    mailbox: Mailbox,
    folder: Path,
    chosen: set[str],
    *,
    runs: int,
    calls: int,
    peers: bool,
    console: Console,
) -> None:
    """Run the parts that need the mailbox; each adds its sections to the report."""
    if chosen & {"wire", "sync"}:
        console.print("wire")
        report.sections.append(wire_floor(mailbox, runs))
    if "sync" in chosen:
        others, missing = installed_peers() if peers else ([], [])
        if missing:
            console.print(f"not compared with {', '.join(missing)}: not installed", style="yellow")
        console.print(f"sync, {runs} times" + (f", with {', '.join(peer.name for peer in others)}" if others else ""))
        section, installation = first_sync(mailbox, folder, runs, others)
        report.sections += [section, nothing_new(installation, mailbox, runs, others)]
    elif chosen & {"reads", "http", "memory"}:
        console.print("mirroring")
        installation = Installation(folder / "ours", mailbox)
        installation.postmirror("sync", "--json")
    if chosen & {"reads", "http", "memory"}:
        asked = questions(installation)
        if "reads" in chosen:
            console.print("reads")
            report.sections.append(in_process(installation, asked, calls))
        if "http" in chosen:
            console.print("http")
            report.sections += over_http(installation, asked, calls)
        if "memory" in chosen:
            console.print("memory")
            report.sections.append(resident_memory(mailbox, folder, installation, asked))
            report.sections.append(many_in_use(mailbox.dovecot, folder))
    if "sync" in chosen:
        report.sections.append(mirror_size(installation, mailbox))
    if "contended" in chosen:
        console.print("contended")
        report.sections.append(reads_beside_first_sync(mailbox, folder))
    if "arrival" in chosen:
        console.print("arrival")
        report.sections.append(new_mail(mailbox, folder, min(100, calls)))


def _measure_real(report: Report, dovecot: Dovecot, folder: Path, messages: int, runs: int, console: Console) -> None:
    """The first sync of real mail."""
    console.print(f"real: filling a mailbox with {messages} messages of the corpus")
    try:
        mailbox = fill_real(dovecot, "real", messages)
    except LookupError as exc:
        report.sections.append(Section("First sync, real mail", ("", ""), note=str(exc)))
        return
    section, _ = first_sync(mailbox, folder, runs, installed_peers()[0], title=f"First sync: {mailbox.described}")
    report.sections.append(section)


def _own_table(part: str, messages: int) -> Section:
    title, module, arguments = OWN_TABLES[part]
    command = [sys.executable, "-m", module, *(each.format(messages=messages) for each in arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode and not done.stdout:
        raise RuntimeError(f"{module} failed")
    return Section(title, ("", ""), text=done.stdout)


def write_document(report: Report) -> None:
    """Write docs/benchmarks.md and its chart anew from this run."""
    _DOCUMENT.parent.mkdir(exist_ok=True)
    head = _HEAD.format(machine=report.machine, mailbox=report.mailbox)
    chart = next((section for section in report.sections if section.title == _CHART), None)
    if chart is not None:
        _DOCUMENT.with_suffix(".svg").write_text(first_sync_chart(chart), "utf-8")
        head += "![Seconds of a first sync, ours and others'](benchmarks.svg)\n\n"
    _DOCUMENT.write_text(head + report.markdown(), "utf-8")


if __name__ == "__main__":
    main()
