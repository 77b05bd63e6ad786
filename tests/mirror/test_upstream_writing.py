"""Writes to real servers: each is proven, and none touches another message than the one named."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from config.provider import Provider
from mirror.errors import MessageChanged, UpstreamRefused
from mirror.listing import Place
from mirror.upstream import Upstream
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, agree, provider_at
from tests.servers.dovecot import Dovecot
from tests.servers.lying import LyingImap
from tests.servers.second_client import Incoming, SecondClient


class Box:
    """A mailbox of three messages and a folder Work, its mirror and another client."""

    def __init__(self, mirror: Mirror, client: SecondClient) -> None:
        self.mirror = mirror
        self.client = client
        client.append("INBOX", simple("one"), simple("two"), simple("three"))
        client.create("Work")
        mirror.sync()

    def place(self, subject: str) -> Place:
        """Where the mirror has a message."""
        place = self.mirror.store.place(self.mirror.ids()[f"{subject}@example.net"])
        assert place is not None
        return place

    def subjects(self, folder: str) -> list[str]:
        """Subjects upstream."""
        raws = [self.client.raw(folder, uid) for uid in self.client.uids(folder)]
        return [raw.split(b"Subject: ")[1].split(b"\r\n")[0].decode() for raw in raws]

    def folder(self, name: str) -> int:
        """The mirror's id of a folder."""
        return next(folder.id for folder in self.mirror.store.folders() if folder.name == name)


@pytest.fixture(params=["dovecot", "dovecot_plain_rung"])
def box(
    request: pytest.FixtureRequest, user: str, password_file: Path, make_mirror: Callable[[Provider], Mirror]
) -> Iterator[Box]:
    """A box on Dovecot with all it can and with IMAP4rev1 alone."""
    server: Dovecot = request.getfixturevalue(request.param)
    with server.client(user) as client:
        yield Box(make_mirror(provider_at(server.port, user, password_file)), client)


@dataclass(frozen=True, slots=True)
class Lied:
    """A server that can be made to lie, with two messages and an empty folder Work. place: where the second one is."""

    server: LyingImap
    mirror: Mirror
    place: Place


@pytest.fixture
def lied(
    request: pytest.FixtureRequest, password_file: Path, make_mirror: Callable[[Provider], Mirror]
) -> Iterator[Lied]:
    """It has IMAP4rev1 and the extensions of the parameter."""
    with LyingImap(capability=f"IMAP4rev1 AUTH=PLAIN {request.param}") as server:
        server.fill("INBOX", 1, 2)
        server.fill("Work")
        mirror = make_mirror(provider_at(server.port, "alice", password_file))
        mirror.sync()
        place = mirror.store.place(mirror.ids()["2@example.org"])
        assert place is not None
        yield Lied(server, mirror, place)


def test_moved_message_keeps_its_id(box: Box) -> None:
    before = box.mirror.ids()
    with box.mirror.connect() as upstream:
        arrived = upstream.move(box.place("two"), b"Work")
        has_uidplus = upstream.has("UIDPLUS")
    box.mirror.store.move(before["two@example.net"], box.folder("Work"), arrived.uidvalidity, arrived.uid)
    if has_uidplus:
        assert arrived.uid == 1
        assert box.mirror.ids() == before
        agree(box.mirror, box.client)
        assert box.mirror.ids() == before
        assert box.subjects("INBOX") == ["one", "three"]
    else:
        # Without UIDPLUS the original stays, marked \Deleted: EXPUNGE would take other clients' mail.
        assert box.subjects("INBOX") == ["one", "two", "three"]
        agree(box.mirror, box.client)
    assert box.subjects("Work") == ["two"]


def test_deletion_leaves_what_others_marked(box: Box) -> None:
    box.client.add_flags("INBOX", [1], "\\Deleted")
    with box.mirror.connect() as upstream:
        removed = upstream.remove(box.place("two"))
        assert removed.expunged == upstream.has("UIDPLUS")
    left = box.subjects("INBOX")
    assert left == (["one", "three"] if removed.expunged else ["one", "two", "three"])
    agree(box.mirror, box.client)


