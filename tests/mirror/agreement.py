"""Our reading of a message beside the one that stalwart's mail-parser publishes with its own messages."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from mirror.content import read_envelope
from mirror.mail.addresses import read_addresses
from mirror.mail.charset import decode
from mirror.mail.dates import read_date
from mirror.mail.header import unfolded
from mirror.message import Message, read_message

FIELDS = ("subject", "from", "to", "date", "text", "html", "attachment names")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field of one message (or one line of a header table): what each side read."""

    field: str
    where: str
    ours: str
    theirs: str

    @property
    def agrees(self) -> bool:
        """Equal, or better: where they print U+FFFD, ours may have the character."""
        if "\ufffd" not in self.theirs:
            return self.ours == self.theirs
        pattern = "".join("." if character == "\ufffd" else re.escape(character) for character in self.theirs)
        return re.fullmatch(pattern, self.ours, re.DOTALL) is not None


def comparisons(corpus: Path) -> Iterator[Comparison]:
    """Every field of every message, then the header tables of addresses and dates."""
    expected = corpus / "_expected" / "stalwart"
    for path in sorted(expected.glob("resources_*.json")):
        raw = (corpus / "stalwartlabs+mail-parser" / f"{path.stem}.eml").read_bytes()
        yield from _of_message(path.stem, raw, json.loads(path.read_text()))
    for row in json.loads((expected / "_date.json").read_text()):
        yield Comparison("date", row["header"], _shown_date(read_date(row["header"])), _their_date(row["expected"]))


def address_table(corpus: Path) -> Iterator[Comparison]:
    """The lines of the address table."""
    for row in json.loads((corpus / "_expected" / "stalwart" / "_address.json").read_text()):
        ours = _shown_addresses(read_addresses(unfolded(row["header"].encode())))
        yield Comparison("address", row["header"], ours, _their_addresses(row["expected"]))


def _of_message(name: str, raw: bytes, theirs: Any) -> Iterator[Comparison]:
    message = read_message(raw)
    envelope = read_envelope(message.header, message.hint)
    root = theirs["parts"][0]
    yield Comparison("subject", name, envelope.subject, _words(_header(root, "subject", "Text")))
    for field, addresses in (("from", envelope.from_), ("to", envelope.to)):
        ours = _shown_addresses([(address.name, address.address) for address in addresses])
        yield Comparison(field, name, ours, _their_addresses(_header(root, field, "Address")))
    their_date = _header(root, "date", "DateTime")
    yield Comparison("date", name, _shown_date(envelope.date), _their_date(their_date or None))
    yield Comparison(
        "text", name, _bodies(message, message.text_body), _their_bodies(theirs, "text_body", ("Text", "Html"))
    )
    html = tuple(index for index in message.html_body if message.bodies[index].media_type == "text/html")
    yield Comparison("html", name, _bodies(message, html), _their_bodies(theirs, "html_body", ("Html",)))
    ours = " / ".join(attachment.filename for attachment in message.attachments if attachment.filename)
    yield Comparison("attachment names", name, ours, _their_names(theirs))


def _words(text: str) -> str:
    return " ".join(text.split())


def _header(part: Any, name: str, kind: str) -> Any:
    for header in part["headers"]:
        if header["name"] == name and isinstance(header["value"], dict) and kind in header["value"]:
            return header["value"][kind]
    return ""


def _shown_addresses(addresses: list[tuple[str, str]]) -> str:
    return ", ".join(f"{_words(name)} <{''.join(address.split())}>" for name, address in addresses)


def _their_addresses(value: Any) -> str:
    if not value:
        return ""
    lists = [value["List"]] if "List" in value else [group["addresses"] for group in value["Group"]]
    return _shown_addresses([(row["name"] or "", row["address"] or "") for rows in lists for row in rows])


def _shown_date(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()


def _their_date(value: Any) -> str:
    if not value:
        return ""
    offset = timedelta(hours=value["tz_hour"], minutes=value["tz_minute"])
    zone = timezone(-offset if value["tz_before_gmt"] else offset)
    clock = (value["hour"], value["minute"], min(value["second"], 59))
    return _shown_date(datetime(value["year"], value["month"], value["day"], *clock, tzinfo=zone))


def _bodies(message: Message, indexes: tuple[int, ...]) -> str:
    bodies = [message.bodies[index] for index in indexes]
    return _words(" ".join(decode(body.data, body.charset, message.hint).removeprefix("\ufeff") for body in bodies))


def _their_bodies(message: Any, form: str, kinds: tuple[str, ...]) -> str:
    parts = [message["parts"][index]["body"] for index in message[form]]
    return _words(" ".join(part[kind] for part in parts for kind in kinds if kind in part))


def _their_names(message: Any) -> str:
    names = []
    for index in message["attachments"]:
        part = message["parts"][index]
        for header, attribute in (("content_disposition", "filename"), ("content_type", "name")):
            attributes = (_header(part, header, "ContentType") or {}).get("attributes") or []
            found = [row["value"] if isinstance(row, dict) else row[1] for row in attributes if attribute in _key(row)]
            if found:
                names.append(found[0].strip())
                break
    return " / ".join(names)


def _key(row: Any) -> tuple[str, ...]:
    return (row["name"],) if isinstance(row, dict) else (row[0],)


# Where the two disagree, and who is right.
VERDICTS = {
    ("text", "resources_eml_malformed_001"): "ours: the part's only line is its text",
    ("text", "resources_eml_malformed_003"): "ours: a person should see the body of a multipart that nests in itself",
    ("text", "resources_eml_malformed_004"): "ours: a person should see the body of a multipart that nests in itself",
    ("text", "resources_eml_malformed_006"): "ours: a person should see the body of a multipart that nests in itself",
    ("text", "resources_eml_malformed_009"): "ours: all three parts are text and belong to the body",
    ("text", "resources_eml_malformed_016"): "open: delimiters of parts that were closed before are text to us",
    ("text", "resources_eml_malformed_019"): "open: garbled bytes between parts, read as one more text part by us",
    ("text", "resources_eml_malformed_020"): "ours: the HTML part is found; theirs is the raw source of all parts",
    ("html", "resources_eml_malformed_020"): "ours: the HTML part is found",
    ("text", "resources_eml_thirdparty_002"): "ours: text that is no base64 is shown as it is, not replaced",
    ("text", "resources_eml_thirdparty_005"): "ours: a delimiter counts at the start of a line only",
    ("attachment names", "resources_eml_legacy_039"): "ours: a backslash in a Windows path is no escape",
    (
        "attachment names",
        "resources_eml_malformed_017",
    ): "ours: the file name is there, only a value before it is missing",
    ("date", "4 8 15 16 23 42, 4 8 15 16 23 42, 4 8 15 16 23 42,"): "ours: a lone number is no zone of four minutes",
    ("date", "Tue, 1 Jul 2003 ((invalid)\ncomment) 10:52:37 +0200"): "ours: an unbalanced comment hides no date",
}
