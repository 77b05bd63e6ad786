"""Generated queries of both languages against a naive scan: the same messages, page by page."""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cmp_to_key, partial
from itertools import chain
from pathlib import Path

import pytest

from mirror.envelope import base_subject
from mirror.fold import fold_keeping_separators
from mirror.mirrored import MirroredMessage
from mirror.query import lacking, lexicon, plan
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.order import Position
from mirror.query.reader import Reader
from mirror.query.tree import Node, OneOf, Positions, Query, Sorter, evaluate, replace_nodes
from tests.mirror.query.mailbox import Mail, add, build, connect

View = Callable[[MirroredMessage], MirroredMessage | None]

WORDS = """
    invoice voice invoices Rechnung Straße strasse Café cafe report reports reporting meeting a an in on x1 2024 20.04
    POL-358 don't user@example.com C++ 100% 会议 会议纪要 纪 ราคา 価格 한국어 naïve ﬁnance ОТЧЁТ отчет 🎉 ok🎉ok foo_bar
    foo-bar "quoted" (paren) \\back AND NOT NEAR or the THE them bathe ab abc abcd bcd zz zzq
    """.split()  # noqa: SIM905 - shorter to read
TEXT_KEYS = ("FROM", "TO", "CC", "BCC", "SUBJECT", "BODY", "TEXT", "BODY", "TEXT")
NAMES = ("Alice B", "Bob", "claire", "Dr. Straße", "会议室", "", "Alice")
ADDRESSES = ("alice@example.org", "bob@example.org", "claire@voice.example", "list@x1.example", "no-reply@example.com")
FLAGS = ("\\Seen", "\\Flagged", "\\Answered", "\\Deleted", "\\Draft", "$Forwarded", "todo")
HEADERS = ("List-Id", "X-Mailer", "Received", "From", "Subject")
ZONES = tuple(timezone(timedelta(minutes=minutes)) for minutes in (0, 60, -300, 330, 840, -720))
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def phrase(rng: random.Random, most: int) -> str:
    separators = (" ", " ", " ", "  ", "\n", ", ", "-", "")
    return "".join(rng.choice(WORDS) + rng.choice(separators) for _ in range(rng.randint(0, most)))


def people(rng: random.Random, most: int) -> list[tuple[str, str]]:
    return [(rng.choice(NAMES), rng.choice(ADDRESSES)) for _ in range(rng.randint(0, most))]


def moment(rng: random.Random) -> datetime:
    return (FIRST_DAY + timedelta(minutes=rng.randint(0, 40 * 24 * 60))).astimezone(rng.choice(ZONES))


def mail(rng: random.Random) -> Mail:
    return Mail(
        subject=phrase(rng, 4).replace("\n", " "),
        text=phrase(rng, 40) + ("x" * 300 + "voice" + "y" * 300 if rng.random() < 0.03 else ""),
        sender=people(rng, 1),
        recipient=people(rng, 3),
        cc=people(rng, 2),
        bcc=people(rng, 1),
        headers=[(rng.choice(HEADERS), phrase(rng, 3)) for _ in range(rng.randint(0, 3))],
        flags=[flag for flag in FLAGS if rng.random() < 0.25],
        received=moment(rng),
        sent=moment(rng) if rng.random() < 0.8 else None,
        size=rng.randint(100, 5_000),
        folder=rng.choice(("INBOX", "INBOX", "INBOX", "Archive")),
        state=rng.choice((0, 1, 2, 2, 2, 2, 3)),
        copies=rng.choice((1, 1, 1, 2)),
    )


