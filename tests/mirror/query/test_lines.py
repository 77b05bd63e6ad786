"""Header lines: what their index proposes has everything that a scan finds, and goes with what it was made of."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror.fold import fold_keeping_separators
from mirror.grams import asked_of, grams_of
from mirror.query import lines, ways, words
from mirror.query.criteria import parse_criteria
from mirror.query.reader import Reader
from mirror.query.tree import evaluate
from tests.mirror.query.mailbox import Mail, add, build, connect

SYLLABLES = (
    "re",
    "ceived",
    "Straße",
    "ﬁn",
    "é",
    "0a1",
    "b2",
    "f",
    "会议",
    "ราคา",
    "🎉",
    "x" * 600,
    "ОТЧЁТ",
    "-",
    ".",
    " ",
)
NAMES = ("Message-ID", "Received", "List-Id", "X-Straße", "To")


def value(rng: random.Random) -> str:
    return "".join(rng.choices(SYLLABLES, k=rng.randint(1, 9)))


def mails(count: int) -> Iterator[Mail]:
    rng = random.Random(5)
    for index in range(count):
        headers = [(rng.choice(NAMES), value(rng)) for _ in range(rng.randint(0, 4))]
        headers.append(("Message-ID", f"<{rng.getrandbits(64):016x}@host{index % 7}.example>"))
        yield Mail(
            f"number {index}", headers=headers, received=datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=index)
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    build(tmp_path / "mirror.db", mails(400))
    return tmp_path / "mirror.db"


def indexed(connection: sqlite3.Connection) -> set[tuple[str, int]]:
    """Every piece that the index holds, with how many contents."""
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.held USING fts5vocab(main, line, row)")
    return set(connection.execute("SELECT term, doc FROM temp.held"))


def test_text_with_a_pattern_has_all_pieces_that_the_pattern_asks_for() -> None:
    rng = random.Random(6)
    asked = 0
    for _ in range(3_000):
        text = f"{rng.choice(NAMES)}: {value(rng)}"
        folded = fold_keeping_separators(text)
        start = rng.randrange(len(folded))
        pattern = folded[start : start + rng.choice((1, 4, 5, 9, 700))]
        held, ways = set(grams_of(text)), asked_of(pattern)
        assert not ways or any(held.issuperset(way) for way in ways), (text, pattern)
        asked += bool(ways)
    assert asked > 1_500


@pytest.mark.parametrize("seed", range(3))
def test_headers_are_found_as_by_a_scan(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    proposed = 0
    with Reader(path) as reader:
        everything = reader.find(1, [m.id for m in reader.page(1, None, None, 1_000).messages], with_headers=True)
        reader._connection.set_trace_callback(lambda sql: seen.append(sql))
        for _ in range(150):
            seen: list[str] = []
            name, text = rng.choice(rng.choice(everything).headers or ())
            start = rng.randrange(len(text) + 1)
            pattern = text[start : start + rng.randint(0, 12)].replace("\\", "").replace('"', "")
            criterion = rng.choice(
                (
                    f'TEXT "{pattern}"',
                    f'HEADER {name} "{pattern}"',
                    f'OR TEXT "{pattern}" HEADER List-Id "{value(rng)}"',
                    f'TEXT "{pattern}" SUBJECT {rng.randint(1, 39)}',
                    f'HEADER {name} "{pattern}" HEADER Message-ID "host{rng.randint(0, 6)}" NOT SUBJECT 1',
                )
            )
            query = parse_criteria(criterion)
            assert query.filter is not None
            found = [message.id for message in reader.page(1, query, None, 1_000).messages]
            assert found == [message.id for message in everything if evaluate(query.filter, message)], criterion
            proposed += any(sql.lstrip().startswith("SELECT message.content") and "FROM line" in sql for sql in seen)
    assert proposed > 20


def test_rare_identifier_is_not_looked_for_line_by_line(path: Path) -> None:
    with Reader(path) as reader:
        message = reader.message(1, 17, with_headers=True)
        assert message is not None
        identifier = dict(message.headers or ())["Message-ID"]
        for criterion in (f"HEADER Message-ID {identifier[3:12]}", f"TEXT {identifier[3:12]}", f'TEXT "{identifier}"'):
            page = reader.page(1, parse_criteria(criterion), None, 10)
            assert [each.id for each in page.messages] == [17]
            assert reader._progress._tested < 60


def test_contents_that_go_leave_no_piece_behind(path: Path) -> None:
    with closing(connect(path)) as connection:
        before, others = indexed(connection), [row[0] for row in connection.execute("SELECT content FROM body")]
        ids = add(connection, [Mail(headers=[("X-Only-Here", "zzyzx 会议 0123456789abcdef")])])
        assert indexed(connection) != before
        words.unindex(connection, ids)
        assert indexed(connection) == before
        words.unindex(connection, others)
        assert indexed(connection) == set()


def test_index_that_is_made_anew_step_by_step_is_the_same_and_searches_are_whole_meanwhile(path: Path) -> None:
    query = parse_criteria('TEXT "host3.example"')
    with closing(connect(path)) as connection, Reader(path) as reader:
        before, found = indexed(connection), reader.page(1, query, None, 1_000).messages
        lines.empty(connection)
        assert indexed(connection) == set()
        steps = 0
        while lines.fill(connection, 150):
            steps += 1
            assert not lines.is_whole(connection)
            assert reader.page(1, query, None, 1_000).messages == found
            words.unindex(connection, [row[0] for row in connection.execute(_OF_BOTH_PARTS)])
            words.index(connection, [row[0] for row in connection.execute(_OF_BOTH_PARTS)])
        assert steps == 2
        assert lines.is_whole(connection)
        assert indexed(connection) == before
        connection.execute("INSERT INTO line (line, rank) VALUES ('integrity-check', 0)")


_OF_BOTH_PARTS = (
    "SELECT content FROM body WHERE content IN (SELECT min(content) FROM body UNION SELECT max(content) FROM body)"
)


def test_plan_walks_the_index_from_the_newest_and_looks_messages_up(path: Path) -> None:
    with Reader(path) as reader:
        statement = f"{ways.PAIRS} {ways.LINES} ORDER BY line.rowid DESC"
        plan = ways.plan(reader._connection, statement, (0, 1, '"abc"', 0, 1))
    assert "SCAN line VIRTUAL TABLE INDEX" in plan
    assert "SEARCH message USING COVERING INDEX message_walk (folder=? AND content=?)" in plan
    assert "TEMP B-TREE" not in plan
