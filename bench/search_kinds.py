"""The kinds of queries that the table of searches has, and what is asked of each at a million messages."""

import string
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from bench.search_mails import FIRST, HALF, INBOX, SMALL, SPAN, TINY, Mails
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.tree import All, Any, Contains, Flagged, Node, Not, Query, Received, Relation, Sent, TextContains


@dataclass(frozen=True, slots=True)
class Kind:
    """Queries of one kind over one folder; goal: p50 and p99 in milliseconds at 1,000,000 messages."""

    name: str
    folder: int
    make: Callable[[], Query]
    goal: tuple[float, float] | None = None


_WORDS, _DATES, _PHRASES, _THREE, _SORTED = (2.0, 20.0), (5.0, 50.0), (10.0, 50.0), (50.0, 100.0), (300.0, 300.0)
AT_20_000 = (1.0, 10.0)
SORTED_AT_20_000 = (50.0, 50.0)


def kinds(mails: Mails) -> list[Kind]:
    """Every kind."""
    rng = mails.rng

    def himalaya(make: Callable[[], str]) -> Callable[[], Query]:
        return lambda: parse_himalaya(make())

    def imap(make: Callable[[], str]) -> Callable[[], Query]:
        return lambda: parse_criteria(make())

    def common() -> str:
        return mails.word(mails.rank(200))

    def rare() -> str:
        return mails.word(rng.randint(20_000, 1_000_000))

    def any_word() -> str:
        return mails.word(mails.rank(50_000_000))

    def inside(length: int) -> str:
        word = mails.word(rng.randint(3_000, 300_000))
        start = rng.randint(0, max(0, len(word) - length))
        return word[start : start + length]

    def moment() -> time.struct_time:
        return time.gmtime(FIRST + rng.randint(0, SPAN))

    def day() -> str:
        return time.strftime("%Y-%m-%d", moment())

    def imap_day() -> str:
        return time.strftime("%d-%b-%Y", moment())

    def sign() -> str:
        return rng.choice(string.digits + "abcdef")

    return [
        Kind("everything", INBOX, Query, _WORDS),
        Kind("rare word", INBOX, himalaya(lambda: f"body {rare()}"), _WORDS),
        Kind("any word", INBOX, himalaya(lambda: f"body {any_word()}"), _WORDS),
        Kind("common word", INBOX, himalaya(lambda: f"body {common()}"), _WORDS),
        Kind("two words", INBOX, himalaya(lambda: f"body {any_word()} and body {common()}"), _WORDS),
        Kind("subject or body", INBOX, himalaya(lambda: f"subject {any_word()} or body {any_word()}"), _WORDS),
        Kind("or of ten", INBOX, himalaya(lambda: " or ".join(f"body {any_word()}" for _ in range(10))), _WORDS),
        Kind("not", INBOX, himalaya(lambda: f"body {common()} and not body {common()}"), _WORDS),
        Kind("phrase", INBOX, himalaya(lambda: f'body "{common()} {any_word()}"'), _PHRASES),
        Kind("phrase of common words", INBOX, himalaya(lambda: f'body "{common()} {common()}"'), _PHRASES),
        Kind("inside a word, 6", INBOX, himalaya(lambda: f"body {inside(6)}"), _DATES),
        Kind("inside a word, 4", INBOX, himalaya(lambda: f"body {inside(4)}"), _DATES),
        Kind("inside a word, 3", INBOX, himalaya(lambda: f"body {inside(3)}"), _THREE),
        Kind("three rare signs", INBOX, himalaya(lambda: f"body {sign()}q{sign()}"), _THREE),
        Kind("two letters", INBOX, himalaya(lambda: f"body {inside(2)}"), (100.0, 100.0)),
        Kind("two rare signs", INBOX, himalaya(lambda: f"body q{rng.choice('jxyz')}")),
        Kind("chinese, 1", INBOX, himalaya(lambda: f"body {mails.chinese(1)}"), _DATES),
        Kind("chinese, 2", INBOX, himalaya(lambda: f"body {mails.chinese(2)}"), _DATES),
        Kind("sender", INBOX, himalaya(lambda: f"from {mails.sender()[0]}"), _DATES),
        Kind("address", INBOX, himalaya(lambda: f"from {mails.sender()[1]}"), _DATES),
        Kind("date", INBOX, himalaya(lambda: f"date {day()}"), _DATES),
        Kind("before", INBOX, himalaya(lambda: f"before {day()}"), _DATES),
        Kind("range of dates", INBOX, himalaya(lambda: f"after {day()} and before {day()}"), _DATES),
        Kind("received before", INBOX, imap(lambda: f"BEFORE {imap_day()}"), _DATES),
        Kind("received on", INBOX, imap(lambda: f"ON {imap_day()}"), _DATES),
        Kind("word and date", INBOX, himalaya(lambda: f"body {common()} and before {day()}"), _DATES),
        Kind("flag, 1 %", INBOX, himalaya(lambda: "flag flagged"), _WORDS),
        Kind("unseen", INBOX, himalaya(lambda: "not flag seen"), _WORDS),
        Kind("flag nobody has", INBOX, himalaya(lambda: "flag draft"), _WORDS),
        Kind("keyword, 2 %", INBOX, himalaya(lambda: "flag $forwarded"), _WORDS),
        Kind("keyword, 0.05 %", INBOX, himalaya(lambda: "flag receipt"), _WORDS),
        Kind("keyword nobody has", INBOX, himalaya(lambda: "flag nothing"), _WORDS),
        Kind("folder 50 %, common", HALF, himalaya(lambda: f"body {common()}"), _WORDS),
        Kind("folder 1 %, common", SMALL, himalaya(lambda: f"body {common()}"), _WORDS),
        Kind("folder 1 %, any", SMALL, himalaya(lambda: f"body {any_word()}"), _WORDS),
        Kind("tiny folder, common", TINY, himalaya(lambda: f"body {common()}"), _WORDS),
        Kind("sorted by subject, any", INBOX, himalaya(lambda: f"body {any_word()} order by subject"), _SORTED),
        Kind("sorted by subject, common", INBOX, himalaya(lambda: f"body {common()} order by subject"), _SORTED),
        Kind("sorted by subject, all", INBOX, himalaya(lambda: "order by subject"), _SORTED),
        Kind("sorted by subject, flagged", INBOX, himalaya(lambda: "flag flagged order by subject"), _SORTED),
        Kind("sorted by date desc", INBOX, himalaya(lambda: f"body {common()} order by date desc"), _SORTED),
        Kind("sorted by from", INBOX, himalaya(lambda: f"body {common()} order by from desc"), _SORTED),
        Kind("sorted by to", INBOX, himalaya(lambda: f"body {common()} order by to subject"), _SORTED),
        Kind("text, common", INBOX, imap(lambda: f"TEXT {common()}"), _WORDS),
        Kind("text, rare", INBOX, imap(lambda: f"TEXT {rare()}"), _WORDS),
        Kind("text, inside a word, 4", INBOX, imap(lambda: f"TEXT {inside(4)}"), _DATES),
        Kind("header, rare", INBOX, imap(lambda: f"HEADER Message-ID {rng.getrandbits(40):x}"), _WORDS),
        Kind(
            "header, host",
            INBOX,
            imap(lambda: f"HEADER Received {mails.sender()[1].partition('@')[2]}"),
            _DATES,
        ),
    ]


