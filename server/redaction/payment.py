"""Card numbers and IBANs in a plain text: found by their form, kept only when their check digits are right.

Digits may be set apart by up to three characters, in any groups. A run of digits is read group by group, so that a
number beside another one is still found.
"""

import re
from collections.abc import Iterator
from functools import cache

from config.pattern import Patterns
from server.redaction.plain import Span

_APART = r"(?:[^\w,;:()<>\"'@#$%+=&?!]|_)"
CARD_LIKE = r"[0-9](?:[^0-9A-Za-z,;:()<>\"'@#$%+=&?!]{0,3}[0-9]){12}"
"""For RE2: what any card number matches."""
_CARD_RUN = re.compile(rf"[0-9](?:{_APART}{{0,3}}[0-9]){{12,}}")
_GROUP = re.compile("[0-9]+")
_LEAST, _MOST = 13, 19
_MOST_TRIED = 3_000
"""Places of one text where a number is looked for; a mail made of more is cut where they end."""
_LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеосрхуіјѕ"  # noqa: RUF001 - Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο",  # noqa: RUF001 - Greek
    "ABESIJKMHOPCTYXaeocpxyijsABEZHIKMNOPTYXo",
)
"""Letters of other scripts that look like Latin ones."""
_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD FK", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
"""Characters of an IBAN, by its country."""


def _countries() -> str:
    """What two letters an IBAN begins with, set apart or not."""
    seconds: dict[str, str] = {}
    for country in sorted(_LENGTHS):
        seconds[country[0]] = seconds.get(country[0], "") + country[1]
    return "|".join(f"{first}{_BETWEEN}[{letters}]" for first, letters in seconds.items())


_BETWEEN = "[\t\n .:_*/|\u00b7\u2022-]{0,3}"
_BEGINNINGS = Patterns([rf"(?i)(?:{_countries()}){_BETWEEN}[0-9]{_BETWEEN}[0-9]"])
_PIECE = re.compile("[^A-Za-z0-9]")


def card_numbers(text: str) -> Iterator[Span]:
    """Where card numbers are: 13 to 19 digits of a length and a beginning that card issuers use, with a Luhn digit."""
    tried = 0
    for run in _CARD_RUN.finditer(text):
        groups = [match.span() for match in _GROUP.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            tried += 1
            if tried > _MOST_TRIED:
                yield groups[first][0], len(text)
                return
            last = _card_from(text, groups, first)
            if last is None:
                first += 1
            else:
                yield groups[first][0], groups[last][1]
                first = last + 1


def _card_from(text: str, groups: list[Span], first: int) -> int | None:
    """The last group of the longest card number that begins with a group."""
    found = None
    digits = ""
    for last in range(first, len(groups)):
        digits += text[slice(*groups[last])]
        if len(digits) > _MOST:
            break
        if len(digits) >= _LEAST and _is_issued(digits) and _luhn(digits):
            found = last
    return found


def _is_issued(digits: str) -> bool:
    length, two, four = len(digits), int(digits[:2]), int(digits[:4])
    match digits[0]:
        case "2":
            return 2200 <= four <= 2204 or (2221 <= four <= 2720 and length == 16)
        case "3":
            if two in (34, 37):
                return length == 15
            return (two in (30, 36, 38, 39) and length >= 14) or (3528 <= four <= 3589 and length >= 16)
        case "4":
            return length in (13, 16, 18, 19)
        case "5":
            return length == 16 if 51 <= two <= 55 else two in (50, 56, 57, 58)
        case "6":
            return True
        case _:
            return False


def _luhn(digits: str) -> bool:
    doubled = (int(each) * 2 for each in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(each - 9 if each > 9 else each for each in doubled)) % 10 == 0


def ibans(text: str) -> Iterator[Span]:
    """Where account numbers of ISO 13616 are: of the length of their country, with the right check digits."""
    latin = _latin(text)
    done = 0
    for tried, (start, _) in enumerate(_BEGINNINGS.spans(0, latin)):
        if tried == _MOST_TRIED:
            yield start, len(text)
            return
        if start >= done and (end := _iban_end(latin, start)):
            yield start, end
            done = end


def speaks_of_ibans(text: str) -> bool:
    """Whether a text has what every IBAN begins with."""
    return _BEGINNINGS.found_in(_latin(text))


def _latin(text: str) -> str:
    return text if text.isascii() else text.translate(_LATIN)


def _iban_end(text: str, start: int) -> int | None:
    beginning = _PIECE.sub("", text[start : start + 8])[:2].upper()
    length = _LENGTHS.get(beginning)
    match = None if length is None else _of_length(length).match(text, start)
    return match.end() if match is not None and _mod_97(_PIECE.sub("", match[0])) else None


@cache
def _of_length(characters: int) -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z0-9](?:{_BETWEEN}[A-Za-z0-9]){{{characters - 1}}}")


def _mod_97(account: str) -> bool:
    return int("".join(str(int(each, 36)) for each in account[4:] + account[:4])) % 97 == 1
