"""The send journal outlives the process, and knows what a dead one left behind."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from server.state.journal import (
    REFUSALS_PER_HOUR,
    Entry,
    KeyUsed,
    StillSending,
    Submission,
    TooManyRefusals,
    TooManySends,
)
from server.state.store import State, StateUnavailable

ENTRY = Entry(
    "alice",
    "work",
    "assistant",
    "laptop",
    "1@example.org",
    "alice@example.org",
    ("bob@example.org",),
    b"Subject: x\r\n\r\n",
    draft=b"one",
)


@pytest.fixture
def state(data_dir: Path) -> Iterator[State]:
    opened = State(data_dir)
    yield opened
    opened.close()


def begin(state: State, *, profile: str = "assistant", key: str | None = None, draft: bytes = b"one") -> int:
    """Begin a line of a mail that was not sent before."""
    line = state.begin_submission(replace(ENTRY, profile=profile, key=key, draft=draft), 3)
    assert isinstance(line, int)
    return line


def again(state: State, key: str, draft: bytes = b"one") -> Submission:
    """The line that a mail with a known key finds."""
    line = state.begin_submission(replace(ENTRY, key=key, draft=draft), 3)
    assert isinstance(line, Submission)
    return line


def test_the_hourly_limit_outlives_a_restart_and_refused_mails_do_not_count(state: State, data_dir: Path) -> None:
    first = begin(state)
    state.settle_submission(first, "refused", "RecipientsRefused")
    for outcome in ("sent", "uncertain", "sent"):
        state.settle_submission(begin(state), outcome)
    other = State(data_dir)
    with pytest.raises(TooManySends) as caught:
        begin(other)
    assert 3_500 < caught.value.seconds <= 3_600
    begin(other, profile="other")
    other.close()


def test_mails_that_the_server_refuses_have_a_limit_of_their_own(state: State, data_dir: Path) -> None:
    for number in range(REFUSALS_PER_HOUR):
        state.settle_submission(begin(state), "refused", "SubmissionUnavailable")
        state.settle_submission(begin(state), "refused", "RecipientsRefused" if number % 2 else "SubmissionRefused")
    with closing(State(data_dir)) as other:
        with pytest.raises(TooManyRefusals) as caught:
            begin(other)
        assert 3_500 < caught.value.seconds <= 3_600
        begin(other, profile="other")


def test_a_verdict_meets_no_line_of_a_file_that_was_restored_meanwhile(state: State, data_dir: Path) -> None:
    begin(state)
    with (
        closing(sqlite3.connect(data_dir / "older.db")) as older,
        closing(sqlite3.connect(data_dir / "state.db")) as db,
    ):
        db.backup(older)
    line = begin(state)
    for suffix in ("-wal", "-shm"):
        (data_dir / f"state.db{suffix}").unlink()
    (data_dir / "older.db").replace(data_dir / "state.db")
    newer = begin(state)
    with pytest.raises(StateUnavailable):
        state.hand_over(line)
    with pytest.raises(StateUnavailable):
        state.settle_submission(line, "sent")
    assert line != newer
    assert [each.state for each in state.submissions()] == ["sending", "sending"]


def test_an_operator_closes_an_uncertain_mail_and_no_other(state: State) -> None:
    assert not state.settle_by_hand("1@example.org", is_sent=True)
    state.settle_submission(begin(state, key="k"), "uncertain")
    assert state.settle_by_hand("1@example.org", is_sent=False)
    assert not state.settle_by_hand("1@example.org", is_sent=True)
    state.settle_submission(begin(state, key="k"), "uncertain")
    assert state.settle_by_hand("1@example.org", is_sent=True)
    assert again(state, "k").state == "sent"
    assert [state.mail_of(each.id) for each in state.submissions()] == [None, None]


def test_two_sends_at_once_cannot_both_be_the_last_one_allowed(state: State) -> None:
    outcomes: list[bool] = []

    def send() -> None:
        try:
            begin(state)
        except TooManySends:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True] * 3


def test_the_bytes_of_a_mail_are_kept_only_while_its_outcome_is_open(state: State, data_dir: Path) -> None:
    lines = [begin(state) for _ in range(3)]
    for line, outcome in zip(lines, ("sent", "refused", "uncertain"), strict=True):
        state.settle_submission(line, outcome)  # type: ignore[arg-type]  # one of the outcomes
    kept = dict(state._select("SELECT state, mail IS NOT NULL FROM submission"))
    assert kept == {"sent": 0, "refused": 0, "uncertain": 1}


def test_a_clock_that_was_ahead_does_not_count_for_longer_than_an_hour(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as ahead:
        year = time.time() + 365 * 86_400
        ahead.setattr("server.state.journal.time.time", lambda: year)
        for _ in range(3):
            begin(state)
    with pytest.raises(TooManySends) as caught:
        begin(state)
    assert caught.value.seconds <= 3_600


def test_a_line_that_a_dead_process_left_before_the_final_dot_was_not_sent(state: State) -> None:
    line = begin(state)
    assert state.recover() == 1
    assert [line.state for line in state.submissions()] == ["refused"]
    with pytest.raises(StateUnavailable):
        state.hand_over(line)


def test_a_line_that_a_dead_process_left_at_the_final_dot_is_uncertain(state: State) -> None:
    line = begin(state)
    state.hand_over(line)
    assert state.recover() == 1
    assert [line.state for line in state.submissions()] == ["uncertain"]
    assert state.mail_of(line) == ENTRY.mail


def test_a_line_that_is_being_sent_is_left_alone(state: State, data_dir: Path) -> None:
    other = State(data_dir)
    with state.sending():
        begin(state)
        assert other.recover() == 0
    assert other.recover() == 1
    other.close()


def test_a_key_finds_the_mail_that_was_sent_with_it(state: State) -> None:
    state.settle_submission(begin(state, key="k"), "sent")
    state.settle_submission(begin(state, key="l"), "uncertain")
    assert [again(state, key).state for key in "kkl"] == ["sent", "sent", "uncertain"]
    assert isinstance(begin(state, key="k", profile="other"), int)
    assert len(state.submissions()) == 3


def test_a_key_of_another_mail_is_an_error_whatever_became_of_that(state: State) -> None:
    for outcome in ("sent", "uncertain", "refused"):
        state.settle_submission(begin(state, key=outcome), outcome)
        with pytest.raises(KeyUsed):
            again(state, outcome, b"two")
        with pytest.raises(KeyUsed):
            state.earlier_submission(replace(ENTRY, key=outcome, draft=b"two"))


def test_a_refused_mail_may_be_tried_again_with_its_key(state: State) -> None:
    first = begin(state, key="k")
    state.settle_submission(first, "refused")
    assert state.earlier_submission(replace(ENTRY, key="k")) is None
    second = begin(state, key="k")
    state.settle_submission(second, "sent")
    assert again(state, "k").id == second != first


def test_a_key_whose_mail_is_on_its_way_is_said_to_be(state: State) -> None:
    begin(state, key="k")
    with pytest.raises(StillSending):
        again(state, "k")
