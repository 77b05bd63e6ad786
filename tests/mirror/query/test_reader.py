import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from mirror.errors import MirrorAbsent, MirrorCorrupt
from mirror.message import Address
from mirror.mirrored import MirroredMessage
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.order import Position
from mirror.query.reader import Reader
from mirror.query.tree import Query
from tests.mirror.query.mailbox import Mail, add, build, connect

INBOX = 1


def day(number: int, hour: int = 12) -> datetime:
    return datetime(2024, 1, number, hour, tzinfo=UTC)


THREE = [
    Mail("a", "a", [("", "bob@x.org")], [("", "alice@x.org")], received=day(1), sent=day(1), flags=["\\Seen"]),
    Mail(
        "b",
        "b",
        [("", "claire@x.org")],
        [("", "alice@x.org")],
        received=day(5),
        sent=day(5),
        flags=["\\Seen", "\\Flagged", "custom"],
    ),
    Mail("c", "c", [("Dminic", "dominic@x.org")], [("", "bob@x.org")], received=day(10), sent=day(10)),
]


@pytest.fixture
def mirror(tmp_path: Path) -> Callable[..., Reader]:
    opened: list[Reader] = []

    def open_mirror(*mails: Mail, folders: tuple[str, ...] = ("INBOX",), deadline: float = 30.0) -> Reader:
        path = tmp_path / f"mirror{len(opened)}.db"
        build(path, mails, folders)
        opened.append(Reader(path, deadline=deadline))
        return opened[-1]

    return open_mirror


def subjects(reader: Reader, query: Query | None, limit: int = 50, folder: int = INBOX) -> str:
    return " ".join(message.subject for message in reader.page(folder, query, None, limit).messages)


def paged(reader: Reader, query: Query | None, limit: int) -> Iterator[MirroredMessage]:
    after: Position | None = None
    while True:
        page = reader.page(INBOX, query, after, limit)
        assert len(page.messages) == limit or page.after is None
        yield from page.messages
        if page.after is None:
            return
        after = page.after


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("order by date", "a b c"),
        ("order by date desc", "c b a"),
        ("order by", "c b a"),
        ("date 05/01/2024", "b"),
        ("not date 05/01/2024 order by subject", "a c"),
        ("before 05/01/2024", "a"),
        ("after 05/01/2024", "c"),
        ("subject a and body a or body b order by subject", "a b"),
        ("subject a and (body a or body b)", "a"),
        ("from Dminic or from bob order by subject", "a c"),
        ("not to bob order by subject", "a b"),
        ("flag seen order by subject desc", "b a"),
        ("flag CUSTOM", "b"),
        ("flag unseen", ""),
        ('subject ""', "c b a"),
    ],
)
def test_three_mails(mirror: Callable[..., Reader], query: str, found: str) -> None:
    assert subjects(mirror(*THREE), parse_himalaya(query)) == found


def test_literal_text_is_found_and_breaks_nothing(mirror: Callable[..., Reader]) -> None:
    hard = [
        "POL-358", "@nasa",
        "don't", "20.04", '"', "*", "NEAR(", '" OR 1', "C++", "100%", "-foo", "AND", "a_b", "%", "_",
        "🎉",
        "会议", "ราคา", "[x]", "(", "\\", ";--", "' OR '1'='1", "subject:", "{a b}: c", "^x", "x*", "\u202e", "ﬀ",
        "née", "x" * 600,
    ]  # fmt: skip
    reader = mirror(
        *(
            Mail(f"<{text}>", f"in the body: {text}.", received=day(1) + timedelta(minutes=index))
            for index, text in enumerate(hard)
        ),
        Mail("plain", "nothing to see", received=day(20)),
    )
    for text in hard:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        for field in ("subject", "body"):
            found = list(paged(reader, parse_himalaya(f'{field} "{escaped}"'), 5))
            assert f"<{text}>" in [message.subject for message in found]
            assert len(found) < len(hard)