def pattern(rng: random.Random) -> str:
    text = phrase(rng, 3).replace("\n", " ") if rng.random() < 0.5 else rng.choice(WORDS)
    if rng.random() < 0.5 and text:
        start = rng.randrange(len(text))
        text = text[start : start + rng.randint(1, 8)]
    return rng.choice((text, text.upper(), text.lower()))


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def himalaya_filter(rng: random.Random, depth: int) -> str:
    if depth > 0 and rng.random() < 0.6:
        parts = [himalaya_filter(rng, depth - 1) for _ in range(rng.randint(2, 4))]
        joined = rng.choice((" and ", " or ")).join(parts)
        return f"{rng.choice(('', 'not '))}({joined})"
    day = (FIRST_DAY + timedelta(days=rng.randint(-1, 41))).date()
    written = rng.choice((f"{day:%Y-%m-%d}", f"{day:%d/%m/%Y}"))
    condition = rng.choice(
        (
            f"{rng.choice(('from', 'to', 'subject', 'body', 'body', 'subject'))} {quoted(pattern(rng))}",
            f"{rng.choice(('from', 'to', 'subject', 'body', 'body', 'subject'))} {quoted(pattern(rng))}",
            f"{rng.choice(('date', 'before', 'after'))} {written}",
            f"flag {rng.choice(('seen', 'Flagged', 'replied', 'draft', 'TODO', 'unseen', '$forwarded'))}",
        )
    )
    return f"{rng.choice(('', '', 'not '))}{condition}"


def himalaya(rng: random.Random) -> str:
    written = himalaya_filter(rng, 2).replace("order by", "order  by")
    if rng.random() < 0.4:
        keys = rng.sample(("date", "from", "to", "subject"), rng.randint(1, 3))
        written += " order by " + " ".join(key + rng.choice(("", " asc", " desc")) for key in keys)
    return written


