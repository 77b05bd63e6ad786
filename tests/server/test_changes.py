"""Moves, deletions, new folders and drafts on a real Dovecot, over a mirror that a real pass made."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from config.identity import Server
from mirror.errors import MessageChanged, UpstreamRefused, UpstreamUnavailable
from mirror.mirrored import FolderState, MirroredMessage
from server.auth import Authenticator, Caller
from server.folder_name import check_folder_name
from server.mailbox import NoSuchFolder, ReadOnly
from server.outbound import BadFolderName, Denied, Draft, Enclosure, FolderExists, NoMessage, NoTrash, Outbound
from server.passes import sync_now
from tests.server.door import ASSISTANT, NOON, Door, Mail, settings_for
from tests.servers.dovecot import Dovecot
from tests.servers.ports import free_port
from tests.servers.proxy import Fault, Proxy
from tests.servers.second_client import Incoming, SecondClient

MAILS = [Mail("first"), Mail("second", minutes=1, flags=("\\Seen",)), Mail("third", minutes=2)]
WRITER_MOST = 5_000
WRITER = {
    **ASSISTANT,
    "outbound": {"to_allow": ["*@example.org"], "max_chars": WRITER_MOST},
    "folders": [
        {"match": "Secret*", "access": "hidden"},
        {"match": "Readable", "access": "read"},
        {"match": "*", "access": "write"},
    ],
}
NO_TRASH = {**WRITER, "folders": [{"match": "\\Trash", "access": "hidden"}, *WRITER["folders"]]}  # type: ignore[misc]  # a list of rules
DRAFT = Draft(
    "alice@example.org",
    ("Bob <bob@example.org>",),
    "Plan",
    "Zwölf Uhr?",
    bcc=("carol@example.org",),
    attachments=(Enclosure("plan.pdf", "application/pdf", b"%PDF" * 100),),
)


class Box:
    """Alice's mailbox upstream, its mirror, and the outbound paths of the program."""

    def __init__(self, door: Door, client: SecondClient) -> None:
        self.door = door
        self.client = client
        self.outbound: Outbound = door.parts.outbound
        self.caller = self.called()

    def called(self, profile: str = "assistant") -> Caller:
        """Alice with a profile."""
        return Authenticator(self.door.live, self.door.state).by_name("alice", profile, "work")

    def folder(self, name: str) -> FolderState:
        """A folder of the mirror."""
        with self.door.parts.mirrors.reading("alice", "work") as reader:
            return next(each for each in reader.folders() if each.name == name)

    def messages(self, folder: str) -> list[MirroredMessage]:
        """The messages that the mirror shows in a folder, oldest first."""
        with self.door.parts.mirrors.reading("alice", "work") as reader:
            return list(reversed(reader.page(self.folder(folder).id, None, None, 1_000).messages))

    def message(self, subject: str, folder: str = "INBOX") -> MirroredMessage:
        """One of them."""
        return next(each for each in self.messages(folder) if each.subject == subject)

    def shown(self, folder: str) -> dict[str, int]:
        """Ids by subject in the mirror."""
        return {each.subject: each.id for each in self.messages(folder)}

    def upstream(self, folder: str) -> list[str]:
        """Subjects upstream."""
        raws = [self.client.raw(folder, uid) for uid in self.client.uids(folder)]
        return [raw.split(b"Subject: ")[1].split(b"\r\n")[0].decode() for raw in raws]

    def sync(self) -> None:
        """A full pass."""
        assert [outcome.error for outcome in sync_now(self.door.settings, ["alice/work"])] == [""]


def opened(
    dovecot: Dovecot, user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch, imap_port: int = 0
) -> Iterator[Box]:
    """A box of MAILS in INBOX, and the folders that the profiles speak of."""
    monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", dovecot.password)
    settings = settings_for(
        data_dir,
        free_port(),
        imap_port=imap_port or dovecot.port,
        username=user,
        password={"env": "POSTMIRROR_TEST_PASSWORD"},
        profiles={"assistant": WRITER, "no_trash": NO_TRASH},
    )
    with dovecot.client(user) as client:
        client.append("INBOX", *(Incoming(mail.raw, mail.flags, mail.received) for mail in MAILS))
        for name in ("Work", "Trash", "Drafts", "Readable", "Secret plans"):
            client.create(name)
        with Door(settings) as running:
            box = Box(running, client)
            box.sync()
            yield box


