"""The sync algorithm against real servers: after every step the mirror equals a second client's plain listing."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.mail import generate
from config.provider import Provider, SyncRule
from mirror.errors import UpstreamUnavailable
from mirror.parsing import Parsers
from mirror.report import Progress
from mirror.sync import Pass
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, agree, indexed, provider_at, truth
from tests.servers.dovecot import Dovecot
from tests.servers.second_client import Incoming

MakeMirror = Callable[[Provider], Mirror]


def test_thousands_of_mixed_messages_and_a_busy_day(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    mails = list(generate(2_000, seed=11))
    with dovecot.client(user) as client:
        for start in range(0, 1_800, 200):
            client.append("INBOX", *mails[start : start + 200])
        client.create("Archive")
        client.append("Archive", *mails[1_800:1_950])
        agree(mirror, client)
        uids = client.uids("INBOX")
        client.append("INBOX", *mails[1_950:])
        client.imap.select("INBOX")
        client.expunge("INBOX", uids[100:120])
        client.add_flags("INBOX", uids[200:230], "\\Flagged")
        client.create("Neu & Schön")
        client.rename("Archive", "Archiv")
        agree(mirror, client)
        assert mirror.folders() >= {"INBOX", "Archiv", "Neu & Schön"}


def test_lower_uidvalidity_is_a_change_too_and_ids_survive(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.create("Work")
        client.append("Work", *[simple(f"kept {number}") for number in range(5)])
        mirror.sync()
        before = mirror.ids()
        _set_uidvalidity(dovecot, user, "Work", client.status("Work")["UIDVALIDITY"] - 1_000)
    with dovecot.client(user) as client:
        agree(mirror, client)
        assert {key: row for key, row in mirror.ids().items() if "kept" in key} == before


def test_folder_deleted_and_created_again_is_a_new_one(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.create("Work")
        client.append("Work", simple("old"), simple("older"))
        agree(mirror, client)
        client.delete("Work")
        client.create("Work")
        client.append("Work", simple("new"))
        agree(mirror, client)


def test_deleted_folder_goes_after_two_passes(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.create("Work")
        client.append("Work", simple("old"))
        mirror.sync()
        client.delete("Work")
        mirror.sync()
        assert "Work" not in mirror.folders()
        mirror.sync()
        assert mirror.rows("SELECT count(*) FROM folder WHERE name = 'Work'") == [(0,)]
        assert mirror.listing() == truth(client)


def test_moved_message_keeps_its_id_and_its_content(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.create("Zoo")
        client.append("INBOX", simple("wanderer"), simple("stays"))
        mirror.sync()
        before = mirror.ids()
        client.move("INBOX", [client.uids("INBOX")[0]], to="Zoo")
        agree(mirror, client)
        assert mirror.ids() == before
        assert mirror.rows("SELECT count(*) FROM content") == [(2,)]


def test_message_that_is_gone_is_found_no_more_and_leaves_the_index(
    dovecot_plain_rung: Dovecot, user: str, password_file: Path, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(provider_at(dovecot_plain_rung.port, user, password_file))
    with dovecot_plain_rung.client(user) as client:
        client.append("INBOX", simple("stays"), simple("secret", "Rendezvous at the harbour"))
        mirror.sync()
        assert indexed(mirror)["rendezvous"] == 1
        client.expunge("INBOX", client.uids("INBOX")[-1:])
        agree(mirror, client)
    mirror.store.sweep(before=float("inf"))
    assert "rendezvous" not in indexed(mirror)
    assert indexed(mirror)["stays"] == 1
    assert not mirror.rows("SELECT 1 FROM body WHERE text LIKE '%Rendezvous%'")


@pytest.mark.parametrize("server", ["dovecot", "dovecot_plain_rung"])
def test_expunge_that_a_reading_session_hears_of_is_not_lost(
    request: pytest.FixtureRequest, server: str, user: str, password_file: Path, make_mirror: MakeMirror
) -> None:
    dovecot: Dovecot = request.getfixturevalue(server)
    mirror = make_mirror(provider_at(dovecot.port, user, password_file))
    with dovecot.client(user) as client:
        client.append("INBOX", simple("read"), simple("gone"), simple("gone too"))
        mirror.sync()
        place = mirror.store.place(mirror.ids()["read@example.net"])
        assert place is not None
        uids = client.uids("INBOX")
        with mirror.connect() as reading:
            client.expunge("INBOX", uids[1:2])
            assert b"".join(reading.fetch_section(place, "TEXT")) == b"Hello\r\n"
            client.expunge("INBOX", uids[2:])
            assert b"".join(reading.fetch_section(place, "TEXT")) == b"Hello\r\n"
        agree(mirror, client)
        assert len(mirror.listing()) == 1


def test_copy_is_stored_once(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one mail"))
        for folder in ("Work", "All Mail"):
            client.create(folder)
            client.copy("INBOX", [1], to=folder)
        agree(mirror, client)
        assert {row[:2] for row in mirror.listing()} == {("INBOX", 1), ("Work", 1), ("All Mail", 1)}
        assert mirror.rows("SELECT count(*) FROM content") == [(1,)]


def test_flags_of_another_client_arrive_without_condstore(
    dovecot_plain_rung: Dovecot, user: str, password_file: Path, make_mirror: MakeMirror
) -> None:
    mirror = make_mirror(provider_at(dovecot_plain_rung.port, user, password_file))
    with dovecot_plain_rung.client(user) as client:
        client.append("INBOX", simple("a"), simple("b"))
        mirror.sync()
        client.imap.select("INBOX")
        client.add_flags("INBOX", [1], "\\Seen", "$Forwarded")
        agree(mirror, client)


def test_emptied_folder_is_confirmed_and_then_believed(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *[simple(f"m {number}") for number in range(3)])
        mirror.sync()
        client.imap.select("INBOX")
        client.expunge("INBOX", client.uids("INBOX"))
        connections = 0

        def connect() -> object:
            nonlocal connections
            connections += 1
            return mirror.connect()

        mirror.sync(connect)  # type: ignore[arg-type]  # another upstream in its place
        assert mirror.listing() == set()
        assert connections == 2


def test_pass_that_was_cut_is_resumed(mirror: Mirror, dovecot: Dovecot, user: str, parsers: Parsers) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *generate(400, seed=3))
        stop = threading.Event()
        cut = Pass(
            mirror.store, mirror.provider.sync, parsers, mirror.connect,
            stop=stop.is_set, notice=lambda _: stop.set(), batch=20,
        )  # fmt: skip
        cut.run()
        stored = mirror.rows("SELECT count(*) FROM content WHERE state >= 2")[0][0]
        assert isinstance(stored, int)
        assert 0 < stored < 400
        assert mirror.sync().work == 0
        agree(mirror, client)


def test_newest_texts_of_a_large_folder_are_searchable_before_the_next_folder_is_enumerated(
    mirror: Mirror, dovecot: Dovecot, user: str, parsers: Parsers
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", *(simple(f"number {number}", f"word{number}") for number in range(400)))
        client.create("Later")
        client.append("Later", simple("later"))
    found: list[set[int]] = []

    def notice(_: Progress) -> None:
        if not found:
            rows = mirror.rows(
                "SELECT uid FROM message JOIN folder ON folder.id = message.folder"
                " JOIN content ON content.id = message.content WHERE content.state >= 2 OR folder.name = 'Later'"
            )
            found.append({int(str(uid)) for (uid,) in rows})

    Pass(mirror.store, mirror.provider.sync, parsers, mirror.connect, notice=notice).run()
    assert found == [set(range(351, 401))]


def test_server_that_is_gone_is_unavailable(mirror: Mirror, dovecot: Dovecot) -> None:
    dovecot.stop()
    with pytest.raises(UpstreamUnavailable):
        mirror.sync()


def test_only_wanted_folders_are_mirrored_and_unwanted_ones_are_forgotten(
    mirror: Mirror, dovecot: Dovecot, user: str
) -> None:
    with dovecot.client(user) as client:
        client.create("Secret")
        client.append("Secret", simple("hidden"))
        client.append("INBOX", simple("shown"))
        mirror.sync()
        mirror.sync(rule=SyncRule(folders=("*",), exclude=("Secret",)))
        assert {folder for folder, *_ in mirror.listing()} == {"INBOX"}
        mirror.store.sweep(before=float("inf"))
        assert mirror.rows("SELECT count(*) FROM content") == [(1,)]


def test_messages_before_the_start_are_known_but_not_fetched(mirror: Mirror, dovecot: Dovecot, user: str) -> None:
    old = Incoming(simple("old"), internaldate=datetime(2019, 1, 1, tzinfo=UTC))
    with dovecot.client(user) as client:
        client.append("INBOX", old, simple("new"))
        report = mirror.sync(rule=SyncRule.model_validate({"since": "2024-01-01"}))
        assert report.complete
        assert mirror.rows("SELECT state FROM content ORDER BY id") == [(0,), (3,)]


def _set_uidvalidity(dovecot: Dovecot, user: str, folder: str, uidvalidity: int) -> None:
    """Give a folder another UIDVALIDITY, as a restored backup has."""
    dovecot.stop()
    path = dovecot.folder / "home" / user / "mail" / folder
    listing = path / "dovecot-uidlist"
    lines = listing.read_text("utf-8").splitlines(keepends=True)
    words = [f"V{uidvalidity}" if word.startswith("V") else word for word in lines[0].split(" ")]
    listing.write_text("".join([" ".join(words), *lines[1:]]), "utf-8")
    for index in path.glob("dovecot.index*"):
        index.unlink()
    dovecot.start()
