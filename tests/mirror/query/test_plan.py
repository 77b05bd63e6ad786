"""What the full text is asked for."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirror.query.himalaya import parse_himalaya
from mirror.query.lexicon import Lexicon
from mirror.query.plan import Planner
from mirror.query.proposal import Asked
from tests.mirror.query.mailbox import Mail, build, connect


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "mirror.db"
    build(
        path,
        (
            Mail(text=f"{number:03}inner row{number % 7} {'al' if number % 3 else 'also' if number % 2 else 'else'}")
            for number in range(210)
        ),
        batch=10,
    )
    return path


@pytest.fixture
def connection(mirror: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(mirror)) as connection:
        yield connection


def _asked(connection: sqlite3.Connection, query: str) -> Asked:
    proposal = Planner(connection, 210, Lexicon(connection)).propose(parse_himalaya(query).filter)
    assert proposal is not None
    assert proposal.text is not None
    return proposal.text


def _found(connection: sqlite3.Connection, match: str) -> set[int]:
    return {row[0] for row in connection.execute("SELECT rowid FROM fts WHERE fts MATCH ?", (match,))}


def test_many_words_are_asked_for_in_groups_that_find_the_same(connection: sqlite3.Connection) -> None:
    asked = _asked(connection, "body inner")
    assert asked.words == 210
    assert asked.match.count(" NOT ") > 10
    assert len(_found(connection, asked.match)) == 210
    assert _found(connection, _asked(connection, "body 7inner").match) == _found(
        connection, " OR ".join(f'"{number:03}inner"' for number in range(7, 210, 10))
    )


def test_a_common_word_that_is_not_wanted_is_barred_although_other_words_may_have_it(
    connection: sqlite3.Connection,
) -> None:
    asked = _asked(connection, "body row3 and not body al")
    assert len(_found(connection, '"row3"')) == 30
    assert len(_found(connection, asked.match)) == 10
    assert "NOT (iif(" in asked.rest.sql