def test_nul_in_a_pattern_finds_nothing(mirror: Callable[..., Reader]) -> None:
    reader = mirror(Mail("a", "text", headers=[("X", "y")]))
    for text in ("subject a\0", "body \0", "flag \0", "from so\0meone"):
        assert subjects(reader, parse_himalaya(text)) == ""
        assert subjects(reader, parse_himalaya(f"not {text}")) == "a"


def test_very_long_pattern_is_literal_text(mirror: Callable[..., Reader]) -> None:
    long = "lorem ipsum " * 1000
    reader = mirror(
        Mail("a", "x " + long), Mail("b", "x " + long[:-1]), Mail("c", "y" * 10_001), Mail("d", "y" * 9_999)
    )
    assert subjects(reader, parse_himalaya(f'body "{long}"')) == "a"
    assert subjects(reader, parse_himalaya("body " + "y" * 10_000)) == "c"


def test_part_of_a_word_too_long_for_the_index_is_found(mirror: Callable[..., Reader]) -> None:
    reader = mirror(Mail("a", "x" * 400 + "needle" + "y" * 400), Mail("b", "needle"), Mail("c", "other"))
    assert sorted(subjects(reader, parse_himalaya("body eedl"))) == sorted("a b")


def test_folder_is_searched_alone(mirror: Callable[..., Reader]) -> None:
    reader = mirror(
        *(Mail(f"a{index}", "common", received=day(1) + timedelta(minutes=index)) for index in range(300)),
        Mail("other", "common", folder="Archive"),
        folders=("INBOX", "Archive"),
    )
    assert subjects(reader, parse_himalaya("body common"), folder=2) == "other"
    assert reader.folders()[0].name == "Archive"
    assert [folder.messages for folder in reader.folders()] == [1, 300]


def test_message_without_text_is_found_by_its_envelope_only(mirror: Callable[..., Reader]) -> None:
    reader = mirror(
        Mail("invoice one", "", received=day(1), state=1),
        Mail("invoice two", "invoice", received=day(2)),
        Mail("invoice three", "invoice", received=day(3), state=0),
        Mail("other", "nothing", received=day(4), state=1),
    )
    assert subjects(reader, parse_himalaya("subject invoice")) == "invoice two invoice one"
    assert subjects(reader, parse_himalaya("body invoice")) == "invoice two"
    assert subjects(reader, parse_himalaya("not body invoice")) == "other invoice one"
    state = reader.folders()[0]
    assert (state.messages, state.pending, state.complete) == (4, 3, False)


def test_folders_are_as_the_mirror_is_now(mirror: Callable[..., Reader], tmp_path: Path) -> None:
    reader = mirror(*THREE)
    assert reader.folders() == reader.folders()
    with closing(connect(tmp_path / "mirror0.db")) as writer:
        add(writer, [Mail("new", received=day(9)), Mail("newer", received=day(10), state=1)])
    (inbox,) = reader.folders()
    assert (inbox.messages, inbox.pending) == (5, 1)


def test_copies_in_one_folder_are_paged_one_by_one(mirror: Callable[..., Reader]) -> None:
    reader = mirror(Mail("a", "word", copies=5), Mail("b", "word", received=day(2)))
    for query in (None, parse_himalaya("body word"), parse_himalaya("body word order by subject desc")):
        for limit in (1, 2, 3):
            assert [message.id for message in paged(reader, query, limit)] == [6, 5, 4, 3, 2, 1]


def test_pages_stay_stable_while_mail_arrives(mirror: Callable[..., Reader], tmp_path: Path) -> None:
    reader = mirror(*(Mail(f"{index}", "word", received=day(1, index)) for index in range(10)))
    first = reader.page(INBOX, parse_himalaya("body word"), None, 4)
    with closing(connect(tmp_path / "mirror0.db")) as writer:
        add(writer, [Mail("new", "word", received=day(9))])
    second = reader.page(INBOX, parse_himalaya("body word"), first.after, 4)
    assert [each.subject for each in first.messages + second.messages] == ["9", "8", "7", "6", "5", "4", "3", "2"]
    assert reader.page(INBOX, None, None, 1).messages[0].subject == "new"


