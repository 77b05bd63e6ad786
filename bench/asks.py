"""What an agent asks of a mailbox, made from the words and messages of the mirror that is asked."""

import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_VARIANTS = 40
_TEXTS = 600
_WORD = re.compile(r"[a-z]{5,}")
_PAIR = re.compile(r"\b[a-z]{3,} [a-z]{3,}\b")

Call = Callable[[str, str, Mapping[str, Any]], Mapping[str, Any]]
"""(profile, tool, arguments) -> the tool's answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One kind of question: a tool, and different arguments for it, asked in turn. profile: who asks."""

    name: str
    tool: str
    arguments: Sequence[Mapping[str, Any]]
    profile: str = "open"


def asks(database: Path, call: Call) -> list[Ask]:
    """The questions for a mirror. call: how its tools are reached, for the uids of messages to read."""
    chance = random.Random(1)
    texts = _sample(database)
    counts = Counter(word for text in texts for word in set(_WORD.findall(text.casefold())))
    rare = sorted(word for word, count in counts.items() if count == 1)
    common = [word for word, count in counts.most_common(60) if count < len(texts) * 0.6][:_VARIANTS]
    pairs = sorted({pair for text in texts for pair in _PAIR.findall(text.casefold())})

    def search(name: str, make: Callable[[], str], profile: str = "open") -> Ask:
        queries = [{"folder": "INBOX", "query": make()} for _ in range(_VARIANTS)]
        return Ask(name, "search_messages", queries, profile)

    def inside() -> str:
        word = chance.choice(rare)
        start = chance.randrange(len(word) - 3)
        return str(word[start : start + 4])

    def day() -> str:
        return f"20{chance.randint(19, 20)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"

    def read(name: str, tool: str, at_once: int) -> Ask:
        pieces = [uids[start : start + at_once] for start in range(0, len(uids) - at_once + 1, at_once)]
        named = [{"uid": piece[0]} if tool == "read_message" else {"uids": piece} for piece in pieces]
        return Ask(name, tool, [{"folder": "INBOX", **each} for each in named])

    uids = _uids(call)
    return [
        Ask("list_folders", "list_folders", [{}]),
        Ask("list_messages, newest", "list_messages", [{"folder": "INBOX"}]),
        search("search: rare word", lambda: f"body {chance.choice(rare)}"),
        search("search: common word", lambda: f"body {chance.choice(common)}"),
        search("search: two words", lambda: f"body {chance.choice(common)} and body {chance.choice(common)}"),
        search("search: phrase", lambda: f'body "{chance.choice(pairs)}"'),
        search("search: inside a word", lambda: f"body {inside()}"),
        search("search: sender", lambda: f"from user{chance.randrange(400)}@"),
        search("search: word, not seen", lambda: f"body {chance.choice(common)} and not flag seen"),
        search("search: range of dates", lambda: f"after {day()} and before {day()}"),
        search("search: by subject", lambda: f"body {chance.choice(common)} order by subject"),
        search("search: common word, restricted", lambda: f"body {chance.choice(common)}", "restricted"),
        read("read_message", "read_message", 1),
        read("read_messages, ten", "read_messages", 10),
    ]


def _sample(database: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        step = max(1, connection.execute("SELECT count(*) FROM body").fetchone()[0] // _TEXTS)
        rows = connection.execute(
            "SELECT text FROM (SELECT text, row_number() OVER (ORDER BY content) AS n FROM body) WHERE n % ? = 0",
            (step,),
        )
        return [row[0] for row in rows]


def _uids(call: Call) -> list[str]:
    """Uids of the newest messages, five pages of them."""
    uids: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(5):
        page = call("open", "list_messages", {"folder": "INBOX", **cursor})
        uids += [message["uid"] for message in page["messages"]]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    return uids