@pytest.fixture
def box(dovecot: Dovecot, user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """A box on Dovecot with all it can."""
    yield from opened(dovecot, user, data_dir, monkeypatch)


@pytest.fixture
def plain_box(dovecot_plain_rung: Dovecot, user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """A box on IMAP4rev1 alone: no MOVE, no UIDPLUS."""
    yield from opened(dovecot_plain_rung, user, data_dir, monkeypatch)


def test_a_moved_message_is_in_its_new_folder_at_once_and_keeps_id_and_text(box: Box) -> None:
    before = box.message("second")
    moved = box.outbound.move(box.caller, before, box.folder("Work"))
    assert (moved.message_id, moved.is_mirrored, moved.is_original_left) == (before.id, True, False)
    assert box.upstream("INBOX") == ["first", "third"]
    assert box.upstream("Work") == ["second"]
    for _ in range(2):
        assert "second" not in box.shown("INBOX")
        with box.door.parts.mirrors.reading("alice", "work") as reader:
            found = reader.message(box.folder("Work").id, before.id)
        assert found is not None
        assert (found.text, set(found.flags)) == ("Hello Alice.", {"\\Seen"})
        box.sync()


def test_a_move_to_where_it_is_changes_nothing(box: Box, dovecot: Dovecot) -> None:
    logins = dovecot.log().count("Login:")
    assert box.outbound.move(box.caller, box.message("first"), box.folder("INBOX")).is_mirrored
    assert dovecot.log().count("Login:") == logins


def test_both_folders_must_be_writable_and_nothing_reaches_upstream(box: Box, dovecot: Dovecot) -> None:
    box.client.append("Readable", Mail("kept").raw)
    box.client.append("Secret plans", Mail("hidden").raw)
    box.sync()
    logins = dovecot.log().count("Login:")
    first, kept, hidden = box.message("first"), box.message("kept", "Readable"), box.message("hidden", "Secret plans")
    work, readable, secret = box.folder("Work"), box.folder("Readable"), box.folder("Secret plans")
    tried: list[tuple[type[Exception], Any]] = [
        (ReadOnly, lambda: box.outbound.move(box.caller, first, readable)),
        (NoSuchFolder, lambda: box.outbound.move(box.caller, first, secret)),
        (ReadOnly, lambda: box.outbound.move(box.caller, kept, work)),
        (NoSuchFolder, lambda: box.outbound.move(box.caller, hidden, work)),
        (ReadOnly, lambda: box.outbound.delete(box.caller, kept, permanently=True)),
        (NoSuchFolder, lambda: box.outbound.delete(box.caller, hidden, permanently=False)),
        (ReadOnly, lambda: box.outbound.store_flags(box.caller, kept, "add", ["\\Seen"])),
        (ReadOnly, lambda: box.outbound.append(box.caller, readable, DRAFT)),
        (NoSuchFolder, lambda: box.outbound.append(box.caller, secret, DRAFT)),
        (NoSuchFolder, lambda: box.outbound.create_folder(box.caller, "Secret too")),
        (NoSuchFolder, lambda: box.outbound.create_folder(box.caller, "Secret plans")),
        (NoSuchFolder, lambda: box.outbound.create_folder(box.called("no_trash"), "Trash")),
        (NoSuchFolder, lambda: box.outbound.create_folder(box.called("no_trash"), "Papierkorb")),
        (ReadOnly, lambda: box.outbound.create_folder(box.caller, "Readable")),
        (NoTrash, lambda: box.outbound.delete(box.called("no_trash"), first, permanently=False)),
    ]
    for error, change in tried:
        with pytest.raises(error):
            change()
    assert dovecot.log().count("Login:") == logins


def test_a_deleted_message_is_in_the_trash_and_from_there_goes_for_good(box: Box) -> None:
    message = box.message("first")
    deleted = box.outbound.delete(box.caller, message, permanently=False)
    assert (deleted.how, deleted.message_id, deleted.is_mirrored) == ("trash", message.id, True)
    assert box.upstream("Trash") == ["first"]
    assert box.shown("Trash") == {"first": message.id}
    with pytest.raises(NoTrash):
        box.outbound.delete(box.caller, box.message("first", "Trash"), permanently=False)
    assert box.outbound.delete(box.caller, box.message("first", "Trash"), permanently=True).how == "expunged"
    assert box.upstream("Trash") == []
    assert box.shown("Trash") == {}


def test_what_other_clients_marked_for_deletion_stays(box: Box) -> None:
    box.client.add_flags("INBOX", [1], "\\Deleted")
    box.outbound.delete(box.caller, box.message("second"), permanently=True)
    box.outbound.move(box.caller, box.message("third"), box.folder("Work"))
    assert box.upstream("INBOX") == ["first"]
    box.sync()
    assert list(box.shown("INBOX")) == ["first"]


def test_without_uidplus_the_original_stays_marked_and_this_is_said(plain_box: Box) -> None:
    box = plain_box
    box.client.add_flags("INBOX", [1], "\\Deleted")
    moved = box.outbound.move(box.caller, box.message("second"), box.folder("Work"))
    assert (moved.is_original_left, moved.is_mirrored) == (True, False)
    assert box.upstream("INBOX") == ["first", "second", "third"]
    assert box.upstream("Work") == ["second"]
    assert "\\Deleted" in box.message("second").flags
    deleted = box.outbound.delete(box.caller, box.message("third"), permanently=True)
    assert (deleted.how, deleted.is_mirrored) == ("marked", True)
    assert "\\Deleted" in box.message("third").flags
    assert box.upstream("INBOX") == ["first", "second", "third"]
    trashed = box.outbound.delete(box.caller, box.message("third"), permanently=False)
    assert (trashed.how, trashed.is_original_left) == ("trash", True)
    box.sync()
    assert list(box.shown("Work")) == ["second"]


def cut_later_and_later(proxy: Proxy, box: Box, first: int, step: int, change: Callable[[], object]) -> None:
    """Make a change over connections that end after ever more octets, until it was made and its answer lost."""
    cut = first
    while not box.upstream("Work"):
        cut += step
        proxy.fault = Fault("close", cut)
        with pytest.raises(UpstreamUnavailable):
            change()
    proxy.fault = None


def test_a_move_whose_answer_was_lost_is_made_once_over_a_restart(
    dovecot_plain_rung: Dovecot, user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dovecot = dovecot_plain_rung
    with Proxy(dovecot.port) as proxy, contextmanager(opened)(dovecot, user, data_dir, monkeypatch, proxy.port) as box:
        cut_later_and_later(
            proxy, box, 600, 40, lambda: box.outbound.move(box.caller, box.message("second"), box.folder("Work"))
        )
        with Door(box.door.settings.model_copy(update={"server": _elsewhere(box.door)})) as again:
            later = Box(again, box.client)
            later.outbound.move(later.called(), later.message("second"), later.folder("Work"))
        assert box.upstream("Work") == ["second"]


def _elsewhere(door: Door) -> Server:
    return door.settings.server.model_copy(update={"port": free_port()})


def test_a_draft_whose_answer_was_lost_is_stored_once_over_a_restart(
    dovecot: Dovecot, user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(dovecot.port) as proxy, contextmanager(opened)(dovecot, user, data_dir, monkeypatch, proxy.port) as box:
        cut_later_and_later(proxy, box, 400, 20, lambda: box.outbound.append(box.caller, box.folder("Work"), DRAFT))
        with Door(box.door.settings.model_copy(update={"server": _elsewhere(box.door)})) as again:
            later = Box(again, box.client)
            later.outbound.append(later.called(), later.folder("Work"), DRAFT)
            assert box.upstream("Work") == ["Plan"]
            later.outbound.append(later.called(), later.folder("Work"), DRAFT)
        assert box.upstream("Work") == ["Plan", "Plan"]


@pytest.mark.parametrize("permanently", [True, False])
def test_a_message_that_was_replaced_upstream_is_not_deleted(box: Box, permanently: bool) -> None:
    message = box.message("third")
    box.client.expunge("INBOX", box.client.uids("INBOX")[2:])
    box.client.append("INBOX", Mail("other").raw)
    with pytest.raises(MessageChanged):
        box.outbound.delete(box.caller, message, permanently=permanently)
    assert box.upstream("INBOX") == ["first", "second", "other"]


def test_a_new_folder_can_be_used_at_once(box: Box) -> None:
    made = box.outbound.create_folder(box.caller, "Projekte/Entwürfe & mehr")
    assert (made.name, made.is_mirrored) == ("Projekte/Entwürfe & mehr", True)
    assert "Projekte/Entwürfe & mehr" in box.client.folders()
    message = box.message("first")
    box.outbound.move(box.caller, message, box.folder(made.name))
    assert box.upstream(made.name) == ["first"]
    box.sync()
    assert box.shown(made.name) == {"first": message.id}
    with pytest.raises(FolderExists):
        box.outbound.create_folder(box.caller, made.name)
    with pytest.raises(FolderExists):
        box.outbound.create_folder(box.caller, "inbox")
    with pytest.raises(BadFolderName):
        box.outbound.create_folder(box.caller, "Projekte//mehr")


def test_a_new_folder_is_made_where_the_server_keeps_the_users_own(
    user: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below_inbox = "namespace inbox {\n  prefix = INBOX.\n  separator = .\n}\n"
    with Dovecot(tls=False, settings=below_inbox) as dovecot:
        monkeypatch.setenv("POSTMIRROR_TEST_PASSWORD", dovecot.password)
        secret = {"match": "INBOX.Secret*", "access": "hidden"}
        settings = settings_for(
            data_dir,
            free_port(),
            imap_port=dovecot.port,
            username=user,
            password={"env": "POSTMIRROR_TEST_PASSWORD"},
            profiles={"assistant": {**WRITER, "folders": [secret, *WRITER["folders"]]}},  # type: ignore[misc]  # a list of rules
        )
        with dovecot.client(user) as client, Door(settings) as running:
            box = Box(running, client)
            box.sync()
            assert box.outbound.create_folder(box.caller, "Work").name == "INBOX.Work"
            assert box.outbound.create_folder(box.caller, "INBOX.Play").name == "INBOX.Play"
            with pytest.raises(FolderExists):
                box.outbound.create_folder(box.caller, "Work")
            with pytest.raises(NoSuchFolder):
                box.outbound.create_folder(box.caller, "Secrets")
            assert {"INBOX.Work", "INBOX.Play"} <= set(client.folders())
            assert "INBOX.Secrets" not in client.folders()


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "x" * 201,
        "a//b",
        "/a",
        "a/",
        "a/../b",
        "..",
        "a\nb",
        "a\0b",
        "a*",
        "a%",
        'a"b',
        "a\\b",
        " a",
        "e\u0301",
    ],
)
def test_a_name_that_no_folder_should_have_is_refused(name: str) -> None:
    with pytest.raises(BadFolderName):
        check_folder_name(name, "/")


def test_a_draft_is_listed_at_once_and_names_its_bcc(box: Box) -> None:
    folder = box.folder("Work")
    appended = box.outbound.append(box.caller, folder, DRAFT, ["\\Draft", "\\Seen"])
    assert appended.is_mirrored
    listed = box.message("Plan", "Work")
    assert (listed.id, set(listed.flags)) == (appended.message_id, {"\\Draft", "\\Seen"})
    assert [each.address for each in listed.to] == ["bob@example.org"]
    raw = box.client.raw("Work", box.client.uids("Work")[0])
    assert raw.startswith(b"Bcc: carol@example.org\r\n")
    box.sync()
    assert box.shown("Work") == {"Plan": appended.message_id}
    whole = box.message("Plan", "Work")
    assert [each.filename for each in whole.attachments] == ["plan.pdf"]


@pytest.mark.parametrize("server", ["box", "plain_box"])
def test_a_mail_as_it_is_gets_line_ends_and_nothing_else(request: pytest.FixtureRequest, server: str) -> None:
    each: Box = request.getfixturevalue(server)
    raw = Mail("as it is").raw
    appended = each.outbound.append(each.caller, each.folder("Work"), raw.replace(b"\r\n", b"\n"), ["\\Flagged"])
    assert appended.is_mirrored
    assert each.client.raw("Work", each.client.uids("Work")[0]) == raw
    each.sync()
    assert each.shown("Work") == {"as it is": appended.message_id}
    assert each.message("as it is", "Work").flags == {"\\Flagged"}


def test_what_is_no_mail_is_not_stored(box: Box) -> None:
    folder = box.folder("Work")
    for raw in (b"", b"\r\nx", b"no header", b"Subject: x\r\n\r\na\0b", b" Subject: x\r\n\r\n"):
        with pytest.raises(NoMessage):
            box.outbound.append(box.caller, folder, raw)
    for flags in (["\\Seen) {3}"], ["a\r\nb"], ["ä"]):
        with pytest.raises(UpstreamRefused):
            box.outbound.append(box.caller, folder, Mail("x").raw, flags)
    for change in ({"from_": "bob@example.org"}, {"subject": "x\r\nBcc: e@evil.test"}, {"to": ("x",)}):
        with pytest.raises(Denied):
            box.outbound.append(box.caller, folder, Draft(**{**_fields(DRAFT), **change}))
    assert box.upstream("Work") == []


def _fields(draft: Draft) -> dict[str, Any]:
    return {name: getattr(draft, name) for name in Draft.__slots__}


def test_a_stored_mail_keeps_to_the_length_that_may_be_sent_and_files_are_left_out(box: Box) -> None:
    most = WRITER_MOST
    files = (("a.txt", "text/plain", b"x" * 3 * most), ("a.pdf", "application/pdf", b"%" * most))
    folder = box.folder("Work")
    for text in ("ä" * most, "x" * 3 * most):
        with pytest.raises(Denied) as caught:
            box.outbound.append(box.caller, folder, Mail("long", text=text).raw)
        assert caught.value.denial.rule == "max_chars"
    deep = b"Subject: x\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n" + b"Content-Type: multipart/x\r\n" * most
    with pytest.raises(Denied):
        box.outbound.append(box.caller, folder, deep)
    assert box.upstream("Work") == []
    assert box.outbound.append(box.caller, folder, Mail("files", attachments=files).raw).is_mirrored


def test_offline_nothing_is_changed(box: Box, dovecot: Dovecot) -> None:
    first, work = box.message("first"), box.folder("Work")
    dovecot.stop()
    for change in (
        lambda: box.outbound.move(box.caller, first, work),
        lambda: box.outbound.delete(box.caller, first, permanently=True),
        lambda: box.outbound.create_folder(box.caller, "New"),
        lambda: box.outbound.append(box.caller, work, DRAFT),
    ):
        with pytest.raises(UpstreamUnavailable):
            change()
    assert list(box.shown("INBOX")) == ["first", "second", "third"]
    dovecot.start()
    assert box.outbound.move(box.caller, first, work).is_mirrored


@pytest.mark.parametrize(
    ("server", "step"),
    [
        ("dovecot", 190),
        ("dovecot_plain_rung", 190),
        pytest.param("dovecot", 11, marks=pytest.mark.soak),
        pytest.param("dovecot_plain_rung", 11, marks=pytest.mark.soak),
    ],
)
def test_a_move_or_draft_cut_at_any_point_ends_in_one_place(
    request: pytest.FixtureRequest,
    user: str,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
    step: int,
) -> None:
    dovecot: Dovecot = request.getfixturevalue(server)
    offsets = range(7, 1_400, step)
    with Proxy(dovecot.port) as proxy, contextmanager(opened)(dovecot, user, data_dir, monkeypatch, proxy.port) as box:
        work, drafts = box.folder("Work"), box.folder("Drafts")
        subjects = [f"mail {offset}" for offset in offsets]
        box.client.append("INBOX", *(Incoming(Mail(subject).raw, (), NOON) for subject in subjects))
        box.sync()
        for offset, subject in zip(offsets, subjects, strict=True):
            proxy.fault = Fault("reset", offset)
            _insist(partial(_move, box, subject, work))
            proxy.fault = Fault("close", offset)
            _insist(partial(box.outbound.append, box.caller, drafts, Draft("alice@example.org", (), subject, "x")))
        proxy.fault = None
        box.sync()
        assert sorted(box.upstream("Work")) == sorted(subjects)
        assert set(box.upstream("Drafts")) == set(subjects)
        left = [each.flags for each in box.messages("INBOX") if each.subject in subjects]
        assert all("\\Deleted" in flags for flags in left)
        assert (left == []) == (server == "dovecot")


def _move(box: Box, subject: str, folder: FolderState) -> object:
    return box.outbound.move(box.caller, box.message(subject), folder)


def _insist(change: Callable[[], object]) -> None:
    """Again and again, until it is done, or was done without anybody having heard of it."""
    for _ in range(5):
        try:
            change()
        except UpstreamUnavailable:
            continue
        except MessageChanged:
            return
        return
    raise AssertionError("it never works")