def as_criteria(node: Node | None) -> str:
    """The same condition for another server's SEARCH; LookupError for what the table does not ask."""
    match node:
        case None:
            return "ALL"
        case All(nodes):
            return " ".join(f"({as_criteria(each)})" for each in nodes)
        case Any((first,)):
            return as_criteria(first)
        case Any((first, *others)):
            if all(isinstance(each, Sent | Received) for each in (first, *others)):
                return as_criteria(first)
            return f"OR ({as_criteria(first)}) ({as_criteria(Any(tuple(others)))})"
        case Not(inner):
            return f"NOT ({as_criteria(inner)})"
        case Contains(field, pattern):
            return f'{field.upper()} "{pattern}"'
        case TextContains(pattern):
            return f'TEXT "{pattern}"'
        case Sent(relation, day):
            return _dated("SENT", relation, day)
        case Received(relation, day):
            return _dated("", relation, day)
        case Flagged(flag):
            return flag.removeprefix("\\").upper() if flag.startswith("\\") else f"KEYWORD {flag}"
        case _:
            raise LookupError(node)


def _dated(prefix: str, relation: Relation, day: date) -> str:
    first = day + timedelta(days=relation == ">")
    return prefix + {"<": "BEFORE", "=": "ON", ">": "SINCE", ">=": "SINCE"}[relation] + f" {first:%d-%b-%Y}"
