"""Ways through the mirror: query plans, and searches that run out of time."""

import logging
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror.errors import QueryTooSlow
from mirror.mirrored import MirroredMessage
from mirror.query import costs, progress, search
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.lexicon import Lexicon
from mirror.query.order import Position
from mirror.query.plan import Planner
from mirror.query.reader import Reader
from mirror.query.tree import MAX_NESTING, Query, evaluate
from tests.mirror.query.mailbox import Mail, build

FIRST = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(5)
    path = tmp_path_factory.mktemp("search") / "mirror.db"
    build(
        path,
        (
            Mail(
                subject=f"subject {index % 40}",
                text=" ".join(rng.choice(("common", "words", "here")) for _ in range(20))
                + (" needle" if index % 500 == 7 else ""),
                received=FIRST + timedelta(hours=index),
                sent=FIRST + timedelta(hours=index if index % 300 else index // 2),
                flags=["\\Seen"] if index % 10 else ["\\Flagged", "\\Seen"] if index % 100 else [],
                state=1 if index % 61 == 0 else 2,
            )
            for index in range(3_000)
        ),
    )
    return path


@contextmanager
def plans(reader: Reader) -> Iterator[list[str]]:
    """The query plan of every statement that a reader runs within."""
    statements: list[str] = []
    found: list[str] = []
    reader._connection.set_trace_callback(statements.append)
    yield found
    reader._connection.set_trace_callback(None)
    for statement in statements:
        if statement.lstrip().startswith(("SELECT message.content", "SELECT content FROM message")) or (
            "message.content, message.id" in statement
        ):
            rows = reader._connection.execute(f"EXPLAIN QUERY PLAN {statement}")
            found.append(" | ".join(row[3].replace("COVERING ", "") for row in rows))


SORTED = "USE TEMP B-TREE FOR ORDER BY"


@pytest.mark.parametrize(
    ("query", "way"),
    [
        (Query(), "SEARCH message USING INDEX message_walk (folder=? AND content<?)"),
        (
            parse_himalaya("not flag custom"),
            "SEARCH message USING INDEX message_walk (folder=? AND content>? AND content<?)",
        ),
        (
            parse_himalaya("flag custom"),
            "SEARCH keyword USING PRIMARY KEY (folder=? AND name=? AND content>? AND content<?)",
        ),
        (
            parse_himalaya("body co"),
            "SEARCH message USING INDEX message_walk (folder=? AND content>? AND content<?)",
        ),
        (parse_himalaya("body needle"), "SEARCH message USING INDEX message_walk (folder=? AND content=?)"),
        (parse_himalaya("body needle"), "SCAN fts VIRTUAL TABLE INDEX"),
        (parse_himalaya("not flag seen"), "USING INDEX message_unseen (folder=? AND content>? AND content<?)"),
        (
            parse_himalaya("flag flagged and body zz"),
            "USING INDEX message_flagged (folder=? AND content>? AND content<?)",
        ),
        (parse_himalaya("date 2024-02-01"), "USING INDEX message_walk (folder=? AND content>? AND content<?)"),
        (parse_criteria("BEFORE 1-Feb-2024"), "USING INDEX message_walk (folder=? AND content>? AND content<?)"),
    ],
    ids=str,
)
def test_default_order_is_walked_and_never_sorted(mirror: Path, query: Query, way: str) -> None:
    with Reader(mirror) as reader, plans(reader) as found:
        reader.page(1, query, None, 10)
    assert any(way in plan for plan in found), found
    assert not any(SORTED in plan for plan in found), found
    assert not any("SCAN message" in plan or "SCAN content" in plan for plan in found), found


def test_a_word_of_nearly_every_mail_is_left_out_by_the_index(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "WORTH_ASKING", 0.0)
    with Reader(mirror) as reader, plans(reader) as found:
        reader.page(1, parse_himalaya("not body common"), None, 10)
    assert any("MERGE (EXCEPT)" in plan for plan in found), found
    assert not any(SORTED in plan for plan in found), found


def test_pending_contents_are_found_by_their_own_index(mirror: Path) -> None:
    with Reader(mirror) as reader, plans(reader) as found:
        reader.page(1, parse_himalaya("body needle"), None, 100)
    assert any(plan.startswith("SEARCH content USING INDEX content_pending (id>? AND id<?)") for plan in found), found
    assert any("SEARCH message USING INDEX message_walk (folder=? AND content=?)" in plan for plan in found), found


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        (parse_himalaya('not body "s w"'), {"SEARCH body USING INDEX body_beyond_ascii (content>? AND content<?)"}),
        (
            parse_criteria('NOT TEXT "s w"'),
            {
                "SEARCH body USING INDEX body_beyond_ascii (content>? AND content<?)",
                "SEARCH body USING INDEX body_lines_beyond_ascii (content>? AND content<?)",
                "SEARCH content USING INDEX content_beyond_ascii (id>? AND id<?)",
            },
        ),
    ],
    ids=["texts", "everything"],
)
def test_a_long_walk_asks_indexes_what_is_more_than_ascii(
    mirror: Path, monkeypatch: pytest.MonkeyPatch, query: Query, indexes: set[str]
) -> None:
    monkeypatch.setattr(search, "_PARTED_AT_ONCE", 900)
    statements: list[str] = []
    with Reader(mirror) as reader:
        reader._connection.set_trace_callback(statements.append)
        reader.page(1, query, None, 3_000)
        reader._connection.set_trace_callback(None)
        asked = [each for each in statements if "beyond_ascii" in each]
        plans = {reader._connection.execute(f"EXPLAIN QUERY PLAN {each}").fetchone()[3] for each in asked}
    assert len(asked) >= 3 * len(indexes)
    assert plans == indexes


