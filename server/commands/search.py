"""`postmirror search`: the mirror asked by the person who runs it, without a policy."""

import json
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mirror.mirrored import FolderState, MirroredMessage
from mirror.query.order import arranged, keys
from mirror.query.reader import Reader
from mirror.query.snippet import patterns, snippet
from mirror.query.tree import Query
from server.commands.options import ConfigOption, load

_SNIPPET = 160


@dataclass(frozen=True, slots=True)
class _Found:
    """The first messages that match, in order, and how far that can be trusted."""

    messages: list[MirroredMessage]
    folders: list[FolderState]
    has_more: bool
    searched_back_to: datetime | None


@click.command()
@click.argument("mirror")
@click.argument("query")
@ConfigOption
@click.option("--folder", "folder_name", help="Search only this folder (default: all of them).")
@click.option("--imap", is_flag=True, help="QUERY is IMAP SEARCH criteria, such as 'FROM alice UNSEEN'.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000), help="Messages to show at most.")
def search(
    config_path: Path | None,
    mirror: str,
    query: str,
    folder_name: str | None,
    *,
    imap: bool,
    as_json: bool,
    limit: int,
) -> None:
    """Search a mirror, named USER/PROVIDER, in the Himalaya query language: 'from alice and body invoice'."""
    from mirror.query.criteria import parse_criteria
    from mirror.query.himalaya import parse_himalaya

    _, settings = load(config_path)
    user, _, provider = mirror.partition("/")
    names = [f"{user}/{name}" for user, name, _ in settings.identities()]
    if mirror not in names:
        raise click.UsageError(f"there is no mirror {mirror}; there are {', '.join(names)}")
    asked = parse_criteria(query) if imap else parse_himalaya(query)
    with closing(Reader(settings.mirror_dir(user, provider) / "mirror.db")) as reader:
        folders = [each for each in reader.folders() if each.selectable and folder_name in (None, each.name)]
        if not folders:
            known = ", ".join(each.name for each in reader.folders() if each.selectable)
            raise click.UsageError(f"there is no folder {folder_name}; there are {known}")
        found = _found(reader, folders, asked, limit)
    if as_json:
        click.echo(json.dumps(_as_json(found, asked), ensure_ascii=False))
    else:
        _print(Console(), found, asked)


def _found(reader: Reader, folders: list[FolderState], asked: Query, limit: int) -> _Found:
    places: dict[tuple[Any, ...], tuple[int, int]] = {}
    has_more, back_to = False, []
    for folder in folders:
        page = reader.page(folder.id, asked, None, limit)
        places |= {keys(asked.order, message): (folder.id, message.id) for message in page.messages}
        has_more = has_more or page.after is not None
        if page.searched_back_to is not None:
            back_to.append(page.searched_back_to)
    first = arranged(asked.order, list(places))
    messages = [reader.message(*places[each]) for each in first[:limit]]
    return _Found(
        [message for message in messages if message is not None],
        folders,
        has_more or len(first) > limit,
        max(back_to, default=None),
    )


def _as_json(found: _Found, asked: Query) -> dict[str, Any]:
    return {
        "messages": [
            {
                "folder": message.folder,
                "upstream_uid": message.uid,
                "message_id": message.message_id,
                "date": (message.date or message.internaldate).isoformat(),
                "from": [_person(each.name, each.address) for each in message.from_],
                "to": [_person(each.name, each.address) for each in message.to],
                "subject": message.subject,
                "flags": sorted(message.flags),
                "size": message.size,
                "snippet": _snippet(message, asked),
            }
            for message in found.messages
        ],
        "has_more": found.has_more,
        "searched_back_to": None if found.searched_back_to is None else found.searched_back_to.isoformat(),
        "folders": [
            {
                "folder": folder.name,
                "as_of": None if folder.as_of is None else folder.as_of.isoformat(timespec="seconds"),
                "complete": folder.complete,
            }
            for folder in found.folders
        ],
    }


def _print(console: Console, found: _Found, asked: Query) -> None:
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("date", no_wrap=True)
    table.add_column("folder", max_width=18, overflow="ellipsis", no_wrap=True)
    table.add_column("from", max_width=26, overflow="ellipsis", no_wrap=True)
    table.add_column("subject and text", ratio=1)
    words = [_printable(each) for each in patterns(asked.filter) if each.strip()]
    for message in found.messages:
        sender = message.from_[0] if message.from_ else None
        said = Text(_printable(message.subject) or "(no subject)", style="" if "\\Seen" in message.flags else "bold")
        said.append("\n")
        about = Text(_printable(_snippet(message, asked)), style="dim")
        about.highlight_words(words, style="bold yellow", case_sensitive=False)
        table.add_row(
            f"{message.date or message.internaldate:%Y-%m-%d %H:%M}",
            Text(_printable(message.folder)),
            Text("" if sender is None else _printable(sender.name or sender.address)),
            said.append_text(about),
        )
    if found.messages:
        console.print(table)
    console.print(_summary(found), style="dim")


def _summary(found: _Found) -> str:
    count = len(found.messages)
    parts = ["nothing found" if not count else f"the first {count}" if found.has_more else f"{count} found"]
    if found.searched_back_to is not None:
        parts.append(f"time ran out: searched back to {found.searched_back_to:%Y-%m-%d} only")
    lacking = [folder.name for folder in found.folders if not folder.complete]
    if lacking:
        parts.append(f"not whole yet: {_printable(', '.join(lacking))}")
    ages = [folder.as_of for folder in found.folders if folder.as_of is not None]
    if ages:
        parts.append(f"as of {min(ages).astimezone():%Y-%m-%d %H:%M}")
    return "; ".join(parts)


def _snippet(message: MirroredMessage, asked: Query) -> str:
    return snippet(message.text or message.preview, asked.filter, _SNIPPET)


def _person(name: str, address: str) -> str:
    return f"{name} <{address}>" if name else address


def _printable(text: str) -> str:
    """Without what could drive a terminal, or turn the order of its characters."""
    return "".join(character if character.isprintable() else " " for character in text)
