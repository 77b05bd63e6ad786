"""Mailboxes beyond what people have: the mail of the stress cases is what it says, and Dovecot shows it as such."""

from datetime import UTC, datetime
from email import message_from_bytes

from bench.maildir import write_folder
from bench.stress_mails import chain, large, small
from tests.servers.dovecot import Dovecot


def test_small_messages_differ_and_follow_one_another() -> None:
    mails = list(small(300))
    assert len({raw for raw, _ in mails}) == 300
    assert 400 < sum(len(raw) for raw, _ in mails) / 300 < 800
    assert [moment for _, moment in mails] == sorted(moment for _, moment in mails)
    assert mails == list(small(300))
    assert {raw for raw, _ in mails}.isdisjoint(raw for raw, _ in small(300, seed=1))


def test_conversation_is_one_and_its_last_message_names_all_others() -> None:
    mails = [message_from_bytes(raw) for raw, _ in chain(50)]
    ids = [mail["Message-ID"] for mail in mails]
    assert len(set(ids)) == 50
    assert [mail["In-Reply-To"] for mail in mails] == [None, *ids[:-1]]
    assert [len((mail["References"] or "").split()) for mail in mails[1:13]] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11]
    assert mails[-1]["References"].split() == ids[:-1]


def test_large_message_has_the_size_asked_for() -> None:
    raw, _ = large(1_000_000)
    assert 0.99 < len(raw) / 1_000_000 < 1.01


def test_folders_written_as_files_are_what_the_server_shows(dovecot: Dovecot, user: str) -> None:
    inbox, other = list(small(40)), list(small(30, seed=1))
    written = write_folder(dovecot, user, "INBOX", inbox) + write_folder(dovecot, user, "Other one", other)
    assert written == sum(len(raw) for raw, _ in (*inbox, *other))
    with dovecot.client(user) as client:
        for name, mails in (("INBOX", inbox), ("Other one", other)):
            shown = [(mail.raw, mail.flags, mail.internaldate) for mail in client.originals(name)]
            assert shown == [(raw, ("\\Seen",), datetime.fromtimestamp(moment, UTC)) for raw, moment in mails]
