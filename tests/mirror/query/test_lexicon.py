"""The words that a piece of a pattern may be part of: all of them or "too many", and asked for once."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirror.query import lexicon
from mirror.query.himalaya import parse_himalaya
from mirror.query.lexicon import Lexicon, Part
from mirror.query.reader import Reader
from mirror.query.tree import Field
from tests.mirror.query.mailbox import Mail, build, connect


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(3)

    def words(count: int) -> str:
        return " ".join(
            "".join(rng.choice(("ab", "ba", "abc", "c", "é", "会")) for _ in range(4)) for _ in range(count)
        )

    path = tmp_path_factory.mktemp("lexicon") / "mirror.db"
    build(path, (Mail(subject=words(1), text=words(20), sender=[(words(1), "x@bab.example")]) for _ in range(150)))
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
    fields: dict[Field, int] = {"body": 1, "subject": 2, "from": 3}
    parts: tuple[Part, ...] = ("whole", "prefix", "suffix", "inside")
    rng, words, told = random.Random(most), Lexicon(connection), 0
    for _ in range(1_500):
        term = rng.choice(table)[0]
        start = rng.randrange(len(term))
        piece, part, field = term[start : start + rng.randint(1, 8)], rng.choice(parts), rng.choice(list(fields))
        expected = {
            row[0]: row[fields[field]] for row in table if _is_part(piece, part, row[0]) and row[fields[field]] > 0
        }
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
