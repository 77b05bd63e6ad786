"""The table of searches asks every kind of a generated mirror, and asks Dovecot the same thing."""

from collections.abc import Iterator

import pytest

from bench.search_asked import Asked, ask
from bench.search_kinds import as_criteria, kinds
from bench.search_mails import Mails, build, generate, raw
from mirror.content import read_content
from mirror.query.criteria import parse_criteria
from mirror.query.reader import Reader

MESSAGES = 250


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    path = tmp_path_factory.mktemp("bench") / "mirror.db"
    build(path, Mails(1, MESSAGES))
    with Reader(path) as opened:
        yield opened


def test_every_kind_is_answered(reader: Reader) -> None:
    for kind in kinds(Mails(2, MESSAGES)):
        asked = Asked()
        ask(reader, kind, asked, kind.make())
        assert (len(asked.taken), asked.slow) == (1, 0)


def test_dovecot_is_asked_for_the_same_messages(reader: Reader) -> None:
    compared = 0
    for kind in kinds(Mails(3, MESSAGES)):
        query = kind.make()
        try:
            criteria = parse_criteria(as_criteria(query.filter))
        except LookupError:
            continue
        found = [reader.page(kind.folder, each, None, MESSAGES).messages for each in (query, criteria)]
        assert {each.id for each in found[0]} == {each.id for each in found[1]}, kind.name
        compared += 1
    assert compared > 30


def test_dovecot_gets_the_mails_that_are_in_the_mirror(reader: Reader) -> None:
    for mail in generate(Mails(1, 40)):
        content = read_content(raw(mail))
        assert (content.envelope.subject, content.text.split()) == (mail.subject, mail.text.split())
        assert content.envelope.from_[0].address == mail.sender[1]