@pytest.mark.parametrize("query", ["body common", "body common and body words", 'body "on w"'])
def test_a_page_that_is_soon_full_tests_no_texts_beyond_it(mirror: Path, query: str) -> None:
    statements: list[str] = []
    with Reader(mirror) as reader:
        reader._connection.set_trace_callback(statements.append)
        found = reader.page(1, parse_himalaya(query), None, 20)
        reader._connection.set_trace_callback(None)
    assert len(found.messages) == 20
    assert not [each for each in statements if "beyond_ascii" in each]


@pytest.mark.parametrize("condition", ["", " and after 2023-01-01", " and not flag flagged"])
def test_a_word_of_nearly_every_mail_is_asked_of_the_index_whatever_else_is_to_be_told(
    mirror: Path, condition: str
) -> None:
    with Reader(mirror) as reader, plans(reader) as found:
        page = reader.page(1, parse_himalaya("body common" + condition), None, 20)
    assert len(page.messages) == 20
    assert any("fts VIRTUAL TABLE INDEX" in plan for plan in found), found


def test_sort_order_of_a_large_folder_walks_its_key(mirror: Path) -> None:
    for key in ("subject", "from", "to", "date"):
        with Reader(mirror) as reader, plans(reader) as found:
            reader.page(1, parse_himalaya(f"order by {key}"), None, 10)
        assert any(f"USING INDEX content_by_{key}" in plan for plan in found), found
        assert not any(SORTED in plan for plan in found), found


def test_hits_are_sorted_where_ties_of_the_first_key_would_all_be_walked(mirror: Path) -> None:
    scope = costs.Scope(folder=1, messages=3_000, total=3_000)
    hits = 400
    with Reader(mirror) as reader:
        asked = Planner(reader._connection, 3_000, Lexicon(reader._connection)).propose(
            parse_himalaya("body needle").filter
        )
    assert asked is not None
    by_index = costs.index(scope, asked, hits, costs.TEST)
    assert costs.key(scope, hits, 10, sorters=1) > by_index
    assert costs.key(scope, hits, 10, sorters=2) >= 5 * costs.key(scope, hits, 10, sorters=1)


def test_flag_statistics_count_no_more_than_they_need(mirror: Path) -> None:
    with Reader(mirror) as reader:
        for row in reader._connection.execute(
            """EXPLAIN QUERY PLAN SELECT 1 FROM message INDEXED BY message_flagged
            WHERE folder = 1 AND instr(flags, '"\\\\Flagged"') > 0 LIMIT 5"""
        ):
            assert "COVERING INDEX message_flagged (folder=?)" in row[3]


@pytest.fixture
def short_of_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """In every page, time is up at that look at the clock."""

    def short(looks: int) -> None:
        left = looks
        start = progress.Progress.start

        def begin(self: progress.Progress, seconds: float) -> None:
            nonlocal left
            left = looks
            start(self, seconds)

        def is_over(self: progress.Progress) -> bool:
            nonlocal left
            left -= 1
            return left <= 0

        monkeypatch.setattr(progress.Progress, "start", begin)
        monkeypatch.setattr(progress.Progress, "is_over", is_over)

    return short


