"""Mirrors that an older version wrote, opened by this one."""

import sqlite3
import zlib
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlite_utils import Database

from mirror import schema
from mirror.query.criteria import parse_criteria
from mirror.query.himalaya import parse_himalaya
from mirror.query.reader import Reader
from mirror.store import Store
from tests.mirror.query.mailbox import Mail, add, connect


def _older(folder: Path) -> sqlite3.Connection:
    """A mirror as it was before the index was packed, with one folder."""
    folder.mkdir(parents=True)
    connection = connect(folder / "mirror.db")
    schema.migrations.apply(Database(connection), stop_before="pack_index")
    connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 7, 1)")
    connection.execute("INSERT INTO folder (raw, name, enumerated, as_of) VALUES (x'49', 'INBOX', 1, 0)")
    return connection


def test_index_of_an_older_mirror_is_made_anew(tmp_path: Path) -> None:
    with closing(_older(tmp_path / "m")) as connection:
        mails = [Mail(text="an invoice", flags=["\\Seen", "ToDo"]), Mail(text="no pay", flags=["\\Draft"])]
        add(connection, mails, is_indexed=False)
    with closing(Store(tmp_path / "m", repair=True)), Reader(tmp_path / "m" / "mirror.db") as reader:
        found = {
            text: [each.text for each in reader.find(1, [m.id for m in reader.page(1, query, None, 9).messages])]
            for text, query in (
                ("nvoic", parse_himalaya("body nvoic")),
                ("todo", parse_criteria("KEYWORD todo")),
                ("draft", parse_criteria("DRAFT")),
            )
        }
    assert found == {"nvoic": ["an invoice"], "todo": ["an invoice"], "draft": ["no pay"]}


def test_header_lines_of_an_older_mirror_are_found_before_and_after_they_are_indexed(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    began = datetime(2024, 1, 1, tzinfo=UTC)
    with closing(connect(tmp_path / "m" / "mirror.db")) as connection:
        schema.migrations.apply(Database(connection), stop_before="index_header_lines")
        connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 7, 1)")
        connection.execute("INSERT INTO folder (raw, name, enumerated, as_of) VALUES (x'49', 'INBOX', 1, 0)")
        mails = (
            Mail(headers=[("List-Id", f"<list{number % 3}.example>")], received=began + timedelta(hours=number))
            for number in range(700)
        )
        add(connection, mails, is_indexed=False)
    query = parse_criteria('HEADER List-Id "list1.example"')
    with Store(tmp_path / "m", repair=True) as store, Reader(tmp_path / "m" / "mirror.db") as reader:
        found = [message.id for message in reader.page(1, query, None, 1_000).messages]
        assert len(found) == 233
        transactions = 1
        while store.index_lines():
            transactions += 1
            assert [message.id for message in reader.page(1, query, None, 1_000).messages] == found
        assert transactions == 4 + 1  # and one that looks for words which nearly every text has
        assert [message.id for message in reader.page(1, query, None, 1_000).messages] == found
        assert store._connection.execute("SELECT count(*) FROM line WHERE line MATCH 'st1'").fetchone() == (233,)
        assert not store.index_lines()


def test_html_of_an_older_mirror_is_shown_and_what_waits_for_the_sanitizer_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with closing(connect(tmp_path / "m" / "mirror.db")) as connection:
        schema.migrations.apply(Database(connection), stop_before="keep_html_apart")
        connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 7, 1)")
        connection.execute("INSERT INTO folder (raw, name, enumerated, as_of) VALUES (x'49', 'INBOX', 1, 0)")
        done, waiting, _ = add(
            connection, [Mail(text="done", state=3), Mail(text="waiting"), Mail(text="plain", state=3)]
        )
        connection.execute("UPDATE body SET html = ? WHERE content = ?", (zlib.compress(b"<p>done</p>"), done))
        connection.execute("UPDATE body SET normalised = ? WHERE content = ?", (b"waits", waiting))
    with Store(tmp_path / "m", repair=True) as store, Reader(tmp_path / "m" / "mirror.db") as reader:
        assert store.normalised(10) == [(waiting, b"waits")]
        store.set_html([(waiting, zlib.compress(b"<p>waiting</p>"))])
        assert store.normalised(10) == []
        shown = {each.text: each.html for each in reader.find(1, [1, 2, 3], with_html=True)}
        assert shown == {"done": "<p>done</p>", "waiting": "<p>waiting</p>", "plain": None}
        assert store._connection.execute("SELECT count(*) FROM body WHERE normalised IS NOT NULL").fetchone() == (0,)


def test_keywords_are_kept_beside_the_flags_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with closing(connect(tmp_path / "m" / "mirror.db")) as connection:
        schema.migrate(connection)
        connection.execute("INSERT INTO mirror (id, epoch, fold_version) VALUES (1, 7, 1)")
        connection.execute("INSERT INTO folder (raw, name) VALUES (x'49', 'INBOX'), (x'41', 'Archive')")
        add(connection, [Mail(flags=["$Forwarded", "\\Seen", "ToDo"]), Mail(flags=["\\Seen"]), Mail(flags=["ToDo"])])

        def keywords() -> list[tuple[str, int]]:
            return connection.execute("SELECT name, message FROM keyword ORDER BY 1, 2").fetchall()

        assert keywords() == [("$forwarded", 1), ("todo", 1), ("todo", 3)]
        connection.execute('UPDATE message SET flags = \'["Later", "\\\\Seen"]\' WHERE id IN (1, 2)')
        assert keywords() == [("later", 1), ("later", 2), ("todo", 3)]
        connection.execute("UPDATE message SET flags = '[\"\\\\Seen\"]' WHERE id = 1")
        connection.execute("UPDATE message SET id = 9 WHERE id = 3")
        assert keywords() == [("later", 2), ("todo", 9)]
        connection.execute("DELETE FROM message WHERE id = 9")
        assert keywords() == [("later", 2)]