def criteria(rng: random.Random, depth: int = 2) -> str:
    if depth > 0 and rng.random() < 0.6:
        parts = [criteria(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        return rng.choice(
            (f"({' '.join(parts)})", f"NOT {parts[0]}", f"OR {parts[0]} {parts[-1]}", f"NOT ({' '.join(parts)})")
        )
    day = (FIRST_DAY + timedelta(days=rng.randint(-1, 41))).date()
    written = f"{day.day}-{day:%b-%Y}"
    return rng.choice(
        (
            f"{rng.choice(TEXT_KEYS)} {quoted(pattern(rng))}",
            f"{rng.choice(TEXT_KEYS)} {quoted(pattern(rng))}",
            f"HEADER {rng.choice(HEADERS)} {quoted(pattern(rng))}",
            f"{rng.choice(('BEFORE', 'ON', 'SINCE', 'SENTBEFORE', 'SENTON', 'SENTSINCE'))} {written}",
            rng.choice(("ALL", "SEEN", "UNSEEN", "FLAGGED", "UNDRAFT", "ANSWERED", "NEW", "OLD", "RECENT")),
            f"{rng.choice(('KEYWORD', 'UNKEYWORD'))} {rng.choice(('todo', '$FORWARDED', 'none'))}",
            f"{rng.choice(('LARGER', 'SMALLER'))} {rng.randint(100, 5_000)}",
            f"{rng.choice(('YOUNGER', 'OLDER'))} {rng.randint(0, 40 * 86_400)}",
            f"UID {','.join(f'id-{rng.randint(1, 400)}' for _ in range(rng.randint(1, 9)))}",
            f"{rng.randint(1, 100)}:{rng.choice(('*', '50', '300'))},{rng.randint(1, 500)}",
        )
    )


@dataclass(frozen=True)
class Seen:
    """A view, and whether it shows messages whole or not at all; show: None for no view."""

    show: View | None
    is_whole: bool = False


def view(rng: random.Random) -> Seen:
    kind = rng.random()
    return Seen(None) if kind < 0.35 else Seen(hiding(rng), is_whole=True) if kind < 0.6 else Seen(deleting(rng))


def hiding(rng: random.Random) -> View:
    denied = {rng.choice(ADDRESSES) for _ in range(rng.randint(0, 2))}
    without = fold_keeping_separators(rng.choice(WORDS))
    earliest = FIRST_DAY + timedelta(days=rng.randint(-20, 20))

    def seen(message: MirroredMessage) -> MirroredMessage | None:
        is_denied = any(each.address in denied for each in message.from_)
        is_denied = is_denied or without in fold_keeping_separators(message.subject)
        return None if is_denied or message.internaldate < earliest else message

    return seen


def deleting(rng: random.Random) -> View:
    denied = {rng.choice(ADDRESSES) for _ in range(rng.randint(0, 2))}
    hidden = [fold_keeping_separators(rng.choice(WORDS)) for _ in range(rng.randint(0, 2))]
    without = {each for each in ("text", "cc", "headers", "subject", "date", "flags") if rng.random() < 0.2}
    earliest = FIRST_DAY + timedelta(days=rng.randint(-20, 20))

    def deleted(text: str) -> str:
        for each in hidden:
            text = "\ufffc".join(text.split(each))
        return text

    def seen(message: MirroredMessage) -> MirroredMessage | None:
        if message.internaldate < earliest or any(each.address in denied for each in message.from_):
            return None
        return message._replace(
            subject="" if "subject" in without else deleted(message.subject),
            text=None if "text" in without or message.text is None else deleted(message.text),
            cc=() if "cc" in without else message.cc,
            date=None if "date" in without else message.date,
            flags=frozenset() if "flags" in without else message.flags,
            headers=() if "headers" in without else message.headers,
        )

    return seen


def resolve(uid: str) -> int | None:
    return int(uid.removeprefix("id-"))


class Scan:
    """The naive answer: every message of the folder looked at, in memory."""

    def __init__(self, reader: Reader, folder: int) -> None:
        self._messages = reader.find(folder, range(1, 3_000), with_headers=True)

    def answer(self, query: Query, view: View | None) -> list[int]:
        shown = [each for each in map(view or (lambda message: message), self._messages) if each is not None]
        places = [each.id for each in sorted(shown, key=lambda message: message.uid)]

        def placed(node: Node) -> Node:
            if not isinstance(node, Positions):
                return node
            chosen: set[int] = set()
            for first, last in node.ranges:
                low, high = sorted((first or len(places), last or len(places)))
                chosen.update(place for index, place in enumerate(places, 1) if low <= index <= high)
            return OneOf(frozenset(chosen))

        if query.filter is not None:
            condition = replace_nodes(query.filter, placed)
            shown = [each for each in shown if evaluate(condition, each)]
        return [each.id for each in sorted(shown, key=cmp_to_key(partial(_compared, query.order)))]


def _compared(order: tuple[Sorter, ...], one: MirroredMessage, other: MirroredMessage) -> int:
    for sorter in order:
        a, b = (_key(sorter, each) for each in (one, other))
        if a != b:
            return -1 if (a < b) != sorter.descending else 1  # type: ignore[operator]  # both are keys of one sorter
    return -1 if (one.content, one.id) > (other.content, other.id) else 1


def _key(sorter: Sorter, message: MirroredMessage) -> str | int:
    if sorter.key == "date":
        return int((message.date or message.internaldate).timestamp())
    people = {"from": message.from_, "to": message.to}.get(sorter.key)
    text = base_subject(message.subject) if people is None else (people[0].name or people[0].address) if people else ""
    return fold_keeping_separators(text).encode()[:64].decode("utf-8", "ignore")


def pages(reader: Reader, folder: int, query: Query, limit: int, seen: Seen) -> Iterator[list[int]]:
    after: Position | None = None
    while True:
        page = reader.page(folder, query, after, limit, seen.show, is_whole=seen.is_whole)
        yield [message.id for message in page.messages]
        after = page.after
        if after is None:
            return


def compare(path: Path, seed: int, queries: int) -> Counter[str]:
    """What there was to compare. Fails where an answer is not the scan's."""
    told: Counter[str] = Counter()
    rng = random.Random(seed)
    mails = [mail(rng) for _ in range(250)]
    build(path, mails[:100], ("INBOX", "Archive"), batch=40)
    with closing(connect(path)) as connection:
        add(connection, mails[100:], batch=40, is_backlog=seed % 2 == 0)
        while lacking.fill(connection):
            pass
    with Reader(path, deadline=60) as reader:
        scans = {folder: Scan(reader, folder) for folder in (1, 2)}
        for _ in range(queries):
            text, parse = rng.choice(((himalaya(rng), parse_himalaya), (criteria(rng), _parse_criteria)))
            query = parse(text)
            folder, seen, limit = rng.choice((1, 1, 2)), view(rng), rng.choice((2, 7, 30))
            expected = scans[folder].answer(query, seen.show)
            found = list(pages(reader, folder, query, limit, seen))
            assert list(chain.from_iterable(found)) == expected, (text, folder, limit, seen)
            assert all(len(page) == limit for page in found[:-1]), (text, limit)
            restricted = seen.show is not None
            told.update(queries=1, pages=len(found), found=bool(expected), restricted=restricted, whole=seen.is_whole)
    return told


def _parse_criteria(text: str) -> Query:
    return parse_criteria(text, resolve=resolve, now=FIRST_DAY + timedelta(days=40))


INDEX_ALWAYS = {
    "search._GLIMPSE": 0,
    "search._FEW": 0,
    "costs.PROBE": 0.0,
    "costs.SEEK": 0.0,
    "costs.MERGE": 0.0,
    "costs.TEST": 1.0,
    "costs.STEP": 2.0,
    "costs.WORTH_ASKING": 0.0,
    "costs.WORTH_ASKING_EACH": 0.0,
    "search._ENOUGH_TO_TELL": 0,
    "search._PASSED_AT_ONCE": 20,
    "search._TESTED_AT_ONCE": 3,
}
WALK_FIRST = {
    "search._GLIMPSE": 0,
    "search._FEW": 0,
    "costs.PROBE": 1.0,
    "costs.SEEK": 1.0,
    "costs.TEST": 0.0,
    "costs.STEP": 0.0,
    "search._ENOUGH_TO_TELL": 9,
    "search._SHARE_WORTH_PARTING": 100,
    "search._PARTED_AT_ONCE": 7,
}
LACKING_ALWAYS = {
    **INDEX_ALWAYS,
    "lacking._LEAST_TOLD": 1,
    "lacking._ONE_IN": 1,
    "lacking._LIKELY_SHARE": 0.05,
    "lacking._SHARE": 0.1,
    "lacking._MOST_LACKING": 1.0,
    "lacking._MOST_WORDS": 40,
    "lacking._AT_ONCE": 50,
    "costs.NAMED": 0.0,
    "costs.LIKELY": 0.0,
}


@pytest.mark.parametrize(
    "costs", [{}, INDEX_ALWAYS, WALK_FIRST, LACKING_ALWAYS], ids=["estimated", "index", "walk", "lacking"]
)
@pytest.mark.parametrize("seed", range(3))
def test_answer_equals_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, costs: dict[str, float], seed: int
) -> None:
    for name, seconds in costs.items():
        monkeypatch.setattr(f"mirror.query.{name}", seconds)
    compare(tmp_path / "mirror.db", seed, 100)


def test_answer_equals_a_scan_when_few_words_may_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "MOST_WORDS", 2)
    monkeypatch.setattr(plan, "_MOST_PHRASES", 2)
    monkeypatch.setattr(plan, "_LEAST_GROUPED", 2)
    compare(tmp_path / "mirror.db", 99, 100)


def test_answer_equals_a_scan_when_the_index_is_asked_at_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in INDEX_ALWAYS.items():
        monkeypatch.setattr(f"mirror.query.{name}", value)
    monkeypatch.setattr(lexicon, "MOST_WORDS", 4)
    monkeypatch.setattr(plan, "_LEAST_GROUPED", 2)
    compare(tmp_path / "mirror.db", 98, 100)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(1_000, 1_040, 5), ids="seeds from {}".format)
def test_answer_equals_a_scan_20000_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    told: Counter[str] = Counter()
    for seed in range(first, first + 5):
        costs: dict[str, float] = ({}, INDEX_ALWAYS, {}, WALK_FIRST, LACKING_ALWAYS)[seed % 5]
        with monkeypatch.context() as patched:
            for name, seconds in costs.items():
                patched.setattr(f"mirror.query.{name}", seconds)
            told += compare(tmp_path / f"{seed}.db", seed, 500)
    sys.stdout.write(f"compared with a scan, seeds from {first}: {dict(told)}\n")