def view(message: MirroredMessage) -> MirroredMessage | None:
    return message if message.id % 3 else None


@pytest.mark.parametrize("seen", [None, view], ids=["unrestricted", "restricted"])
@pytest.mark.parametrize(
    "query",
    [
        parse_himalaya("body zz"),
        parse_himalaya("body le and not body common\\ common"),
        parse_himalaya("not body common"),
        parse_himalaya("body needle or subject 39 or body zz"),
        parse_himalaya("body common and not subject subject and body here"),
        parse_himalaya("body dl and before 2024-03-01"),
        parse_criteria("TEXT needle"),
        parse_criteria("OR BODY needle TEXT zz"),
        parse_criteria("SUBJECT 3 NOT BODY common"),
    ],
    ids=str,
)
@pytest.mark.parametrize("looks", [3, 7, 20])
def test_search_that_runs_out_of_time_goes_on_where_it_stopped(
    mirror: Path,
    short_of_time: Callable[[int], None],
    query: Query,
    looks: int,
    seen: Callable[[MirroredMessage], MirroredMessage | None] | None,
) -> None:
    with Reader(mirror, deadline=60) as reader:
        whole = [message.id for message in reader.page(1, query, None, 3_000, seen).messages]
        short_of_time(looks)
        found: list[int] = []
        after: Position | None = None
        back_to = None
        while True:
            page = reader.page(1, query, after, 50, seen)
            found.extend(message.id for message in page.messages)
            if page.searched_back_to is not None:
                assert back_to is None or page.searched_back_to <= back_to
                back_to = page.searched_back_to
                assert all(message.internaldate >= back_to for message in page.messages)
            if page.after is None:
                break
            after = page.after
        assert found == whole


def test_sorted_search_that_runs_out_of_time_says_so(mirror: Path, short_of_time: Callable[[int], None]) -> None:
    short_of_time(1)
    with Reader(mirror) as reader, pytest.raises(QueryTooSlow):
        reader.page(1, parse_himalaya("body zz order by subject"), None, 10)


def test_search_without_time_never_says_that_there_is_nothing(mirror: Path) -> None:
    with Reader(mirror, deadline=-1.0) as reader:
        page = reader.page(1, parse_himalaya("body zz"), None, 10)
    assert page.messages == []
    assert page.after is not None
    assert page.searched_back_to is not None


@pytest.mark.parametrize("dates", ["", "SINCE 1-Jan-2024", "SINCE 1-Feb-2024 BEFORE 9-Feb-2024", "BEFORE 31-Dec-9999"])
def test_search_whose_time_is_up_before_it_found_anything_says_so(
    mirror: Path, short_of_time: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, dates: str
) -> None:
    with Reader(mirror) as reader:
        reader.page(1, None, None, 1)
        monkeypatch.setattr(progress, "_INSTRUCTIONS", 1)
        for looks in range(1, 400, 7):
            short_of_time(looks)
            with suppress(QueryTooSlow):
                page = reader.page(1, parse_criteria(f"BODY needle {dates}"), None, 10)
                assert page.is_cut == (page.searched_back_to is not None)
                assert page.messages or page.is_cut
                assert page.after is not None


@pytest.mark.parametrize("looks", [2, 3])
def test_a_cut_search_gives_no_date_of_a_message_that_the_view_hides(
    mirror: Path, short_of_time: Callable[[int], None], looks: int
) -> None:
    with Reader(mirror, deadline=60) as reader:
        dates = [(each.internaldate, view(each)) for each in reader.page(1, None, None, 3_000).messages]
        visible = {at for at, shown in dates if shown is not None}
        short_of_time(looks)
        after: Position | None = None
        told = []
        while True:
            page = reader.page(1, parse_himalaya("body zz"), after, 10, view)
            told.append(page.searched_back_to)
            after = page.after
            if after is None:
                break
    assert len(told) > 1
    assert {at for at in told if at is not None} <= visible


