"""Servers that lie, stutter or contradict themselves: the mirror believes nothing of it and loses nothing."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.provider import Provider
from mirror.errors import (
    AuthenticationRefused,
    ParserBroken,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamThrottled,
    UpstreamUnavailable,
)
from mirror.parsing import Parsers
from mirror.query.reader import Reader
from mirror.sync import RESETS_AT_MOST
from mirror.upstream import Upstream
from tests.mirror.mailbox import Mirror, provider_at
from tests.servers.certificates import Certificates
from tests.servers.lying import Folder, LyingImap, Message, _fetched, inserted, mail, replaced
from tests.servers.ports import PASSWORD

EXTENDED = "IMAP4rev1 AUTH=PLAIN ENABLE CONDSTORE QRESYNC UIDPLUS"
ENABLED = b"* ENABLED QRESYNC\r\nTAG OK done\r\n"


class Liar:
    """A lying server and the mirror of it."""

    def __init__(self, server: LyingImap, mirror: Mirror) -> None:
        self.server = server
        self.mirror = mirror

    def counts_modseq(self, highest: int) -> Folder:
        """INBOX, which says from now on that this is its highest MODSEQ."""
        inbox = self.server.folders["INBOX"]
        inbox.more, inbox.status = f"* OK [HIGHESTMODSEQ {highest}] ok\r\n", f" HIGHESTMODSEQ {highest}"
        return inbox

    def uids(self, folder: str = "INBOX") -> list[int]:
        """The uids that the mirror has."""
        return [uid for name, uid, *_ in sorted(self.mirror.listing(), key=lambda row: row[1]) if name == folder]

    def flags(self) -> dict[int, set[str]]:
        """Flags by uid."""
        return {uid: set(flags) for _, uid, flags, _ in self.mirror.listing()}

    def subjects(self) -> dict[int, object]:
        """Subject by uid."""
        found = self.mirror.rows(
            "SELECT message.uid, content.subject FROM message JOIN content ON content.id = message.content"
            " WHERE content.state >= 2"
        )
        return {int(str(uid)): subject for uid, subject in found}


MakeLiar = Callable[..., Liar]


@pytest.fixture
def liar(password_file: Path, make_mirror: Callable[[Provider], Mirror]) -> Iterator[MakeLiar]:
    """Makes lying servers, each with a mirror."""
    servers: list[LyingImap] = []

    def make(*numbers: int, capability: str = "IMAP4rev1 AUTH=PLAIN") -> Liar:
        server = LyingImap(capability=capability)
        server.fill("INBOX", *numbers)
        server.__enter__()
        servers.append(server)
        return Liar(server, make_mirror(provider_at(server.port, "alice", password_file)))

    yield make
    for server in servers:
        server.__exit__(None, None, None)


def test_vanished_within_the_answer_to_a_body_is_taken_at_its_word(liar: MakeLiar) -> None:
    one = liar(*range(1, 9), capability=EXTENDED)
    inbox = one.counts_modseq(50)

    def twist(command: str, answer: bytes) -> bytes:
        if command == "ENABLE QRESYNC":
            return ENABLED
        if "BODY.PEEK[]" in command and 7 in inbox.messages:
            del inbox.messages[7]
            return b"* VANISHED 7\r\n" + answer
        return answer

    one.server.twist = twist
    one.mirror.sync()
    assert one.uids() == [1, 2, 3, 4, 5, 6, 8]


def test_vanished_that_only_a_reading_session_is_told_is_found_by_the_next_pass(liar: MakeLiar) -> None:
    one = liar(*range(1, 9), capability=EXTENDED)
    inbox = one.counts_modseq(50)
    one.server.twist = enabled = replaced("ENABLE", ENABLED)
    one.mirror.sync()
    place = one.mirror.store.place(one.mirror.ids()["3@example.org"])
    assert place is not None
    del inbox.messages[7]
    told = inserted("EXAMINE", b"* VANISHED 7\r\n")
    one.server.twist = lambda command, answer: told(command, enabled(command, answer))
    with one.mirror.connect() as reading:
        assert b"".join(reading.fetch_section(place, ""))
    one.mirror.sync()
    assert one.uids() == [1, 2, 3, 4, 5, 6, 8]


def test_vanished_of_a_huge_range_costs_only_what_the_mirror_has(liar: MakeLiar) -> None:
    one = liar(*range(1, 30), capability=EXTENDED)
    inbox = one.counts_modseq(50)
    one.server.twist = enabled = replaced("ENABLE", ENABLED)
    one.mirror.sync()
    del inbox.messages[3]
    one.counts_modseq(51)
    earlier = inserted("EXAMINE.*QRESYNC", b"* VANISHED (EARLIER) 3,30:4294967295\r\n")
    one.server.twist = lambda command, answer: earlier(command, enabled(command, answer))
    report = one.mirror.sync()
    assert report.work == 1
    assert 3 not in one.uids()
    assert not one.server.asked("UID SEARCH")[1:]


def test_server_that_breaks_qresync_is_asked_without_it_from_then_on(liar: MakeLiar) -> None:
    one = liar(*range(1, 9), capability=EXTENDED)
    inbox = one.counts_modseq(50)
    one.server.twist = replaced("ENABLE", ENABLED)
    one.mirror.sync()
    del inbox.messages[4]
    one.counts_modseq(51)
    one.mirror.sync()
    assert one.uids() == [1, 2, 3, 5, 6, 7, 8]
    assert "QRESYNC" in one.mirror.store.distrusted()


def test_flags_without_a_uid_are_of_no_message(liar: MakeLiar) -> None:
    one = liar(5, 6)
    one.server.twist = inserted("UID FETCH", b"* 5 FETCH (FLAGS (\\Seen))\r\n", times=9)
    one.mirror.sync()
    assert one.flags() == {5: set(), 6: set()}


def test_last_message_is_not_new_again(liar: MakeLiar) -> None:
    one = liar(1619)
    one.mirror.sync()
    one.server.folders["INBOX"].uidnext = 1625
    assert one.mirror.sync().work == 0
    one.server.fill("INBOX", 1626)
    one.server.folders["INBOX"].uidnext = 1627
    assert one.mirror.sync().work == 1
    assert one.uids() == [1619, 1626]


def test_sets_go_out_ascending_and_short(liar: MakeLiar) -> None:
    one = liar(*range(1, 4_001, 3))
    one.mirror.sync()
    assert len(one.uids()) == 1_334
    for command in one.server.asked("^UID FETCH"):
        uids = [int(word) for word in re.findall(r"\d+", command.split()[2])]
        assert uids == sorted(uids)
        assert len(command) < 9_000


def test_another_message_under_the_same_uid_is_fetched_anew(liar: MakeLiar) -> None:
    one = liar(1, 2, 3)
    one.mirror.sync()
    one.server.folders["INBOX"].messages[2] = Message(mail(77, "quite another text"), minutes=2)
    one.mirror.sync()
    assert one.subjects() == {1: "mail 1", 2: "mail 77", 3: "mail 3"}


def test_size_that_the_server_corrects_is_no_other_message(liar: MakeLiar) -> None:
    one = liar(1, 2)
    one.mirror.sync()
    ids = one.mirror.ids()
    one.server.twist = lambda command, answer: answer.replace(b"RFC822.SIZE ", b"RFC822.SIZE 1")
    one.mirror.sync()
    assert one.mirror.ids() == ids
    assert len(one.server.asked(r"BODY\.PEEK\[\]")) == 1


def test_lower_uidnext_is_a_restored_mailbox(liar: MakeLiar) -> None:
    one = liar(*range(1, 9))
    one.mirror.sync()
    kept = {key: row for key, row in one.mirror.ids().items() if key != "3@example.org"}
    shifted = {1: 1, 2: 2, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8}
    one.server.folders["INBOX"].messages = {
        uid: Message(mail(number), minutes=number) for uid, number in shifted.items()
    }
    one.mirror.sync()
    assert one.subjects()[3] == "mail 4"
    assert one.mirror.ids() == kept


def test_mailbox_that_looks_empty_for_a_moment_loses_nothing(liar: MakeLiar) -> None:
    one = liar(*range(1, 6))
    one.mirror.sync()
    empty = b"* 0 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 6] ok\r\nTAG OK done\r\n"
    blip = replaced("EXAMINE", empty, times=1)
    silence = replaced("UID SEARCH", b"* SEARCH\r\nTAG OK done\r\n", times=1)
    one.server.twist = lambda command, answer: silence(command, blip(command, answer))
    one.mirror.sync()
    assert one.uids() == [1, 2, 3, 4, 5]


def test_search_that_leaves_messages_out_deletes_none(liar: MakeLiar) -> None:
    one = liar(*range(1, 61))
    one.mirror.sync()
    one.server.fill("INBOX", 61)
    one.server.twist = replaced("UID SEARCH", b"* SEARCH 1 2 3\r\nTAG OK done\r\n")
    fetched = replaced(r"UID FETCH \d+:\*", b"TAG OK done\r\n")
    lying = one.server.twist
    one.server.twist = lambda command, answer: fetched(command, lying(command, answer))
    report = one.mirror.sync()
    assert not report.complete
    assert one.uids() == list(range(1, 61))


def test_connection_that_ends_within_the_enumeration_loses_nothing(liar: MakeLiar) -> None:
    one = liar(*range(1, 6))
    one.mirror.sync()
    one.server.fill("INBOX", 6)
    one.server.twist = lambda command, answer: None if command.startswith("UID FETCH") else answer
    with pytest.raises(UpstreamUnavailable):
        one.mirror.sync()
    assert one.uids() == [1, 2, 3, 4, 5]
    one.server.twist = lambda _, answer: answer
    one.mirror.sync()
    assert one.uids() == [1, 2, 3, 4, 5, 6]


def test_mail_between_status_and_search_is_neither_lost_nor_corruption(liar: MakeLiar) -> None:
    one = liar(1, 2)

    def arrive(command: str, answer: bytes) -> bytes:
        if command.startswith("UID SEARCH") and 3 not in one.server.folders["INBOX"].messages:
            one.server.fill("INBOX", 3)
            return b"* SEARCH 1 2 3\r\n* 3 EXISTS\r\nTAG OK done\r\n"
        return answer

    one.server.twist = arrive
    assert one.mirror.sync().complete
    assert one.uids() == [1, 2, 3]


def test_expunge_after_exists_in_one_answer_is_counted(liar: MakeLiar) -> None:
    one = liar(1, 2, 3)
    one.mirror.sync()
    one.server.fill("INBOX", 4)
    del one.server.folders["INBOX"].messages[1]
    one.server.twist = inserted(r"UID FETCH 4:\*", b"* 5 EXISTS\r\n* 2 EXPUNGE\r\n* 1 EXPUNGE\r\n")
    assert one.mirror.sync().complete
    assert one.uids() == [2, 3, 4]


def test_folder_that_cannot_be_opened_is_the_only_one_marked(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("Parent", 1)
    one.server.fill("Parent/Child", 2)
    one.server.twist = replaced('(EXAMINE|STATUS) "Parent" ?', b"TAG NO [NOPERM] not for you\r\n")
    report = one.mirror.sync()
    assert {folder.name for folder in report.folders.values() if folder.error} == {"Parent"}
    assert one.uids("Parent/Child") == [2]
    assert "not for you" in str(one.mirror.rows("SELECT error FROM folder WHERE name = 'Parent'"))


def test_folder_that_was_never_open_is_closed_and_no_fault_of_the_account(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("Parent", 1)
    one.server.twist = replaced('(EXAMINE|STATUS) "Parent" ?', b"TAG NO [NOPERM] not for you\r\n")
    assert one.mirror.sync().complete
    assert one.mirror.sync().complete
    assert len(one.server.asked('EXAMINE "Parent"')) == 1
    with Reader(one.mirror.store.path) as reader:
        states = {folder.name: folder for folder in reader.folders()}
    assert states["INBOX"].complete
    assert states["Parent"].is_closed
    assert "not for you" in states["Parent"].error
    one.server.twist = lambda _, answer: answer
    one.mirror.store._connection.execute("UPDATE folder SET closed_until = 1 WHERE closed_until > 0")
    one.mirror.sync()
    assert one.uids("Parent") == [1]
    with Reader(one.mirror.store.path) as reader:
        assert not any(folder.is_closed or folder.error for folder in reader.folders())


@pytest.mark.parametrize("said", [b"[INUSE] locked", b"[SERVERBUG] oops", b"Temporary failure"])
def test_folder_that_cannot_be_opened_just_now_is_a_fault(liar: MakeLiar, said: bytes) -> None:
    one = liar(1)
    one.server.fill("Other", 1)
    one.server.twist = replaced('EXAMINE "Other"', b"TAG NO " + said + b"\r\n", times=1)
    assert not one.mirror.sync().complete
    assert one.mirror.sync().complete


def test_folder_that_was_open_before_and_is_refused_now_is_a_fault_for_a_day(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("Other", 1)
    one.mirror.sync()
    one.server.fill("Other", 2)
    one.server.twist = replaced('EXAMINE "Other"', b"TAG NO [NOPERM] not any more\r\n")
    assert not one.mirror.sync().complete
    one.mirror.store._connection.execute("UPDATE folder SET as_of = as_of - 90000")
    assert one.mirror.sync().complete
    assert one.uids("Other") == [1]


def test_folder_whose_uidvalidity_never_stays_is_looked_at_less_often(liar: MakeLiar) -> None:
    one = liar(1, 2, 3)
    one.server.fill("Other", 5)
    inbox = one.server.folders["INBOX"]
    one.mirror.sync()
    for _ in range(RESETS_AT_MOST):
        inbox.uidvalidity += 1
        assert one.mirror.sync().complete
    inbox.uidvalidity += 1
    report = one.mirror.sync()
    assert not report.complete
    assert "UIDVALIDITY" in str(one.mirror.rows("SELECT error FROM folder WHERE name = 'INBOX'"))
    opened = len(one.server.asked('EXAMINE "INBOX"'))
    for _ in range(3):
        inbox.uidvalidity += 1
        one.server.fill("Other", 6)
        assert not one.mirror.sync().complete
    assert len(one.server.asked('EXAMINE "INBOX"')) == opened
    assert one.uids("Other") == [5, 6]
    # It is opened again after a while, and forgiven once a pass finds it unchanged.
    one.mirror.store._connection.execute("UPDATE folder SET reset_at = reset_at - 4000")
    one.mirror.sync()
    assert one.mirror.sync().complete
    assert one.mirror.rows("SELECT resets FROM folder WHERE name = 'INBOX'") == [(0,)]
    assert one.uids() == [1, 2, 3]


def test_folder_that_fails_while_mail_is_fetched_does_not_stop_the_others(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("Bad", *range(1, 9))
    one.server.fill("Good", 2)
    opened: list[str] = []

    def twist(command: str, answer: bytes) -> bytes:
        opened.append(command) if command.startswith("EXAMINE") else None
        return b"TAG OK nothing\r\n" if "BODY.PEEK[]" in command and opened[-1] == 'EXAMINE "Bad"' else answer

    one.server.twist = twist
    report = one.mirror.sync()
    assert {folder.name for folder in report.folders.values() if folder.error} == {"Bad"}
    assert one.uids("Good") == [2]
    # Nothing was put off: the fault was the server's, not the messages'.
    assert one.mirror.rows("SELECT count(*) FROM attempt WHERE next_try > 0") == [(0,)]
    one.server.twist = lambda _, answer: answer
    one.mirror.sync()
    assert len(one.uids("Bad")) == 8


def test_status_that_is_refused_for_one_folder_does_not_cost_the_others(liar: MakeLiar) -> None:
    one = liar(1)
    for name in ("A", "B", "C"):
        one.server.fill(name, 2)
    one.server.twist = replaced('STATUS "B"', b"TAG BAD what?\r\n")
    assert one.mirror.sync().complete
    assert one.uids("B") == [2]
    assert one.uids("C") == [2]


def test_message_that_never_comes_holds_up_nothing_else(liar: MakeLiar) -> None:
    one = liar(*range(1, 21))

    def without_7(command: str, answer: bytes) -> bytes:
        if "BODY.PEEK[]" not in command:
            return answer
        return b"".join(re.split(rb"(?=\* \d+ FETCH |TAG )", answer)).replace(
            re.findall(rb"\* 7 FETCH .*?\r\n\)\r\n", answer, re.DOTALL)[0] if b"* 7 FETCH" in answer else b"\0", b""
        )

    one.server.twist = without_7
    for _ in range(3):
        one.mirror.sync()
    assert sorted(one.subjects()) == [uid for uid in range(1, 21) if uid != 7]
    assert one.mirror.rows("SELECT failures, next_try > 0 FROM attempt") == [(3, 1)]
    asked = len(one.server.commands)
    one.mirror.sync()
    assert not any("BODY.PEEK[]" in command for command in one.server.commands[asked:])


def test_next_batch_is_asked_for_before_the_one_at_hand_is_stored(liar: MakeLiar) -> None:
    one = liar(*range(1, 31))
    stored: list[object] = []

    def twist(command: str, answer: bytes) -> bytes:
        if "BODY.PEEK[]" in command:
            stored.append(one.mirror.rows("SELECT count(*) FROM message WHERE state >= 2")[0][0])
        return answer

    one.server.twist = twist
    one.mirror.sync(batch=5)
    assert stored[:3] == [0, 0, 0]
    assert len(one.subjects()) == 30


def test_messages_that_come_with_the_answer_to_another_fetch_are_taken(liar: MakeLiar) -> None:
    one = liar(*range(1, 16))
    first: list[bytes] = []

    def twist(command: str, answer: bytes) -> bytes:
        if "BODY.PEEK[]" in command and len(first) < 2:
            first.append(answer)
            # What the second asks for comes with the answer to the first.
            newest = b"".join(_fetched(uid, one.server.folders["INBOX"].messages[uid], "BODY.PEEK[]") for uid in (5, 4))
            return newest + answer if len(first) == 1 else b"TAG OK nothing more\r\n"
        return answer

    one.server.twist = twist
    one.mirror.sync(batch=10)
    assert len(one.subjects()) == 15
    assert [command.split()[2] for command in one.server.asked("^UID FETCH .*PEEK")][2:] == ["3", "2", "1"]


def test_keyword_that_looks_like_a_number_is_text(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.folders["INBOX"].messages[1].flags = "\\Seen 12 a]b"
    one.mirror.sync()
    assert one.flags() == {1: {"\\Seen", "12", "a]b"}}


@pytest.mark.parametrize("raw", ["Entw&APw-rfe", "Ger&AOQ-te &- mehr"])
def test_encoded_folder_names_are_read_and_open_their_folders(liar: MakeLiar, raw: str) -> None:
    one = liar(1)
    one.server.fill(raw, 2)
    one.mirror.sync()
    assert one.mirror.folders() == {"INBOX", {"Entw&APw-rfe": "Entwürfe"}.get(raw, "Geräte & mehr")}
    assert one.server.asked(re.escape(f'EXAMINE "{raw}"'))


@pytest.mark.parametrize("raw", ["AT&T", "&AP", "a&b&c", "&Jjo!", "caf\xe9".encode("latin-1").decode("latin-1")])
def test_wrongly_encoded_folder_names_are_readable_and_open_their_folders(liar: MakeLiar, raw: str) -> None:
    one = liar(1)
    one.server.fill("Other", 3)
    one.server.fill(raw, 2)
    assert one.mirror.sync().complete
    [shown] = one.mirror.folders() - {"INBOX", "Other"}
    assert one.uids(shown) == [2]


def test_folder_names_of_every_shape_are_exact(liar: MakeLiar) -> None:
    one = liar(1)
    names = [b'"." "a b"', b'NIL "q\\"uo\\\\te"', b'"/" {7}\r\nlit{er}', b'"/" "tab\tname"', b"NIL atom.name"]
    listed = b"".join(b"* LIST () " + name + b"\r\n" for name in names)
    one.server.twist = inserted("LIST", listed, times=9)
    one.mirror.sync()
    raws = {raw for (raw,) in one.mirror.rows("SELECT raw FROM folder")}
    assert raws == {b"INBOX", b"a b", b'q"uo\\te', b"lit{er}", b"tab\tname", b"atom.name"}
    assert one.uids() == [1]


def test_two_folders_of_one_shown_name_stay_two(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("&AOQ-", 2)
    one.server.fill("ä", 3)
    one.mirror.sync()
    assert one.mirror.folders() == {"INBOX", "ä", "ä'"}
    assert len(one.mirror.listing()) == 3


def test_rename_onto_a_name_that_was_another_folder(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("A", 2, 3)
    one.server.fill("B", 5)
    one.server.folders["A"].uidvalidity = 11
    one.mirror.sync()
    ids = one.mirror.ids()
    one.server.folders["B"] = one.server.folders.pop("A")
    one.mirror.sync()
    assert {key: row for key, row in one.mirror.ids().items() if key in ("2@example.org", "3@example.org")} == {
        key: ids[key] for key in ("2@example.org", "3@example.org")
    }
    assert one.uids("B") == [2, 3]


def test_two_folders_that_change_names_keep_their_messages(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("A", 2, 3)
    one.server.fill("B", 5)
    one.server.folders["A"].uidvalidity = 11
    one.mirror.sync()
    ids = one.mirror.ids()
    folders = one.server.folders
    folders["A"], folders["B"] = folders["B"], folders["A"]
    one.mirror.sync()
    assert one.mirror.ids() == ids
    assert (one.uids("A"), one.uids("B")) == ([5], [2, 3])


def test_rename_that_is_none_is_found_out(liar: MakeLiar) -> None:
    """Where all folders count alike, one that goes and one that comes may look the same."""
    one = liar(1)
    one.server.folders["Old"] = Folder({1: Message(mail(11), minutes=11)})
    one.mirror.sync()
    del one.server.folders["Old"]
    one.server.folders["New"] = Folder({1: Message(mail(12), minutes=12)})
    one.mirror.sync()
    assert one.uids("New") == [1]
    assert set(one.mirror.ids()) == {"1@example.org", "12@example.org"}


def test_folder_ids_that_cannot_be_any_rename_nothing(liar: MakeLiar) -> None:
    """Cyrus 3.6 answers STATUS with memory it never wrote: the same for two folders, or another each time."""
    one = liar(1, capability="IMAP4rev1 AUTH=PLAIN OBJECTID")
    for number, name in enumerate(("A", "B"), 2):
        one.server.fill(name, number)
        one.server.folders[name].status = " MAILBOXID (~\x01)"
    one.mirror.sync()
    ids = one.mirror.ids()
    assert one.mirror.sync().work == 0
    assert (one.uids("A"), one.uids("B")) == ([2], [3])
    assert one.mirror.ids() == ids


def test_list_that_lacks_a_folder_once_is_asked_again(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("Work", 2)
    one.mirror.sync()
    short = b'* LIST () "/" "INBOX"\r\nTAG OK done\r\n'
    one.server.twist = replaced("LIST", short, times=1)
    one.mirror.sync()
    one.server.twist = lambda _, answer: answer
    one.mirror.sync()
    assert one.uids("Work") == [2]


def test_list_without_inbox_is_not_believed(liar: MakeLiar) -> None:
    one = liar(1)
    one.server.fill("Work", 2)
    one.mirror.sync()
    one.server.twist = replaced("LIST", b'* LIST () "/" "Work"\r\nTAG OK done\r\n')
    with pytest.raises(UpstreamBroken):
        one.mirror.sync()
    assert one.uids() == [1]


def test_numbers_beyond_all_measure_do_not_stop_the_account(liar: MakeLiar) -> None:
    one = liar(1, 2)
    huge = b"9" * 40
    one.server.twist = inserted("UID FETCH", b"* 1 FETCH (UID %s FLAGS () RFC822.SIZE %s)\r\n" % (huge, huge), times=9)
    one.server.folders["INBOX"].more = f"* OK [HIGHESTMODSEQ {'9' * 30}] ok\r\n"
    one.mirror.sync()
    assert one.uids() == [1, 2]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(b"NO [THROTTLED] later", 900), (b"NO Request is throttled. Suggested Backoff Time: 92415 milliseconds", 92.415)],
)
def test_throttling_server_is_left_alone_as_long_as_it_says(liar: MakeLiar, said: bytes, seconds: float) -> None:
    one = liar(1)
    one.server.twist = replaced("UID FETCH", b"TAG " + said + b"\r\n")
    with pytest.raises(UpstreamThrottled) as caught:
        one.mirror.sync()
    assert caught.value.seconds == pytest.approx(seconds)


def test_password_with_other_letters_logs_in(liar: MakeLiar, password_file: Path) -> None:
    one = liar(1)
    password_file.write_text("pä€\n", "utf-8")
    one.mirror.sync()
    assert one.uids() == [1]


def test_password_that_login_cannot_carry_is_said_so(liar: MakeLiar, password_file: Path) -> None:
    one = liar(1, capability="IMAP4rev1")
    password_file.write_text("pä€\n", "utf-8")
    with pytest.raises(AuthenticationRefused, match="non-ASCII"):
        one.mirror.sync()
    assert not one.server.asked("LOGIN|pä")


def test_login_that_is_disabled_gets_no_credentials(liar: MakeLiar) -> None:
    one = liar(1, capability="IMAP4rev1 LOGINDISABLED")
    with pytest.raises(AuthenticationRefused, match="LOGINDISABLED"):
        one.mirror.sync()
    assert not any(PASSWORD in command for command in one.server.commands)


@pytest.mark.parametrize("said", [b"BAD User is authenticated but not connected.", b"NO [UNAVAILABLE] try again later"])
def test_login_that_fails_for_the_servers_own_reasons_is_no_wrong_password(liar: MakeLiar, said: bytes) -> None:
    one = liar(1)
    one.server.twist = replaced("AUTHENTICATE", b"TAG " + said + b"\r\n")
    with pytest.raises(UpstreamUnavailable):
        one.mirror.sync()


def test_id_comes_before_any_folder_where_the_server_wants_one(liar: MakeLiar) -> None:
    one = liar(1, capability="IMAP4rev1 AUTH=PLAIN ID")
    one.mirror.sync()
    verbs = [command.split()[0] for command in one.server.commands]
    assert verbs.index("ID") < verbs.index("LIST")


def test_esearch_without_a_result_is_never_an_empty_mailbox(liar: MakeLiar) -> None:
    one = liar(1, 2, 3, capability="IMAP4rev1 AUTH=PLAIN ESEARCH")
    one.server.twist = replaced("UID SEARCH RETURN", b'* ESEARCH (TAG "TAG") UID COUNT 3\r\nTAG OK done\r\n')
    one.mirror.sync()
    assert one.uids() == [1, 2, 3]
    assert "ESEARCH" in one.mirror.store.distrusted()


def test_copy_known_by_gmail_is_not_fetched_twice(liar: MakeLiar) -> None:
    one = liar(capability="IMAP4rev1 AUTH=PLAIN X-GM-EXT-1")
    for name in ("INBOX", "[Gmail]/All Mail"):
        one.server.folders[name] = Folder({5: Message(mail(5), minutes=5, more=" X-GM-MSGID 1278455344230334865")})
    one.mirror.sync()
    one.server.folders["Work"] = Folder({9: Message(mail(5), minutes=5, more=" X-GM-MSGID 1278455344230334865")})
    fetched = len(one.server.asked(r"BODY\.PEEK\[\]"))
    one.mirror.sync()
    assert fetched == len(one.server.asked(r"BODY\.PEEK\[\]")) == 1
    assert len(one.mirror.listing()) == 3
    assert one.mirror.rows("SELECT count(*) FROM content") == [(1,)]


def test_capability_that_is_switched_off_is_not_used(
    liar: MakeLiar, password_file: Path, make_mirror: Callable[[Provider], Mirror]
) -> None:
    one = liar(1, capability="IMAP4rev1 AUTH=PLAIN ESEARCH")
    provider = provider_at(one.server.port, "alice", password_file)
    endpoint = provider.imap.model_copy(update={"disable": ("esearch",)})
    make_mirror(provider.model_copy(update={"imap": endpoint})).sync()
    assert not one.server.asked("RETURN")


def test_event_in_the_segment_that_starts_idle_is_heard(liar: MakeLiar) -> None:
    one = liar(1, capability="IMAP4rev1 AUTH=PLAIN IDLE")
    one.server.twist = replaced("IDLE", b"+ idling\r\n* 2 EXISTS\r\n")
    done = replaced("DONE", b"TAG OK done\r\n")
    idling = one.server.twist
    tags: list[bytes] = []

    def twist(command: str, answer: bytes) -> bytes:
        return done(command, idling(command, answer)).replace(
            b"TAG", tags[-1] if tags and command == "DONE" else b"TAG"
        )

    one.server.twist = twist
    with one.mirror.connect(read_timeout=5) as upstream:
        upstream.examine(b"INBOX")
        send = upstream._imap._command

        def command(name: str, *arguments: bytes) -> bytes:
            tags.append(send(name, *arguments))
            return tags[-1]

        upstream._imap._command = command
        began = time.monotonic()
        assert upstream.idle(20, lambda: None)
        assert time.monotonic() - began < 5


def test_idle_that_ends_before_it_began_is_an_error_and_no_busy_loop(liar: MakeLiar) -> None:
    one = liar(1, capability="IMAP4rev1 AUTH=PLAIN IDLE")
    one.server.twist = replaced("IDLE", b"TAG OK that was it\r\n")
    with one.mirror.connect() as upstream:
        upstream.examine(b"INBOX")
        with pytest.raises(UpstreamRefused):
            upstream.idle(20, lambda: None)


def test_parser_that_cannot_be_started_is_one_clear_error_and_puts_no_message_off(
    liar: MakeLiar, monkeypatch: pytest.MonkeyPatch, parsers: Parsers
) -> None:
    one = liar(*range(1, 9))
    with monkeypatch.context() as patched, Parsers(2) as unable:
        patched.setattr("mirror.parsing.sys.executable", "/nowhere/python")
        one.mirror.parsers = unable
        for _ in range(5):
            with pytest.raises(ParserBroken, match="no parsing process can be started"):
                one.mirror.sync()
    assert one.mirror.rows("SELECT count(*) FROM attempt WHERE crashes OR failures OR running = 5") == [(0,)]
    one.mirror.parsers = parsers
    assert one.mirror.sync().complete
    assert len(one.subjects()) == 8


def test_parser_that_fails_on_everything_puts_no_message_off(
    liar: MakeLiar, make_mirror: Callable[[Provider], Mirror]
) -> None:
    one = liar(*range(1, 9))
    with Parsers(1, module="tests.mirror.no_parser") as broken:
        one.mirror.parsers = broken
        with pytest.raises(ParserBroken):
            one.mirror.sync()
    assert one.mirror.rows("SELECT count(*) FROM attempt WHERE next_try > 0 OR crashes > 0") == [(0,)]


def test_bytes_in_clear_after_starttls_are_never_used(
    password_file: Path, make_mirror: Callable[[Provider], Mirror], certificates: Certificates
) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"* OK [CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN] ready\r\n")
                while line := connection.recv(4_096):
                    heard.append(line)
                    tag = line.split()[0]
                    if b"CAPABILITY" in line:
                        connection.sendall(b"* CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN\r\n" + tag + b" OK done\r\n")
                    elif b"STARTTLS" in line:
                        injected = b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n* PREAUTH welcome\r\n"
                        connection.sendall(tag + b" OK begin\r\n" + injected)

        threading.Thread(target=serve, daemon=True).start()
        provider = provider_at(listener.getsockname()[1], "alice", password_file)
        starttls = {"security": "starttls", "ca_file": certificates.ca_file}
        provider = provider.model_copy(update={"imap": provider.imap.model_copy(update=starttls)})
        with pytest.raises(UpstreamUnavailable):
            Upstream.connect(provider, read_timeout=2)
    assert not any(b"AUTHENTICATE" in line or b"LOGIN" in line for line in heard)