def test_appended_message_is_found(box: Box) -> None:
    raw = simple("mine", "Zeile\r\nmit {5}\r\n")
    with box.mirror.connect() as upstream:
        arrived = upstream.append(b"Work", raw, ["\\Seen"])
        assert arrived.uid in ((1,) if upstream.has("UIDPLUS") else (1, None))
        with pytest.raises(UpstreamRefused):
            upstream.append(b"Nowhere", raw)
        assert upstream.is_open
    assert box.client.raw("Work", 1) == raw
    agree(box.mirror, box.client)


def test_move_of_a_message_that_is_gone_is_no_success(box: Box) -> None:
    place = box.place("two")
    box.client.imap.select("INBOX")
    box.client.add_flags("INBOX", [place.uid], "\\Deleted")
    box.client.imap.expunge()
    with box.mirror.connect() as upstream:
        for write in (
            lambda: upstream.move(place, b"Work"),
            lambda: upstream.remove(place),
            lambda: upstream.store_flags(place, "add", ["\\Seen"]),
        ):
            with pytest.raises(MessageChanged):
                write()
    assert box.subjects("Work") == []


@pytest.mark.parametrize("attribute", ["uidvalidity", "size", "uid"])
def test_nothing_is_written_to_another_message(box: Box, attribute: str) -> None:
    place = box.place("one")
    wrong = replace(place, **{attribute: getattr(place, attribute) + 1})
    with box.mirror.connect() as upstream, pytest.raises(MessageChanged):
        upstream.remove(wrong)
    assert box.subjects("INBOX") == ["one", "two", "three"]


def test_repeated_copy_is_not_made_twice(
    dovecot_plain_rung: Dovecot, user: str, password_file: Path, make_mirror: Callable[[Provider], Mirror]
) -> None:
    with dovecot_plain_rung.client(user) as client:
        box = Box(make_mirror(provider_at(dovecot_plain_rung.port, user, password_file)), client)
        client.imap.select("INBOX")
        client.imap.uid("COPY", "2", "Work")
        with box.mirror.connect() as upstream:
            assert upstream.move(box.place("two"), b"Work", repeated=True).uid == 1
        assert box.subjects("Work") == ["two"]


def test_writes_that_go_through_us_are_not_undone_by_a_pass_that_began_before(box: Box) -> None:
    message = box.mirror.ids()["two@example.net"]
    place = box.place("two")
    real = box.mirror.connect
    written: list[bool] = []

    def connect() -> Upstream:
        upstream = real()
        enumerate_before = upstream.list_folders

        def list_folders() -> object:
            answer = enumerate_before()
            if not written:
                # Another client makes the folder worth opening; then we write, in the middle of the pass.
                written.append(True)
                with real() as writer:
                    now = writer.store_flags(place, "add", ["\\Flagged"])
                    box.mirror.store.set_flags(message, now.flags, now.modseq)
            return answer

        upstream.list_folders = list_folders  # type: ignore[method-assign, assignment]  # a write between two reads
        return upstream

    box.client.append("INBOX", simple("four"))
    box.mirror.sync(connect)
    assert "Flagged" in str(box.mirror.rows("SELECT flags FROM message WHERE id = ?", message))
    agree(box.mirror, box.client)


@pytest.mark.parametrize("lied", ["MOVE UIDPLUS"], indirect=True)
def test_copyuid_without_uids_is_a_move_that_a_sync_completes(lied: Lied) -> None:
    before = lied.mirror.ids()

    def moving(command: str, answer: bytes) -> bytes:
        if not command.startswith("UID MOVE"):
            return answer
        lied.server.folders["Work"].messages[9] = lied.server.folders["INBOX"].messages.pop(2)
        return b"* OK [COPYUID 14  ] moved\r\n* 2 EXPUNGE\r\nTAG OK done\r\n"

    lied.server.twist = moving
    with lied.mirror.connect() as upstream:
        arrived = upstream.move(lied.place, b"Work")
    assert arrived.uid is None
    folder = next(folder.id for folder in lied.mirror.store.folders() if folder.name == "Work")
    assert not lied.mirror.store.move(before["2@example.org"], folder, arrived.uidvalidity, arrived.uid)
    lied.mirror.sync()
    assert lied.mirror.ids() == before