def test_a_cut_search_that_was_shown_nothing_gives_no_date(mirror: Path, short_of_time: Callable[[int], None]) -> None:
    with Reader(mirror, deadline=60) as reader:
        short_of_time(3)
        page = reader.page(1, parse_himalaya("body zz"), None, 10, lambda _: None)
    assert (page.messages, page.searched_back_to) == ([], None)
    assert page.after is not None


@pytest.mark.parametrize("text", ["body needle", "not subject 39", "body needle order by subject", None])
def test_a_search_for_a_view_ends_at_the_oldest_message_that_it_may_show(mirror: Path, text: str | None) -> None:
    looked_at: list[datetime] = []
    query = None if text is None else parse_himalaya(text)
    with Reader(mirror, deadline=60) as reader:
        everything = reader.page(1, None, None, 3_000).messages
        since = everything[len(everything) // 2].internaldate

        def recent(message: MirroredMessage) -> MirroredMessage | None:
            looked_at.append(message.internaldate)
            return message if message.internaldate >= since else None

        without = [each.id for each in reader.page(1, query, None, 3_000, recent).messages]
        looked_at.clear()
        assert [each.id for each in reader.page(1, query, None, 3_000, recent, since).messages] == without
        assert min(looked_at) >= since


@pytest.mark.parametrize(
    "text",
    [
        " or ".join(f'body "{chr(97 + index % 26)}{chr(97 + index // 26)}"' for index in range(200)),
        " and ".join(["not subject s", *(f"not body e{index}" for index in range(199))]),
        "(" * 50 + "body x" + ")" * 50,
        'body "' + "a b " * 10_000 + '"',
        'body "' + "a" * 60_000 + '"',
        'subject "' + '\\"' * 5_000 + '"',
        'from "' + "會" * 5_000 + '"',
    ],
    ids=["or of 200", "and of 200 not", "nested", "long phrase", "long word", "quotes", "chinese"],
)
def test_hostile_query_ends_in_its_time(mirror: Path, text: str) -> None:
    with Reader(mirror, deadline=2.0) as reader:
        started = datetime.now(UTC)
        with suppress(QueryTooSlow):
            reader.page(1, parse_himalaya(text), None, 50)
        assert datetime.now(UTC) - started < timedelta(seconds=6)


def test_search_that_looks_at_many_messages_logs_its_plan_and_not_its_pattern(
    mirror: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_MANY", 2_000)
    with Reader(mirror) as reader, caplog.at_level(logging.INFO):
        reader.page(1, parse_himalaya("body needle"), None, 10)
        assert caplog.records == []
        reader.page(1, parse_criteria("TEXT xyz LARGER 5"), None, 10)
    [record] = caplog.records
    told = vars(record)
    assert (told["folder"], told["tested"]) == (1, 3_000)
    assert "message_walk" in told["plan"]
    assert "xyz" not in str(told)


def test_interrupted_reader_reads_on(mirror: Path) -> None:
    with Reader(mirror, deadline=-1.0) as reader:
        with pytest.raises(QueryTooSlow):
            reader.page(1, parse_himalaya("body zz order by subject"), None, 10)
        assert reader.message(1, 5) is not None
        assert reader.folders()[0].messages == 3_000


@pytest.mark.parametrize("around", ["({leaf} or {rest})", "({rest} and {leaf})", "not ({leaf} and {rest})"])
@pytest.mark.parametrize("leaf", ["body needle", 'body "words here"', "not body common", "subject 7"])
def test_deeply_nested_query_is_answered_like_any_other(mirror: Path, around: str, leaf: str) -> None:
    text = "subject 3"
    for level in range(MAX_NESTING - 1):
        text = (around if level % 2 else "({leaf} and {rest})").format(leaf=leaf, rest=text)
    query = parse_himalaya(text)
    assert query.filter is not None
    with Reader(mirror) as reader:
        found = reader.page(1, query, None, 20).messages
        everything = reader.page(1, None, None, 3_000).messages
        whole = reader.find(1, [each.id for each in everything], with_headers=True)
    assert [each.id for each in found] == [each.id for each in whole if evaluate(query.filter, each)][:20]


def test_other_faults_of_the_database_are_not_taken_for_a_lack_of_time(mirror: Path) -> None:
    with Reader(mirror) as reader:
        reader._connection.create_function("reached", 1, None)
        with pytest.raises(sqlite3.OperationalError):
            reader.page(1, parse_himalaya("body zz"), None, 10)
