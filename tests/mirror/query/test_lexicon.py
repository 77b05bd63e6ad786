"""The words that a piece of a pattern may be part of: all of them or "too many", and asked for once."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirror.database import transaction
from mirror.query import lexicon
from mirror.query.fresh_words import Part, take_in
from mirror.query.himalaya import parse_himalaya
from mirror.query.lexicon import Lexicon
from mirror.query.reader import Reader
from mirror.query.tree import Field
from tests.mirror.query.mailbox import Mail, add, build, connect


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(3)

    def words(count: int) -> str:
        return " ".join(
            "".join(rng.choice(("ab", "ba", "abc", "c", "é", "会")) for _ in range(4)) for _ in range(count)
        )

    path = tmp_path_factory.mktemp("lexicon") / "mirror.db"
    mails = [Mail(subject=words(1), text=words(20), sender=[(words(1), "x@bab.example")]) for _ in range(150)]
    build(path, mails[:50])
    with closing(connect(path)) as connection:
        add(connection, mails[50:80], batch=10, is_backlog=True)
        with transaction(connection):
            list(take_in(connection))
        add(connection, mails[80:], batch=10, is_backlog=True)
    return path


@pytest.fixture
def connection(mirror: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(mirror)) as connection:
        yield connection


def _is_part(piece: str, part: Part, word: str) -> bool:
    match part:
        case "whole":
            return word == piece
        case "prefix":
            return word.startswith(piece)
        case "suffix":
            return word.endswith(piece)
        case "inside":
            return piece in word


@pytest.mark.parametrize("most", [5, 40, 1_000])
def test_words_of_a_piece_are_all_of_them_or_too_many(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(lexicon, "MOST_WORDS", most)
    monkeypatch.setattr(lexicon, "MOST_SCANNED", 4 * most)
    table = connection.execute("SELECT term, documents, subjects, people FROM word").fetchall()
    fields: dict[Field, tuple[int, str]] = {"body": (1, "words"), "subject": (2, "subjects"), "from": (3, "people")}
    # A word that has only been put aside counts once.
    counted = {
        field: {word: 1 for (text,) in connection.execute(f"SELECT {column} FROM fresh_words") for word in text.split()}
        | {row[0]: row[place] for row in table if row[place]}
        for field, (place, column) in fields.items()
    }
    assert len(counted["body"]) > len(table)
    terms = sorted(counted["body"])
    parts: tuple[Part, ...] = ("whole", "prefix", "suffix", "inside")
    rng, words, told = random.Random(most), Lexicon(connection), 0
    for _ in range(1_500):
        term = rng.choice(terms)
        start = rng.randrange(len(term))
        piece, part, field = term[start : start + rng.randint(1, 8)], rng.choice(parts), rng.choice(list(fields))
        expected = {word: count for word, count in counted[field].items() if _is_part(piece, part, word)}
        found = words.words(field, piece, part, thorough=rng.random() < 0.5)
        if found is not None:
            assert dict(found) == expected, (piece, part, field)
        told += found is not None
    assert told > 200


def _asked(reader: Reader, query: str) -> list[str]:
    statements: list[str] = []
    reader._connection.set_trace_callback(statements.append)
    reader.page(1, parse_himalaya(query), None, 200)
    reader._connection.set_trace_callback(None)
    return [each for each in statements if "FROM word" in each]


def test_a_page_asks_once_for_each_piece(mirror: Path) -> None:
    with Reader(mirror) as reader:
        asked = _asked(reader, "body abcabc or body zz or body abcabc")
    assert len(asked) == len(set(asked)) > 0


def test_alternatives_are_not_looked_up_when_one_of_them_cannot_be(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexicon, "MOST_WORDS", 1)
    with Reader(mirror) as reader:
        asked = _asked(reader, "subject cabab or body abab")
    assert asked
    assert not any("cab" in each for each in asked)


def test_the_next_search_for_the_same_does_not_look_its_words_up_again_until_the_mirror_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mirror.db"
    build(path, (Mail(text="hay" if number % 40 else f"needle{number}") for number in range(400)))
    with Reader(path) as reader, closing(connect(path)) as writer:
        first = _asked(reader, "body eedle")
        again = _asked(reader, "body eedle")
        add(writer, [Mail(text="another needlework")])
        assert (len(first) > 0, again, _asked(reader, "body eedle")) == (True, [], first)
        found = reader.page(1, parse_himalaya("body eedlew"), None, 50).messages
    assert len(found) == 1


def test_words_of_many_pieces_are_held_only_as_far_as_a_reader_may(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexicon, "_MOST_HELD", 200)
    words, asked = Lexicon(connection), list[str]()
    connection.set_trace_callback(asked.append)
    pieces = ("abc", "bab", "cab", "abc", "abc")
    looked_up = []
    for piece in pieces:
        asked.clear()
        words.words("body", piece, "inside", thorough=False)
        looked_up.append(any("word_trigram" in each for each in asked))
    connection.set_trace_callback(None)
    assert looked_up == [True, True, True, True, False]


def test_two_rare_letters_are_looked_for_without_reading_the_table_of_words(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror.query.search._GLIMPSE", 0)
    monkeypatch.setattr("mirror.query.search._FEW", 0)
    monkeypatch.setattr("mirror.query.search._ENOUGH_TO_TELL", 0)
    monkeypatch.setattr("mirror.query.costs.WORTH_ASKING", 0.0)
    with Reader(mirror) as reader:
        statements: list[str] = []
        reader._connection.set_trace_callback(statements.append)
        found = reader.page(1, parse_himalaya("body zq"), None, 20).messages
        reader._connection.set_trace_callback(None)
        plans = [
            str(row[3])
            for each in statements
            if "FROM word" in each or "FROM trigram" in each
            for row in reader._connection.execute("EXPLAIN QUERY PLAN " + each)
        ]
    assert found == []
    assert any("trigram VIRTUAL TABLE" in each for each in plans)
    assert not [each for each in plans if each == "SCAN word"]