@pytest.mark.parametrize("lied", ["MOVE"], indirect=True)
def test_move_that_the_server_only_says_it_made_is_refused(lied: Lied) -> None:
    lied.server.twist = lambda command, answer: b"TAG OK moved\r\n" if command.startswith("UID MOVE") else answer
    with lied.mirror.connect() as upstream, pytest.raises(UpstreamRefused):
        upstream.move(lied.place, b"Work")


def test_repeated_move_finds_what_the_earlier_try_has_moved(box: Box) -> None:
    place = box.place("two")
    with box.mirror.connect() as upstream:
        there = upstream.move(place, b"Work").uid
    if there is None or upstream.has("MOVE"):
        with box.mirror.connect() as upstream:
            with pytest.raises(MessageChanged):
                upstream.move(place, b"Work")
            assert upstream.move(place, b"Work", repeated=True).uid == 1
    assert box.subjects("Work") == ["two"]


def test_repeated_copy_takes_nothing_for_it_that_only_looks_like_it(
    dovecot_plain_rung: Dovecot, user: str, password_file: Path, make_mirror: Callable[[Provider], Mirror]
) -> None:
    with dovecot_plain_rung.client(user) as client:
        box = Box(make_mirror(provider_at(dovecot_plain_rung.port, user, password_file)), client)
        place = box.place("two")
        raw = client.raw("INBOX", place.uid)
        client.append("Work", Incoming(raw.replace(b"Subject: two", b"Subject: owt"), (), place.internaldate))
        with box.mirror.connect() as upstream:
            upstream.move(place, b"Work", repeated=True)
        assert box.subjects("Work") == ["owt", "two"]


@pytest.mark.parametrize("lied", [""], indirect=True)
def test_copy_that_the_server_only_says_it_made_leaves_the_original_unmarked(lied: Lied) -> None:
    stored: list[str] = []

    def lying(command: str, answer: bytes) -> bytes:
        if command.startswith("UID STORE"):
            stored.append(command)
        return b"TAG OK copied\r\n" if command.startswith("UID COPY") else answer

    lied.server.twist = lying
    with lied.mirror.connect() as upstream, pytest.raises(UpstreamRefused):
        upstream.move(lied.place, b"Work")
    assert stored == []


def test_message_id_is_found_where_it_is_and_nowhere_else(box: Box) -> None:
    with box.mirror.connect() as upstream:
        found = upstream.find_message_id(b"INBOX", "two@example.net")
        assert (found.uid if found else None) == 2
        for missing in ("wo@example.net", "two@example.ne", "four@example.net", 'x"y@example.net', "ä@example.net"):
            assert upstream.find_message_id(b"INBOX", missing) is None
        assert upstream.find_message_id(b"Work", "two@example.net") is None
        box.client.append("INBOX", *(simple(f"more{number}") for number in range(40)))
        assert upstream.find_message_id(b"INBOX", "two@example.net") == found


def test_message_id_is_found_among_the_newest_although_search_cannot_say(
    password_file: Path, make_mirror: Callable[[Provider], Mirror]
) -> None:
    with LyingImap(capability="IMAP4rev1 AUTH=PLAIN") as server:
        server.fill("INBOX", *range(1, 50))
        mirror = make_mirror(provider_at(server.port, "alice", password_file))
        server.twist = lambda command, answer: b"TAG BAD what\r\n" if command.startswith("UID SEARCH") else answer
        with mirror.connect() as upstream:
            found = upstream.find_message_id(b"INBOX", "49@example.org")
            assert found is not None
            assert found.uid == 49
            assert upstream.find_message_id(b"INBOX", "1@example.org") is None


def test_new_folder_is_listed_and_subscribed(box: Box) -> None:
    with box.mirror.connect() as upstream:
        listed = upstream.create_folder("Entwürfe & mehr")
        assert "Entwürfe & mehr" in [folder.name for folder in listed]
        with pytest.raises(UpstreamRefused):
            upstream.create_folder("Entwürfe & mehr")
        with pytest.raises(UpstreamRefused):
            upstream.create_folder("a\r\nb")
        assert upstream.is_open
    assert b"Entw&APw-rfe &- mehr" in box.client.imap.lsub()[1][-1]
