"""The whole mail corpus: nothing raises, nothing readable is lost, nothing takes long."""

import re
import time
from collections import defaultdict

import pytest

from mirror.content import Content, read_content, recleaned
from mirror.mail.charset import decode
from mirror.message import read_message
from mirror.sanitize import clean_html
from tests.corpus import corpus_root, messages, needs_corpus
from tests.mirror.agreement import FIELDS, VERDICTS, comparisons
from tests.mirror.mail import everything
from tests.mirror.mutation import mutations
from tests.mirror.test_content_properties import UNSEEN

WORD = re.compile(r"\w")
MARKUP = re.compile(r"(?is)<!--.*?-->|<(style|script|title)\b.*?</\1>|<[^>]*>|&nbsp;")
pytestmark = needs_corpus


def read_timed(raw: bytes) -> tuple[Content, float]:
    started = time.process_time()
    content = read_content(raw)
    clean_html(content.normalised_html)
    return content, time.process_time() - started


def test_every_message_is_read_within_a_second_and_clean() -> None:
    worst = 0.0
    for path in messages():
        content, seconds = read_timed(path.read_bytes())
        worst = max(worst, seconds)
        assert not UNSEEN.search(everything(content).replace("\t", "")), path
        assert recleaned(content.source) == content, path
    assert worst < 1


def test_no_body_part_with_words_gives_an_empty_text() -> None:
    for path in messages():
        content = read_content(path.read_bytes())
        if not content.text.strip():
            message = read_message(path.read_bytes())
            for body in message.bodies:
                assert not WORD.search(MARKUP.sub("", decode(body.data, body.charset, message.hint))), path


def test_agreement_with_stalwart() -> None:
    root = corpus_root()
    assert root is not None
    agreed: dict[str, list[bool]] = defaultdict(list)
    for comparison in comparisons(root):
        agreed[comparison.field].append(comparison.agrees)
        assert comparison.agrees or (comparison.field, comparison.where.strip()) in VERDICTS, comparison

    share = {field: sum(agreed[field]) / len(agreed[field]) for field in FIELDS}
    assert share["subject"] >= 0.95
    assert share["from"] == 1
    assert share["to"] >= 0.94
    assert share["date"] >= 0.98
    assert share["text"] >= 0.85
    assert share["html"] >= 0.96
    assert share["attachment names"] >= 0.82


def run_mutations(count: int, seed: int) -> float:
    worst = 0.0
    for path, raw in mutations(list(messages()), count, seed):
        content, seconds = read_timed(raw)
        worst = max(worst, seconds)
        assert seconds < 2, path
        assert not UNSEEN.search(everything(content).replace("\t", "")), path
    return worst


def test_mutated_messages_are_read_within_two_seconds() -> None:
    run_mutations(1_500, seed=1)


@pytest.mark.soak
def test_100_000_mutated_messages_are_read_within_two_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    worst = run_mutations(100_000, seed=2)
    with capsys.disabled():
        print(f"\n100,000 mutated messages: no exception, worst {worst * 1000:.0f} ms")  # noqa: T201 - a soak prints its figures
