"""The hand-written letters of `conversations.toml`."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.headerregistry import Address
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from server.demo.files import csv_table, invitation, pdf, png
from server.demo.letter import File, Letter

_SOURCE = Path(__file__).with_suffix(".toml")
_AGO = re.compile(r"(?:(?P<days>\d+)d (?P<hour>\d\d):(?P<minute>\d\d)|(?P<hours>\d+)h|(?P<minutes>\d+)m)")
_OWNER = "alice"


@dataclass(frozen=True, slots=True)
class _Person:
    address: Address
    zone: timezone


def conversations(now: datetime) -> Iterator[Letter]:
    """Every letter, thread by thread, dated so that the newest came in just before `now`."""
    source = tomllib.loads(_SOURCE.read_text("utf-8"))
    people = {
        key: _Person(Address(person["name"], addr_spec=person["address"]), timezone(timedelta(minutes=person["zone"])))
        for key, person in source["people"].items()
    }
    for number, thread in enumerate(source["thread"]):
        yield from _thread(number, thread, people, now)


# The mappings are tables of our own file: a test reads all of it.
def _thread(number: int, thread: Mapping[str, Any], people: Mapping[str, _Person], now: datetime) -> Iterator[Letter]:
    references: list[str] = []
    before = ""
    for place, message in enumerate(thread["message"]):
        writer = people[message["from"]]
        date = _date(message["at"], now, writer.zone)
        text = message["text"].lstrip("\n")
        subject = f"Re: {thread['subject']}" if place else thread["subject"]
        mine = message["from"] == _OWNER
        yield Letter(
            folder=message.get("folder", "Sent" if mine else thread["folder"]),
            sender=writer.address,
            to=[people[key].address for key in thread["people"] if key != message["from"]],
            subject=subject,
            date=date,
            message_id=f"thread{number}.{place}@{writer.address.domain}",
            text=f"{text}\n{before}" if message.get("quote") else text,
            html=message.get("html", "").lstrip("\n"),
            files=[_file(table, date, writer) for table in message.get("attach", ())],
            references=list(references),
            flags=message.get("flags", ["\\Seen"] if mine else []),
            charset=message.get("charset", "utf-8"),
        )
        references.append(f"thread{number}.{place}@{writer.address.domain}")
        quoted = "".join(f"> {line}".rstrip() + "\n" for line in text.splitlines())
        before = f"On {format_datetime(date)}, {writer.address.display_name} wrote:\n{quoted}"


def _date(at: str, now: datetime, zone: timezone) -> datetime:
    written = _AGO.fullmatch(at)
    if written is None:
        raise ValueError(f"{at!r} is no time before now")
    here = now.astimezone(zone).replace(microsecond=0)
    if written["days"] is None:
        return here - timedelta(hours=int(written["hours"] or 0), minutes=int(written["minutes"] or 0))
    day = here - timedelta(days=int(written["days"]))
    return min(day.replace(hour=int(written["hour"]), minute=int(written["minute"]), second=0), here)


def _file(table: Mapping[str, Any], date: datetime, writer: _Person) -> File:
    name = table["name"]
    match table["kind"]:
        case "pdf":
            return File(name, "application/pdf", pdf(table["title"], table["lines"]))
        case "csv":
            return File(name, "text/csv", csv_table(table["rows"]))
        case "png":
            return File(name, "image/png", png(table["colour"]))
        case "ics":
            begin = (date + timedelta(days=table["days"])).replace(hour=table["hour"], minute=0)
            event = invitation(f"{name}@{writer.address.domain}", table["title"], "", writer.address.addr_spec, begin)
            return File(name, "text/calendar", event.encode())
        case kind:
            raise ValueError(f"{kind!r} is no kind of file")
