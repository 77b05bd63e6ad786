"""Date headers as people and programs write them. What cannot be read is None, never a made-up moment."""

import re
from datetime import datetime, timedelta, timezone

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan",
            "feb fév",
            "mar mär",
            "apr avr",
            "may mai",
            "jun",
            "jul",
            "aug",
            "sep",
            "oct okt",
            "nov",
            "dec dez déc",
        ),
        1,
    )
    for name in names.split()
}
_ZONES = {
    "ut": 0, "utc": 0, "gmt": 0, "z": 0, "wet": 0, "west": 60, "bst": 60, "cet": 60, "met": 60, "mez": 60, "cest": 120,
    "mest": 120, "mesz": 120, "eet": 120, "eest": 180, "msk": 180, "ist": 330, "hkt": 480, "sgt": 480, "jst": 540,
    "kst": 540, "aest": 600, "aedt": 660, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360,
    "pst": -480, "pdt": -420,
}  # fmt: skip
_ISO = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})[T ]+(\d{1,2}):(\d{2})(?::(\d{2}))?(?:[.,]\d+)?"
    r" *(Z|[+-]\d{1,2}:?\d{2})?(?!\d)",
    re.I,
)
_ORDINARY = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) ([+-]\d{4})"
)
_TOKEN = re.compile(
    r"(?P<time>(?:\d{1,2}:\d{1,2}(?::\d{1,2})?|\d{1,2}\.\d{2}\.\d{2})(?!\d))(?:[.,]\d+)?"
    r"|(?P<zone>[+-] ?\d{1,2}(?::?\d{2})?(?!\d))|(?P<number>(?<!\d)\d{1,4}(?!\d))|(?P<word>[^\W\d_]+)"
)
_MAX_LENGTH = 500
LAST_YEAR = 2_199
"""Later than this is a mistake or a trick to be sorted first, not a moment."""


def read_date(value: str) -> datetime | None:
    """The moment a Date header names, with the offset it was written in; None when it cannot be read."""
    text = " ".join(_without_comments(value[:_MAX_LENGTH].rpartition(";")[2]).split())
    try:
        return read_ordinary(text) or _read_iso(text) or read_words(text)
    except (ValueError, OverflowError):
        return None


def read_ordinary(text: str) -> datetime | None:
    """A date as RFC 5322 3.3 has it, which nearly every one is; as `read_words` reads it. Raises ValueError."""
    match = _ORDINARY.fullmatch(text)
    if match is None or match[2].lower() not in _MONTHS or int(match[1]) > 31:
        return None
    clock = int(match[4]), int(match[5]), int(match[6])
    return _moment(int(match[3]), _MONTHS[match[2].lower()], int(match[1]), clock, _offset(match[7]))


def _without_comments(text: str) -> str:
    if "(" not in text:
        return text
    depth, kept = 0, []
    for character in text:
        if character == "(":
            depth += 1
        elif character == ")" and depth:
            depth -= 1
            kept.append(" ")
        elif not depth:
            kept.append(character)
    return "".join(kept)


def _read_iso(text: str) -> datetime | None:
    match = _ISO.search(text)
    if match is None:
        return None
    year, month, day, hour, minute = (int(match[group]) for group in range(1, 6))
    return _moment(year, month, day, (hour, minute, int(match[6] or 0)), _offset(match[7] or ""))


def read_words(text: str) -> datetime | None:
    """A date by what its words and numbers can be. Raises ValueError."""
    month = clock = zone = zone_name = None
    afternoon = ""
    numbers: list[str] = []
    for match in _TOKEN.finditer(text):
        word = (match["word"] or "").lower()
        if match["time"]:
            clock = clock or tuple(int(part) for part in re.split("[:.]", match["time"]))
        elif match["zone"] and clock:
            zone = zone or match["zone"]
        elif match["zone"]:
            numbers.append(match["zone"].strip("+- "))
        elif match["number"]:
            numbers.append(match["number"])
        elif word in ("am", "pm") and clock:
            afternoon = word
        elif clock and zone_name is None and word[:3] not in _MONTHS:
            zone_name = word
        elif month is None and word[:3] in _MONTHS and len(word) > 2:
            month = _MONTHS[word[:3]]
    if month is None and len(numbers) >= 3:
        month = int(numbers.pop(1))
        if clock is None and len(numbers) >= 5:
            clock = tuple(int(number) for number in numbers[2:5])
    if month is None or len(numbers) < 2:
        return None
    day, year = numbers[:2]
    if int(day) > 31:
        day, year = year, day
    hour, minute, second = (*(clock or ()), 0, 0, 0)[:3]
    if afternoon:
        hour = hour % 12 + (12 if afternoon == "pm" else 0)
    return _moment(int(year), month, int(day), (hour, minute, second), _offset(zone or zone_name or ""))


def _moment(year: int, month: int, day: int, clock: tuple[int, int, int], offset: int) -> datetime | None:
    if year < 1_000:
        year += 2_000 if year < 50 else 1_900
    if not 1_900 <= year <= LAST_YEAR:
        return None
    hour, minute, second = clock
    return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone(timedelta(minutes=offset)))


def _offset(zone: str) -> int:
    if zone[:1] in ("+", "-"):
        digits = zone[1:].strip().replace(":", "")
        digits = f"{digits:0>2}00" if len(digits) < 3 else f"{digits:0>4}"
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        return 0 if minutes >= 1_440 else minutes if zone[0] == "+" else -minutes
    return _ZONES.get(zone.lower(), 0)
