"""In which order a first sync brings what there is: the newest can be searched long before the last is listed."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from config.provider import Provider
from mirror import reconcile
from mirror.backfill import FIRST_TEXTS, NEWEST_HEADERS, SKIP_HEADERS_BELOW
from mirror.mirrored import State
from mirror.store import Store
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, counted_pass, provider_at
from tests.servers.dovecot import Dovecot

_FETCH = re.compile(rb"UID FETCH ([\d:,]+) \(UID BODY\.PEEK\[(HEADER)?")


def _asked(command: bytes) -> tuple[str, int] | None:
    """What a command fetches, and of how many messages."""
    match = _FETCH.search(command)
    if match is None:
        return None
    runs = [[int(end) for end in run.split(b":")] for run in match[1].split(b",")]
    return "headers" if match[2] else "texts", sum(run[-1] - run[0] + 1 for run in runs)


def test_newest_texts_come_before_the_other_headers(
    dovecot: Dovecot, user: str, password_file: Path, make_mirror: Callable[[Provider], Mirror]
) -> None:
    count = FIRST_TEXTS + 300
    with dovecot.client(user) as client:
        client.append("INBOX", *(simple(f"number {number}") for number in range(count)))

    work = counted_pass(make_mirror(provider_at(dovecot.port, user, password_file)))

    asked = [fetch for command in work.commands if (fetch := _asked(command)) is not None]
    headers = [index for index, (kind, _) in enumerate(asked) if kind == "headers"]
    assert work.report.complete
    assert asked[headers[0]] == ("headers", NEWEST_HEADERS)
    assert FIRST_TEXTS <= sum(number for kind, number in asked[: headers[1]] if kind == "texts") < count
    assert sum(number for kind, number in asked if kind == "texts") == count


def test_newest_texts_of_a_large_folder_come_before_older_messages_are_enumerated(
    dovecot: Dovecot,
    user: str,
    password_file: Path,
    make_mirror: Callable[[Provider], Mirror],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = reconcile.ENUMERATE_FIRST + 300
    monkeypatch.setattr(reconcile, "ENUMERATE_AT_ONCE", count - 1)
    with dovecot.client(user) as client:
        client.append("INBOX", *(simple(f"number {number}") for number in range(count)))

    mirror = make_mirror(provider_at(dovecot.port, user, password_file))
    work = counted_pass(mirror)

    listings = [index for index, command in enumerate(work.commands) if b"RFC822.SIZE" in command]
    texts = [fetch for command in work.commands[: listings[1]] if (fetch := _asked(command)) and fetch[0] == "texts"]
    assert work.report.complete
    assert len(listings) == 2
    assert FIRST_TEXTS <= sum(number for _, number in texts) <= reconcile.ENUMERATE_FIRST
    assert mirror.rows("SELECT count(*), min(state) FROM content") == [(count, State.WHOLE)]
    assert counted_pass(mirror).fetched == []


def test_newest_texts_of_each_folder_leave_the_rate_at_what_it_is(
    dovecot: Dovecot,
    user: str,
    password_file: Path,
    make_mirror: Callable[[Provider], Mirror],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with dovecot.client(user) as client:
        client.create("Second")
        for folder in ("INBOX", "Second"):
            client.append(folder, *(simple(f"number {number}") for number in range(SKIP_HEADERS_BELOW)))
    rates: list[float] = []
    add_fetched = Store.add_fetched

    def noted(store: Store, octets: int, rate: float = 0.0) -> int:
        rates.append(rate)
        return add_fetched(store, octets, rate)

    monkeypatch.setattr(Store, "add_fetched", noted)
    counted_pass(make_mirror(provider_at(dovecot.port, user, password_file)))
    assert len(rates) > 2
    assert all(rate == 0 or rate > 10 for rate in rates), rates
