"""Contents that lack a word of nearly every text: they are told at any time, and are what a search without it reads."""

import random
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlite_utils import Database

from mirror import schema
from mirror.fold import fold
from mirror.query import lacking, words
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.reader import Reader
from mirror.query.tree import Query, evaluate
from mirror.store import Store
from mirror.terms import terms_of
from tests.mirror.query.mailbox import Mail, add, build, connect

FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def mail(number: int) -> Mail:
    """One in ten lacks `the`, one in forty `invoice`; some have it elsewhere, or within a word."""
    rng = random.Random(number)
    text = [] if number % 10 == 3 else ["the"]
    text += [] if number % 40 == 7 else ["Invoice"]
    text += rng.choices(("pay", "bathe", "café", "会议", "voice", "x" * 600), k=rng.choice((0, 1, 4)))
    rng.shuffle(text)
    return Mail(
        subject=rng.choice(("the", "invoice", "")),
        text="\n".join(text),
        received=FIRST + timedelta(hours=number),
        state=1 if number < 600 and number % 97 == 0 else 2,
    )


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lacking, "_ONE_IN", 1)
    build(tmp_path / "mirror.db", (mail(number) for number in range(600)))
    with closing(connect(tmp_path / "mirror.db")) as connection:
        while lacking.fill(connection):
            pass
    return tmp_path / "mirror.db"


def told(connection: sqlite3.Connection) -> dict[str, set[int]]:
    """The contents that are told to lack each word, and are still there."""
    found = {term: set[int]() for (term,) in connection.execute("SELECT term FROM universal")}
    for term, content in connection.execute(
        "SELECT universal.term, lacking.content FROM lacking JOIN universal ON universal.id = lacking.word"
        " JOIN content ON content.id = lacking.content AND content.state >= 2"
    ):
        found[term].add(content)
    return found


def scanned(connection: sqlite3.Connection, *terms: str) -> dict[str, set[int]]:
    """The contents that lack each word."""
    texts = connection.execute(
        "SELECT content.id, body.text FROM content JOIN body ON body.content = content.id WHERE content.state >= 2"
    ).fetchall()
    return {term: {content for content, text in texts if term not in fold(text).split()} for term in terms}


def test_contents_that_lack_a_word_are_told_as_mail_comes_changes_and_goes(path: Path) -> None:
    with closing(connect(path)) as connection:
        assert told(connection) == scanned(connection, "the", "invoice")
        ids = add(connection, [mail(number) for number in range(600, 900)])
        assert told(connection) == scanned(connection, "the", "invoice")
        connection.execute("BEGIN")
        for content in ids[::29]:
            words.unindex(connection, [content])
            connection.execute(
                "UPDATE body SET text = 'the end' WHERE content = ? AND text LIKE '%invoice%'", (content,)
            )
            words.index(connection, [content])
        assert told(connection) == scanned(connection, "the", "invoice")
        words.unindex(connection, ids[::3])
        connection.execute("COMMIT")
        assert not {row[0] for row in connection.execute("SELECT content FROM lacking")}.intersection(ids[::3])


def test_a_search_without_a_word_of_nearly_every_mail_reads_only_texts_that_lack_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror.query.search._GLIMPSE", 0)
    monkeypatch.setattr("mirror.query.search._ENOUGH_TO_TELL", 0)
    with Reader(path) as reader:
        everything = reader.find(1, [message.id for message in reader.page(1, Query(), None, 1_000).messages])
        for query in (
            parse_himalaya("body voice and not body the"),
            parse_himalaya("body é and not body invo"),
            parse_himalaya("body oi and not body th"),
            parse_himalaya("(body 会 or body zz) and not body the"),
            parse_criteria("BODY ay NOT TEXT invoice"),
            parse_himalaya('body "pay\nvoice" and not body invoice'),
            parse_himalaya("body xxxxx and not body the"),
        ):
            statements: list[str] = []
            reader._connection.set_trace_callback(statements.append)
            found = [message.id for message in reader.page(1, query, None, 1_000).messages]
            reader._connection.set_trace_callback(None)
            assert query.filter is not None
            assert found == [message.id for message in everything if evaluate(query.filter, message)], query
            (asked,) = (each for each in statements if "FROM lacking" in each)
            plan = [row[3] for row in reader._connection.execute("EXPLAIN QUERY PLAN " + asked)]
            assert plan[:2] == [
                "SEARCH lacking USING PRIMARY KEY (word=? AND content>? AND content<?)",
                "SEARCH message USING INDEX message_walk (folder=? AND content=?)",
            ]
            assert reader._progress._tested < 80


def test_texts_that_have_not_the_letters_that_are_wanted_beside_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lacking, "_ONE_IN", 1)
    build(tmp_path / "mirror.db", (Mail(text="the" if number % 11 else "no such") for number in range(400)), batch=400)
    with closing(connect(tmp_path / "mirror.db")) as connection:
        while lacking.fill(connection):
            pass
    with Reader(tmp_path / "mirror.db") as reader:
        assert reader.page(1, parse_himalaya("body qx and not body the"), None, 20).messages == []
        assert reader._progress._tested < 20
        assert len(reader.page(1, parse_himalaya("body such and not body the"), None, 20).messages) == 20


def test_a_word_that_many_texts_lack_after_all_is_put_aside(path: Path) -> None:
    rare = [(1, terms_of("rare", "", ("", "", "", ""), ()))] * 100
    with closing(connect(path)) as connection:
        lacking.notice(connection, rare)
        while lacking.fill(connection):
            pass
        assert told(connection) == scanned(connection, "the", "invoice") | {"rare": set()}
        lacking.notice(connection, rare)
        assert lacking.is_whole(connection)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A mirror as it was before anybody told who lacks a word."""
    (tmp_path / "m").mkdir()
    with closing(connect(tmp_path / "m" / "mirror.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        schema.migrations.apply(Database(connection), stop_before="tell_who_lacks_a_word")
        connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 7, 1)")
        connection.execute("INSERT INTO folder (raw, name, enumerated, as_of) VALUES (x'49', 'INBOX', 1, 0)")
        add(connection, [mail(number) for number in range(1_500)], is_indexed=False)
        schema.migrations.apply(Database(connection))
        connection.execute("BEGIN")
        ids = [row[0] for row in connection.execute("SELECT id FROM content WHERE state >= 2 ORDER BY id")]
        for start in range(0, len(ids), 50):
            words.index(connection, ids[start : start + 50])
        connection.execute("COMMIT")
    return tmp_path / "m"


def test_an_older_mirror_is_looked_at_and_answers_are_whole_meanwhile(older: Path) -> None:
    query = parse_himalaya("body voice and not body the")
    with Store(older, repair=True) as store, Reader(older / "mirror.db") as reader:
        found = [message.id for message in reader.page(1, query, None, 2_000).messages]
        transactions = 0
        while store.index_lines():
            transactions += 1
            assert [message.id for message in reader.page(1, query, None, 2_000).messages] == found
        assert transactions > 3
        assert told(store._connection) == scanned(store._connection, "the", "invoice")
        assert [message.id for message in reader.page(1, query, None, 2_000).messages] == found
        assert len(found) > 20
