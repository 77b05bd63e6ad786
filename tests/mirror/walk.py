"""The story walked through: before each step's pass stands a mirror to disturb, beside what it comes to undisturbed."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mirror.parsing import Parsers
from tests.mirror.mailbox import Mirror, Row, indexed, truth
from tests.mirror.scenario import STEPS, Account


@dataclass(frozen=True)
class Seen:
    """All that a reader could tell of a mirror, what it must not have kept, and where its messages are by id."""

    listing: set[Row]
    folders: set[str]
    contents: list[tuple[object, ...]]
    indexed: dict[str, int]
    attempts: list[tuple[object, ...]]
    places: dict[object, tuple[object, ...]]

    def kept(self, ids: set[object]) -> dict[object, tuple[object, ...]]:
        """Where the messages of these ids are."""
        return {message: place for message, place in self.places.items() if message in ids}

    def equals(self, other: "Seen", ids: set[object]) -> bool:
        """Whether nobody could tell the two apart, the ids of messages that are new in both left aside."""
        same = (self.listing, self.folders, self.contents, self.indexed, self.attempts)
        return same == (other.listing, other.folders, other.contents, other.indexed, other.attempts) and self.kept(
            ids
        ) == other.kept(ids)


@dataclass(frozen=True)
class Moment:
    """One step of the story, made upstream. before: the mirror that has not seen it; after: what it comes to."""

    step: str
    before: Path
    ids: set[object]
    after: Seen

    def copy(self, to: Path) -> Path:
        """The mirror as it was before."""
        return Path(shutil.copytree(self.before, to))


def seen(mirror: Mirror) -> Seen:
    """What there is in a mirror; content that no message uses any more is swept first."""
    mirror.store.sweep(before=float("inf"))
    places = mirror.rows(
        "SELECT message.id, folder.name, message.uid FROM message JOIN folder ON folder.id = message.folder"
    )
    return Seen(
        mirror.listing(),
        mirror.folders(),
        mirror.rows("SELECT count(*), min(state), count(DISTINCT digest) FROM content"),
        indexed(mirror),
        mirror.rows("SELECT count(*) FROM attempt"),
        {message: tuple(place) for message, *place in places},
    )


def walk(account: Account, folder: Path, parsers: Parsers) -> Iterator[Moment]:
    """Each step in its turn; the mirror goes on undisturbed to the next."""
    before = folder / "before"
    Mirror(before, account.provider, parsers).close()
    for number, step in enumerate(STEPS):
        with account.client() as client:
            step(client, account.name)
        after = Path(shutil.copytree(before, folder / f"after{number}"))
        mirror = Mirror(after, account.provider, parsers)
        places = seen(mirror).places
        for _ in range(2):  # what is missing from LIST goes with the second pass
            assert mirror.sync().complete
        found = seen(mirror)
        mirror.close()
        with account.client() as client:
            assert found.listing == truth(client)
        yield Moment(step.__name__, before, set(places), found)
        shutil.rmtree(before)
        before = after