def test_received_day_is_read_in_its_own_zone(mirror: Callable[..., Reader]) -> None:
    late = datetime(2024, 2, 1, 1, 0, tzinfo=timezone(timedelta(hours=3)))
    early = datetime(2024, 1, 31, 23, 0, tzinfo=timezone(timedelta(hours=-5)))
    reader = mirror(Mail("late", received=late), Mail("early", received=early))
    assert subjects(reader, parse_criteria("ON 1-Feb-2024")) == "late"
    assert subjects(reader, parse_criteria("SINCE 1-Feb-2024")) == "late"
    assert subjects(reader, parse_criteria("BEFORE 1-Feb-2024")) == "early"


def test_minute_that_spills_over_is_found_by_its_day(mirror: Callable[..., Reader]) -> None:
    crowd = [Mail(f"{index}", received=datetime(2024, 1, 1, 23, 59, tzinfo=UTC)) for index in range(30_00)]
    reader = mirror(*crowd, Mail("next", received=datetime(2024, 1, 3, tzinfo=UTC)))
    assert len(list(paged(reader, parse_criteria("BEFORE 2-Jan-2024"), 500))) == 3000
    assert len(list(paged(reader, parse_criteria("ON 1-Jan-2024"), 500))) == 3000


def test_missing_date_header_counts_as_received_day_in_one_language_only(mirror: Callable[..., Reader]) -> None:
    reader = mirror(Mail("undated", received=day(5)), Mail("dated", received=day(6), sent=day(5)))
    assert subjects(reader, parse_himalaya("date 2024-01-05")) == "dated undated"
    assert subjects(reader, parse_criteria("SENTON 5-Jan-2024")) == "dated"
    assert subjects(reader, parse_criteria("NOT SENTON 5-Jan-2024")) == "undated"


def test_headers_and_text_are_searched_whole(mirror: Callable[..., Reader]) -> None:
    reader = mirror(
        Mail("a", "text", headers=[("List-Id", "The <list.example>"), ("X-Ünï", "Straße")]),
        Mail("b", "list.example", cc=[("Carol", "carol@x.org")]),
    )
    assert subjects(reader, parse_criteria("HEADER list-id EXAMPLE>")) == "a"
    assert subjects(reader, parse_criteria('HEADER List-Id ""')) == "a"
    assert sorted(subjects(reader, parse_criteria("TEXT list.example"))) == sorted("a b")
    assert subjects(reader, parse_criteria("TEXT strasse")) == "a"
    assert subjects(reader, parse_criteria('TEXT "list-id: the"')) == "a"
    assert subjects(reader, parse_criteria('TEXT " The <list"')) == "a"
    assert subjects(reader, parse_criteria("TEXT carol")) == "b"
    assert subjects(reader, parse_criteria("CC carol@")) == "b"
    assert subjects(reader, parse_criteria("BCC carol@")) == ""


def test_accents_and_scripts_are_found_whatever_the_server_can_do(mirror: Callable[..., Reader]) -> None:
    reader = mirror(
        Mail("Contrat SIGNE\u0301", "à l'\u00e9cole"),
        Mail("季度会议纪要", "附件", received=day(2)),
        Mail("Änderung", "Straße", received=day(3)),
    )
    assert subjects(reader, parse_criteria('OR TEXT "signé" TEXT "école"')) == "Contrat SIGNE\u0301"
    assert subjects(reader, parse_himalaya("subject 会议")) == "季度会议纪要"
    assert subjects(reader, parse_himalaya("subject ä and body STRASSE")) == "Änderung"


