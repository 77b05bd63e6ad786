"""The same criteria on Dovecot and on a mirror of its mailbox find the same messages, but for what is explained."""

import sys
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from config.provider import Provider
from mirror.query.criteria import parse_criteria
from mirror.query.reader import Reader
from mirror.query.tree import All, evaluate
from tests.corpus import needs_corpus
from tests.mirror.mailbox import Mirror
from tests.mirror.query.against_dovecot import CONTRADICTION, Criteria, Generator, kind_of, plain_mails
from tests.servers.dovecot import Dovecot


def _compared(dovecot: Dovecot, user: str, mirror: Mirror, mails: int, criteria: int, seed: int) -> Counter[str]:
    """How many criteria there were, found anything, and disagreed, in all and by kind."""
    incoming = plain_mails(mails, seed)
    told: Counter[str] = Counter()
    unexplained: list[tuple[str, bytes]] = []
    with dovecot.client(user) as client:
        for start in range(0, len(incoming), 100):
            client.append("INBOX", *incoming[start : start + 100])
        assert mirror.sync().complete
        client.examine("INBOX")
        with Reader(mirror.store.path, deadline=60) as reader:
            [folder] = [each.id for each in reader.folders() if each.name == "INBOX"]
            listed = reader.page(folder, None, None, len(incoming) + 1).messages
            found = {each.uid: each for each in reader.find(folder, [each.id for each in listed], with_headers=True)}
            raws = {uid: incoming[place].raw for place, uid in enumerate(sorted(found))}
            generator = Generator(incoming, seed)

            def ours(asked: Criteria) -> frozenset[int]:
                page = reader.page(folder, parse_criteria(asked.ours()), None, len(incoming) + 1)
                return frozenset(message.uid for message in page.messages)

            @cache
            def disagreed(asked: Criteria) -> tuple[frozenset[int], frozenset[int]]:
                mine, theirs = ours(asked), frozenset(client.search(asked.theirs()))
                return mine - theirs, theirs - mine

            for _ in range(criteria):
                asked = generator.criteria()
                mine, theirs = ours(asked), frozenset(client.search(asked.theirs()))
                told.update(criteria=1, found=bool(theirs), disagreed=mine != theirs)
                kinds: set[str] = set()
                for uid in mine ^ theirs:
                    why = {
                        kind_of(each, found[uid], raws[uid], is_ours=uid in disagreed(each)[0])
                        for each in asked.conditions
                        if uid in disagreed(each)[0] | disagreed(each)[1]
                    }
                    if not why and evaluate(parse_criteria(asked.ours()).filter or All(()), found[uid]) == (
                        uid in mine
                    ):
                        why = {CONTRADICTION}
                    if not why or "" in why:
                        unexplained.append((asked.ours(), raws[uid].partition(b"\r\n\r\n")[0]))
                    kinds |= why
                told.update(kinds)
    assert unexplained == []
    return told


@needs_corpus
@pytest.mark.timeout(120)
def test_criteria_find_what_dovecot_finds(dovecot: Dovecot, user: str, mirror: Mirror) -> None:
    told = _compared(dovecot, user, mirror, mails=120, criteria=250, seed=1)
    assert told["found"] > told["criteria"] / 2
    assert told["disagreed"] < told["criteria"] / 4


@needs_corpus
@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 103), ids="seed {}".format)
def test_thousands_of_criteria_find_what_dovecot_finds(
    dovecot: Dovecot, user: str, make_mirror: Callable[[Provider], Mirror], seed: int
) -> None:
    told = _compared(dovecot, user, make_mirror(dovecot.provider(user)), mails=300, criteria=1_700, seed=seed)
    sys.stdout.writelines(f"{count:6} {name}\n" for name, count in told.most_common())
