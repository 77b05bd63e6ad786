"""Ids of contents: by the minute of the INTERNALDATE, upward where a minute is full, and no walk of a long run."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror.listing import Listed, ListedFolder
from mirror.schema import SPILL_BITS
from mirror.store import Store

_BEGAN = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTE = 1 << SPILL_BITS


def add(store: Store, first: int, count: int, *, a_minute: int) -> None:
    """Add that many messages, so many of them in each minute, the first of them in that place."""
    numbers = range(first, first + count)
    store.add_listed(1, [Listed(each + 1, (), _BEGAN + timedelta(minutes=each // a_minute), 100) for each in numbers])


def ids(store: Store) -> list[tuple[int, int]]:
    """(id, lowest id of its minute) of every content, by the order in which they came in."""
    rows = store._connection.execute(
        "SELECT content.id, (internaldate - ?) / 60 FROM content JOIN message ON message.content = content.id"
        " ORDER BY message.uid",
        (int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()),),
    )
    return [(content, minute << SPILL_BITS) for content, minute in rows]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A mirror with one folder."""
    with Store(tmp_path / "mirror") as made:
        made.set_folders([ListedFolder(b"INBOX", "INBOX", "/", (), "", selectable=True)])
        yield made


def test_full_minute_goes_on_in_the_next_free_id(store: Store) -> None:
    add(store, 0, 20, a_minute=20)
    [(first, base), *_] = found = ids(store)
    assert first == base
    assert [content for content, _ in found] == list(range(first, first + 20))


@pytest.mark.parametrize("at_once", [1, 7, 3_000])
def test_minutes_that_are_all_too_full_have_ids_of_their_own_not_much_further_than_they_must(
    store: Store, at_once: int
) -> None:
    a_minute, count = 3 * _MINUTE, 3_000
    for first in range(0, count, at_once):
        add(store, first, at_once, a_minute=a_minute)
    found = ids(store)
    assert not [content for content, times in Counter(content for content, _ in found).items() if times > 1]
    assert all(content >= base for content, base in found)
    start = found[0][1]
    assert max(content for content, _ in found) - start < 2 * count


def cost_of_one_more(store: Store, place: int, a_minute: int) -> int:
    """Hundreds of steps that SQLite takes to add one message."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store._connection.set_progress_handler(count, 100)
    add(store, place, 1, a_minute=a_minute)
    store._connection.set_progress_handler(None, 0)
    return steps


def test_one_more_message_costs_the_same_however_long_the_minutes_have_been_too_full(store: Store) -> None:
    a_minute = 2 * _MINUTE
    add(store, 0, 1_000, a_minute=a_minute)
    short = cost_of_one_more(store, 1_000, a_minute)
    add(store, 1_001, 15_000, a_minute=a_minute)
    assert cost_of_one_more(store, 16_001, a_minute) < 2 * short + 10