def test_uids_and_positions_name_messages(mirror: Callable[..., Reader]) -> None:
    reader = mirror(*THREE)
    uids = {"first-one": 1, "third-one": 3, "gone": 99}
    assert subjects(reader, parse_criteria("UID first-one,third-one,gone,other", resolve=uids.get)) == "c a"
    assert subjects(reader, parse_criteria("NOT UID first-one", resolve=uids.get)) == "c b"
    assert subjects(reader, parse_criteria("UID other", resolve=uids.get)) == ""
    assert subjects(reader, parse_criteria("1,3")) == "c a"
    assert subjects(reader, parse_criteria("2:*")) == "c b"
    assert subjects(reader, parse_criteria("*:2 SEEN")) == "b"
    assert subjects(reader, parse_criteria("NOT 7:2")) == "a"
    assert subjects(reader, parse_criteria("9")) == ""


def test_view_decides_what_is_found(mirror: Callable[..., Reader]) -> None:
    reader = mirror(
        *THREE, Mail("secret", "c", [("", "boss@x.org")], received=day(11)), Mail("d", "the secret c", received=day(12))
    )

    def view(message: MirroredMessage) -> MirroredMessage | None:
        if Address("", "boss@x.org") in message.from_:
            return None
        return message._replace(text=(message.text or "").replace("secret", "\ufffc"), cc=())

    def shown(text: str) -> str:
        page = reader.page(INBOX, parse_himalaya(text), None, 10, view)
        return " ".join(message.subject for message in page.messages)

    assert shown("body c") == "d c"
    assert shown("body secret") == ""
    assert shown("not body secret") == "d c b a"
    assert shown("body c order by subject desc") == "d c"
    assert [each.id for each in reader.page(INBOX, parse_criteria("4:*"), None, 10, view).messages] == [5]
    first = reader.page(INBOX, None, None, 2, view)
    assert [each.subject for each in first.messages] == ["d", "c"]
    assert [each.subject for each in reader.page(INBOX, None, first.after, 2, view).messages] == ["b", "a"]


def test_message_is_read_from_its_folder_only(mirror: Callable[..., Reader]) -> None:
    reader = mirror(Mail("a", "text", headers=[("X", "y")]), Mail("b", folder="Other"), folders=("INBOX", "Other"))
    message = reader.message(INBOX, 1)
    assert message is not None
    assert (message.text, message.headers, message.html) == ("text", None, None)
    assert reader.message(2, 1) is None
    assert reader.message(INBOX, 99) is None
    found = reader.message(INBOX, 1, with_headers=True)
    assert found is not None
    assert found.headers == (("X", "y"),)
    assert [each.id for each in reader.find(INBOX, [99, 2, 1])] == [1]


@pytest.mark.parametrize("content", [None, b""], ids=["no file", "empty file"])
def test_mailbox_that_is_not_mirrored_yet_says_so(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "mirror.db").write_bytes(content)
    with pytest.raises(MirrorAbsent):
        Reader(tmp_path / "mirror.db")
    assert not (tmp_path / "mirror.db").exists() or content is not None


def test_damaged_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "mirror.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(MirrorCorrupt):
        Reader(tmp_path / "mirror.db")


def test_reader_cannot_write(mirror: Callable[..., Reader]) -> None:
    reader = mirror(*THREE)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM message")


def test_readers_are_not_disturbed_by_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "mirror.db"
    build(path, (Mail(f"{index}", "word", received=day(1) + timedelta(minutes=index)) for index in range(500)))
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            with Reader(path) as reader:
                while not stop.is_set():
                    assert (
                        len(reader.page(INBOX, parse_himalaya("body word and not flag seen"), None, 20).messages) == 20
                    )
                    assert reader.folders()
        except BaseException as exc:  # noqa: BLE001 - handed to the test's thread
            failures.append(exc)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for each in readers:
        each.start()
    with closing(connect(path)) as writer:
        for batch in range(20):
            add(
                writer,
                (Mail("new", "word", received=day(2 + batch % 20) + timedelta(minutes=index)) for index in range(50)),
            )
    stop.set()
    for each in readers:
        each.join()
    assert failures == []
