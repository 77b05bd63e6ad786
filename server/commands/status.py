"""`postmirror status`: how complete and how old each mirror is, and what stands in the way."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from config.identity import Settings
from mirror.errors import MirrorAbsent
from mirror.mirrored import AccountState, FolderState, Quarantined
from server.amounts import octets
from server.commands.options import ConfigOption, load

_SHOWN = 20


@click.command()
@ConfigOption
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def status(config_path: Path | None, as_json: bool) -> None:
    """Show how complete and how old each mirror is, folder by folder."""
    _, settings = load(config_path)
    sign_ins = _sign_ins(settings)
    mirrors = {
        f"{user}/{name}": {**_condition(settings, user, name), "sign_in": sign_ins.get((user, name))}
        for user, name, _ in settings.identities()
    }
    if as_json:
        click.echo(json.dumps(mirrors))
        return
    console = Console()
    if not mirrors:
        _say(console, "no mailbox is configured: postmirror init --add puts one into the configuration")
    for name, mirror in mirrors.items():
        _print(console, name, mirror)


def _condition(settings: Settings, user: str, provider: str) -> dict[str, Any]:
    from mirror.query.reader import Reader

    try:
        with Reader(settings.mirror_dir(user, provider) / "mirror.db") as reader:
            folders = [
                _folder(folder, reader.quarantined(folder.id, _SHOWN) if folder.quarantined else [])
                for folder in reader.folders()
                if folder.selectable
            ]
            return {**_account(reader.account()), "folders": folders}
    except MirrorAbsent:
        return {"last_pass": None, "error": "not mirrored yet: run postmirror sync or serve", "folders": []}


def _sign_ins(settings: Settings) -> dict[tuple[str, str], dict[str, Any]]:
    """What became of signing in, by mailbox, for those that are signed in to."""
    wanted = [(user, name) for user, name, provider in settings.identities() if provider.oauth is not None]
    if not wanted:
        return {}
    from contextlib import closing

    from server.oauth.source import advice
    from server.state.store import State

    with closing(State(settings.server.data_dir)) as state:
        found = {mailbox: state.sign_in(*mailbox) for mailbox in wanted}
    return {
        mailbox: {
            "state": "none" if sign_in is None else sign_in.fault or "signed_in",
            "since": None if sign_in is None else _moment(sign_in.signed_in),
            "token_until": None if sign_in is None else _moment(sign_in.expires),
            "until": None if sign_in is None else _moment(sign_in.refresh_expires),
            "error": "nobody has signed in yet" if sign_in is None else _fault(advice(sign_in.fault), sign_in.reason),
        }
        for mailbox, sign_in in found.items()
    }


def _fault(advice: str, reason: str) -> str:
    return f"{advice} ({reason})" if reason else ""


def _moment(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _account(account: AccountState) -> dict[str, Any]:
    return {
        "last_pass": _written(account.pass_ended),
        "is_passing": account.is_passing,
        "error": account.error,
        "throttled_until": _written(account.throttled_until),
        "logins_refused": account.logins_refused,
        "rung": account.rung,
        "distrusted": dict(account.distrusted),
        "bytes_today": account.bytes_today,
        "bytes_total": account.bytes_total,
        "daily_bytes": account.daily_bytes or None,
        "bytes_pending": account.bytes_pending,
        "done_by": _written(account.done_by) if account.bytes_pending else None,
        "header_lines_indexed": account.lines_indexed,
    }


def _folder(folder: FolderState, quarantined: list[Quarantined]) -> dict[str, Any]:
    return {
        "folder": folder.name,
        "messages": folder.messages,
        "complete": folder.complete,
        "complete_back_to": None if folder.complete_back_to is None else folder.complete_back_to.isoformat(),
        "pending": folder.pending,
        "quarantined": folder.quarantined,
        "quarantine": [
            {"uid": each.uid, "size": each.size, "reason": each.reason, "next_try": _written(each.next_try)}
            for each in quarantined
        ],
        "as_of": _written(folder.as_of),
        "closed": folder.is_closed,
        "error": folder.error,
    }


def _print(console: Console, name: str, mirror: dict[str, Any]) -> None:
    table = Table(title=name, title_justify="left", box=None, pad_edge=False)
    for column in ("folder", "messages", "complete", "age", "last error"):
        table.add_column(column, justify="right" if column in ("messages", "age") else "left")
    for folder in mirror["folders"]:
        cells = (folder["folder"], str(folder["messages"]), _completeness(folder), _age(folder["as_of"]))
        # Square brackets in folder names and servers' words are no markup.
        table.add_row(*map(escape, (*cells, folder["error"])))
    console.print(table)
    for folder in mirror["folders"]:
        for each in folder["quarantine"]:
            where = f"{folder['folder']}: uid {each['uid']} ({octets(each['size'])}) is not mirrored"
            _say(console, f"{where}: {each['reason']}; tried again at {each['next_try']}")
        if len(folder["quarantine"]) < folder["quarantined"]:
            _say(console, f"{folder['folder']}: {folder['quarantined'] - len(folder['quarantine'])} more like these")
    if "rung" in mirror:
        _print_account(console, mirror)
    if mirror["sign_in"]:
        _print_sign_in(console, name, mirror["sign_in"])
    if mirror["last_pass"] is None and not mirror["error"]:
        _say(console, "no pass has ended yet: postmirror serve or sync makes one")
    if mirror["error"]:
        failed = "last pass failed: " if "rung" in mirror else ""
        console.print(f"{failed}{mirror['error']}", style="red", markup=False, highlight=False)


def _print_account(console: Console, mirror: dict[str, Any]) -> None:
    _say(console, f"server: {mirror['rung'] or 'not connected yet'}")
    if mirror["throttled_until"]:
        _say(console, f"the server asked to be left alone until {mirror['throttled_until']}")
    if mirror["logins_refused"]:
        _say(console, f"logins refused in a row: {mirror['logins_refused']}")
    for capability, reason in mirror["distrusted"].items():
        _say(console, f"not used for a week, since the server broke it: {capability} ({reason})")
    limit = f" of {octets(mirror['daily_bytes'])} a day" if mirror["daily_bytes"] else ""
    _say(console, f"received: {octets(mirror['bytes_today'])}{limit}, {octets(mirror['bytes_total'])} in all")
    if mirror["bytes_pending"]:
        when = f", done about {mirror['done_by']}" if mirror["done_by"] else ""
        _say(console, f"to fetch: {octets(mirror['bytes_pending'])}{when}")
    if not mirror["header_lines_indexed"]:
        _say(console, "header lines are still being indexed: TEXT and HEADER read each of them until then")


def _print_sign_in(console: Console, name: str, sign_in: dict[str, Any]) -> None:
    if sign_in["error"]:
        _say(console, f"sign-in needed: {sign_in['error']}: postmirror auth login {name}")
        return
    until = sign_in["until"] or "it is ended"
    renewed = f"access token until {sign_in['token_until']}, renewed by itself"
    _say(console, f"signed in since {sign_in['since']}, until {until} ({renewed})")


def _completeness(folder: dict[str, Any]) -> str:
    if folder["closed"]:
        return "cannot be opened"
    if folder["complete"]:
        return "yes"
    back = f"back to {folder['complete_back_to']}" if folder["complete_back_to"] else "no"
    return f"{back}, {folder['pending']} to fetch" if folder["pending"] else back


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)


def _written(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


def _age(as_of: str | None) -> str:
    if as_of is None:
        return "never"
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(as_of)).total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"
