"""What a page costs: it reads the messages it shows, and of them what a list shows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirror.mirrored import MirroredMessage
from mirror.query import rows
from mirror.query.himalaya import parse_himalaya
from mirror.query.order import Position
from mirror.query.reader import Reader
from mirror.query.ways import plan
from tests.mirror.query.mailbox import Mail, build

FOLDER, PAGE = 1, 20


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A mirror of 90 mails."""
    path = tmp_path / "mirror.db"
    build(path, [Mail(subject=f"subject {each % 7}", text=f"word {each}") for each in range(90)])
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[rows.Row]:
    """Grows by each row that a message is made of."""
    found: list[rows.Row] = []
    listed = rows.listed

    def counted(row: rows.Row) -> MirroredMessage:
        found.append(row)
        return listed(row)

    monkeypatch.setattr(rows, "listed", counted)
    return found


@contextmanager
def plans(reader: Reader) -> Iterator[list[str]]:
    """The plans of what the block executes, filled in when it ends."""
    statements: list[str] = []
    reader._connection.set_trace_callback(statements.append)
    found: list[str] = []
    yield found
    reader._connection.set_trace_callback(None)
    found += [plan(reader._connection, each, ()) for each in statements if each.lstrip().startswith("SELECT")]


@pytest.mark.parametrize("text", ["", "body word", "order by subject", "body word order by date"])
def test_a_page_makes_only_the_messages_that_it_shows(mirror: Path, made: list[rows.Row], text: str) -> None:
    query = parse_himalaya(text) if text else None
    with Reader(mirror) as reader:
        page = reader.page(FOLDER, query, None, PAGE)
        assert len(page.messages) == len(made) == PAGE
        reader.page(FOLDER, query, page.after, PAGE)
    assert len(made) == 2 * PAGE


@pytest.mark.parametrize("octets", [True, False])
def test_a_list_reads_no_text_but_for_its_length(mirror: Path, octets: bool) -> None:
    with Reader(mirror) as reader, plans(reader) as found:
        reader.page(FOLDER, None, None, PAGE, octets=octets)
    assert any(" body " in each for each in found) == octets


def test_pages_of_everything_are_the_same_in_any_size(mirror: Path) -> None:
    with Reader(mirror) as reader:
        whole = [message.id for message in reader.page(FOLDER, None, None, 1_000).messages]
        for size in (1, 7, 89, 90, 91):
            found: list[int] = []
            after: Position | None = None
            while True:
                page = reader.page(FOLDER, None, after, size)
                found += [message.id for message in page.messages]
                after = page.after
                if after is None:
                    break
            assert found == whole
    assert len(whole) == 90
