"""What `postmirror search` prints for the person who runs a mirror."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.mirror.query.mailbox import Mail, build
from tests.server.test_status import Operator

FIRST = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    """An operator of a mirror of two folders."""
    folder = tmp_path / "data" / "mirrors" / "alice" / "work"
    folder.mkdir(parents=True)
    texts = [f"filler {index} " * 30 + f"the invoice {index} is due. " + "more filler " * 30 for index in range(30)]
    build(
        folder / "mirror.db",
        [
            *(
                Mail(
                    f"Zebra {30 - index:02}",
                    text,
                    sender=[("Bob B", "bob@example.org")],
                    received=FIRST + timedelta(hours=index),
                    flags=["\\Seen"],
                )
                for index, text in enumerate(texts)
            ),
            Mail("\x1b[2JAlert", "an Überweisung", received=FIRST + timedelta(days=9), folder="Archive"),
        ],
        ("INBOX", "Archive"),
    )
    return Operator(tmp_path, 1)


def found(operator: Operator, *words: str) -> dict[str, Any]:
    """What a search prints as JSON."""
    result = operator.run("search", "alice/work", *words, "--json")
    assert result.exit_code == 0, result.output
    shown: dict[str, Any] = json.loads(result.stdout)
    return shown


def test_every_folder_is_searched_newest_first_and_the_snippet_shows_the_hit(operator: Operator) -> None:
    answer = found(operator, "body invoice or body uberweisung", "--limit", "3")
    assert [(each["folder"], each["subject"]) for each in answer["messages"]] == [
        ("Archive", "\x1b[2JAlert"),
        ("INBOX", "Zebra 01"),
        ("INBOX", "Zebra 02"),
    ]
    assert answer["has_more"] is True
    assert "the invoice 29 is due" in answer["messages"][1]["snippet"]
    assert answer["messages"][1]["from"] == ["Bob B <bob@example.org>"]


def test_sort_order_holds_across_folders(operator: Operator) -> None:
    answer = found(operator, "order by subject desc", "--limit", "2")
    assert [each["subject"] for each in answer["messages"]] == ["Zebra 30", "Zebra 29"]


def test_folder_and_imap_criteria(operator: Operator) -> None:
    assert found(operator, "UNSEEN", "--imap")["messages"][0]["folder"] == "Archive"
    assert found(operator, "UNSEEN", "--imap", "--folder", "INBOX")["messages"] == []


def test_table_has_subject_and_snippet_and_no_escape_sequence(operator: Operator) -> None:
    shown = operator.run("search", "alice/work", "body überweisung")
    assert shown.exit_code == 0
    assert "Alert" in shown.stdout
    assert "an Überweisung" in shown.stdout
    assert "1 found" in shown.stdout
    assert "\x1b[2J" not in shown.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("alice/work", "from:bob"), "from bob"),
        (("alice/work", "FROM bob", "--imap", "--folder", "Nowhere"), "there are Archive, INBOX"),
        (("alice/home", "from bob"), "there are alice/work"),
        (("alice/work", "BOGUS", "--imap"), "position 0"),
    ],
)
def test_mistakes_are_told_with_what_to_write(operator: Operator, words: tuple[str, ...], told: str) -> None:
    result = operator.run("search", *words)
    assert result.exit_code != 0
    assert told in result.output


def test_mirror_that_was_never_synced_is_told(tmp_path: Path) -> None:
    result = Operator(tmp_path, 1).run("search", "alice/work", "from bob")
    assert result.exit_code == 1
    assert "not mirrored yet" in result.output
