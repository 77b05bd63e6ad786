"""A keeper holds its mirror, keeps its connection, pauses when told to, and takes over what was left."""

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from config.provider import Provider
from mirror.keeper import TAKE_OVER_EVERY, Keeper
from mirror.lock import Lock
from mirror.parsing import Parsers
from mirror.query.reader import Reader
from mirror.report import Report
from mirror.sync import Pass
from mirror.upstream import Upstream, folders
from tests.mirror.mail import simple
from tests.mirror.mailbox import Mirror, assert_equal, provider_at
from tests.processes import until
from tests.servers.dovecot import Dovecot
from tests.servers.lying import LyingImap, replaced
from tests.servers.second_client import SecondClient

MakeKeeper = Callable[[Provider], Keeper]

BUSY = b"TAG NO Request is throttled. Suggested Backoff Time: 600000 milliseconds\r\n"
REFUSED = b"TAG NO [AUTHENTICATIONFAILED] no\r\n"


@pytest.fixture
def make_keeper(tmp_path: Path, parsers: Parsers) -> Iterator[MakeKeeper]:
    """Makes keepers that are closed after the test."""
    made: list[Keeper] = []

    def make(provider: Provider) -> Keeper:
        kept = tmp_path / f"kept{len(made)}"
        made.append(Keeper(f"alice/{len(made)}", kept, provider, parsers, threading.Event()))
        return made[-1]

    yield make
    for keeper in made:
        keeper.close()


@pytest.fixture
def server() -> Iterator[LyingImap]:
    """A mailbox of one message."""
    with LyingImap() as made:
        made.fill("INBOX", 1)
        yield made


@pytest.fixture
def keeper(server: LyingImap, password_file: Path, make_keeper: MakeKeeper) -> Keeper:
    """A keeper of that mailbox."""
    return make_keeper(provider_at(server.port, "alice", password_file))


def error_of(keeper: Keeper) -> str:
    """What `status` says of the account."""
    assert keeper._store is not None
    return str(keeper._store._connection.execute("SELECT error FROM mirror").fetchone()[0])


def test_unchanged_account_of_100_folders_costs_one_round_trip(
    mirror: Mirror, dovecot: Dovecot, user: str, parsers: Parsers
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
        for number in range(100):
            client.create(f"Folder {number}")
    first = Pass(mirror.store, mirror.provider.sync, parsers, mirror.connect)
    first.run(keep_session=True)
    kept = first.take_session()
    assert kept is not None
    sent: list[bytes] = []
    send = kept._imap.send

    def counted(data: bytes) -> None:
        sent.append(data)
        send(data)

    kept._imap.send = counted
    second = Pass(mirror.store, mirror.provider.sync, parsers, mirror.connect, upstream=kept)
    assert second.run(keep_session=True).work == 0
    assert len(sent) <= 3
    kept.close()


def _change(client: SecondClient, kind: str) -> None:
    if kind == "arrival":
        client.append("INBOX", simple("two"))
    elif kind == "flag":
        client.add_flags("INBOX", [1], "\\Flagged")
    elif kind == "expunge":
        client.expunge("INBOX", [1])
    else:
        client.append("Archive", simple("elsewhere"))


@pytest.mark.parametrize("kind", ["arrival", "flag", "expunge", "elsewhere"])
def test_inbox_that_stays_open_between_passes_tells_of_every_change(
    mirror: Mirror, dovecot: Dovecot, user: str, parsers: Parsers, kind: str
) -> None:
    def passed(upstream: Upstream | None) -> tuple[Report, Upstream]:
        one = Pass(mirror.store, mirror.provider.sync, parsers, mirror.connect, upstream=upstream)
        report = one.run(keep_session=True)
        kept = one.take_session()
        assert kept is not None
        return report, kept

    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
        client.create("Archive")
        kept = passed(None)[1]
        for _ in range(2):
            report, kept = passed(kept)
            assert kept.has_open(b"INBOX")
            assert report.complete
            assert report.work == 0
        _change(client, kind)
        report, kept = passed(kept)
        assert report.work == 1
        assert_equal(mirror, client)
        assert passed(kept)[0].work == 0
    kept.close()


def test_inbox_is_asked_for_by_status_after_it_has_been_open_for_long(
    mirror: Mirror, dovecot: Dovecot, user: str, parsers: Parsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dovecot.client(user) as client:
        client.append("INBOX", simple("one"))
    first = Pass(mirror.store, mirror.provider.sync, parsers, mirror.connect)
    first.run(keep_session=True)
    kept = first.take_session()
    assert kept is not None
    assert kept.list_folders()[1][b"INBOX"].messages == 1
    assert kept.has_open(b"INBOX")
    monkeypatch.setattr(folders, "RESTED_AT_MOST", 0.0)
    assert kept.list_folders()[1][b"INBOX"].messages == 1
    assert not kept.has_open(b"INBOX")
    kept.close()


def test_connection_is_kept_from_pass_to_pass_and_replaced_when_it_died(server: LyingImap, keeper: Keeper) -> None:
    for _ in range(3):
        keeper.run()
    assert len(server.asked("AUTHENTICATE")) == 1
    assert keeper._session is not None
    keeper._session._client.shutdown()
    keeper.run()
    assert error_of(keeper) == ""
    assert len(server.asked("AUTHENTICATE")) == 2


def test_throttled_account_is_left_alone_even_when_nudged(server: LyingImap, keeper: Keeper) -> None:
    server.twist = replaced("UID", BUSY)
    keeper.run()
    assert "600 s" in error_of(keeper)
    asked = len(server.commands)
    for _ in range(3):
        keeper.nudge()
        keeper.run()
    assert len(server.commands) == asked


def test_throttling_that_the_listening_connection_meets_holds_the_whole_account(
    server: LyingImap, keeper: Keeper
) -> None:
    keeper.run()
    server.twist = replaced("AUTHENTICATE", BUSY)
    listening = threading.Thread(target=keeper.idle, args=(lambda _: None,), daemon=True)
    listening.start()
    until(lambda: keeper._throttled_until > 0)
    asked = len(server.commands)
    keeper.nudge()
    keeper.run()
    assert len(server.commands) == asked
    assert len(server.asked("AUTHENTICATE")) == 2
    keeper._stopping.set()
    listening.join(10)


def test_refused_login_is_tried_again_once_the_secret_is_another(
    server: LyingImap, password_file: Path, keeper: Keeper
) -> None:
    server.twist = replaced("AUTHENTICATE", REFUSED)
    for _ in range(4):
        keeper.nudge()
        keeper.run()
    assert len(server.asked("AUTHENTICATE")) == 2
    server.twist = lambda _, answer: answer
    password_file.write_text("another\n", "utf-8")
    keeper.nudge()
    keeper.run()
    assert len(server.asked("AUTHENTICATE")) == 3
    assert error_of(keeper) == ""


def another_process(keeper: Keeper) -> Keeper:
    """A keeper of the same mirror that knows what the file tells, the first one having ended."""
    keeper.close()
    return Keeper(keeper.name, keeper.folder, keeper.provider, keeper._parsers, threading.Event())


def test_refused_login_is_not_tried_again_by_a_restarted_worker(
    server: LyingImap, password_file: Path, keeper: Keeper
) -> None:
    server.twist = replaced("AUTHENTICATE", REFUSED)
    for _ in range(5):
        keeper.run()
        keeper = another_process(keeper)
    assert len(server.asked("AUTHENTICATE")) == 2
    keeper.run()
    with Reader(keeper.folder / "mirror.db") as reader:
        assert reader.account().logins_refused == 2
    assert "not tried again before" in error_of(keeper)

    password_file.write_text("another\n", "utf-8")
    keeper.nudge()
    keeper.run()
    assert len(server.asked("AUTHENTICATE")) == 3
    server.twist = lambda _, answer: answer
    keeper.nudge()
    keeper.run()
    assert error_of(keeper) == ""
    with Reader(keeper.folder / "mirror.db") as reader:
        assert reader.account().logins_refused == 0
    keeper.close()


def test_login_that_was_refused_is_tried_again_after_a_day(server: LyingImap, keeper: Keeper) -> None:
    server.twist = replaced("AUTHENTICATE", REFUSED)
    for _ in range(3):
        keeper.nudge()
        keeper.run()
    assert keeper._store is not None
    keeper._store._connection.execute("UPDATE mirror SET refused_at = refused_at - 86401")
    for _ in range(3):
        keeper.nudge()
        keeper.run()
    assert len(server.asked("AUTHENTICATE")) == 3


def test_secret_that_was_refused_cannot_be_read_from_the_mirror(
    server: LyingImap, password_file: Path, keeper: Keeper
) -> None:
    server.twist = replaced("AUTHENTICATE", REFUSED)
    keeper.run()
    keeper.close()
    secret = password_file.read_bytes().strip()
    written = b"".join(path.read_bytes() for path in keeper.folder.glob("mirror.db*"))
    for form in (secret, hashlib.sha256(secret).digest(), hashlib.sha256(secret).hexdigest().encode()):
        assert form not in written


def test_throttled_account_is_left_alone_by_a_restarted_worker(server: LyingImap, keeper: Keeper) -> None:
    server.twist = replaced("UID", BUSY)
    keeper.run()
    asked = len(server.commands)
    keeper = another_process(keeper)
    for _ in range(3):
        keeper.nudge()
        keeper.run()
    assert len(server.commands) == asked
    with Reader(keeper.folder / "mirror.db") as reader:
        until_then = reader.account().throttled_until
    assert until_then is not None
    assert 500 < until_then.timestamp() - time.time() < 601
    keeper.close()


def impatient(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Connections that wait no longer than this for an answer."""
    connect = Upstream.connect.__func__  # type: ignore[attr-defined]  # of a class method, which mypy does not know

    def hasty(cls: type[Upstream], /, provider: Provider, **keys: object) -> Upstream:
        return cast("Upstream", connect(cls, provider, **keys | {"read_timeout": seconds}))

    monkeypatch.setattr(Upstream, "connect", classmethod(hasty))


@pytest.mark.parametrize("manner", ["never answers", "closes after a moment"])
def test_server_that_does_not_answer_costs_nobody_else_anything(
    manner: str, password_file: Path, make_keeper: MakeKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch, 1.0)
    monkeypatch.setattr("mirror.keeper.random.uniform", lambda _, longest: longest)
    with LyingImap() as good, LyingImap() as before:
        good.fill("INBOX", 1)
        before.fill("INBOX", 1)
        port = before.port
        bad, other = (make_keeper(provider_at(at, "alice", password_file)) for at in (port, good.port))
        bad.run()
        other.run()
        assert bad._session is not None
        bad._session.abandon()
    with socket.create_server(("127.0.0.1", port)) as listener, LyingImap() as good:
        accepted: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    accepted.append(listener.accept()[0])
                    if manner != "never answers":
                        accepted.pop().close()

        threading.Thread(target=accept, daemon=True).start()
        good.fill("INBOX", 1, 2)
        other = make_keeper(provider_at(good.port, "alice", password_file))
        waiting = threading.Thread(target=bad.run)
        waiting.start()
        other.run()
        assert error_of(other) == ""
        with Reader(bad.folder / "mirror.db") as reader:
            inbox = next(folder for folder in reader.folders() if folder.name == "INBOX")
            assert [message.subject for message in reader.page(inbox.id, None, None, 10).messages] == ["mail 1"]
        waiting.join(timeout=10)
        assert not waiting.is_alive()
        assert f"127.0.0.1:{port} cannot be used" in error_of(bad)
        assert not bad.is_due()  # a pause first
        assert bad._store is not None
        assert not bad._store.rest.is_refused(bad._login())
        listener.shutdown(socket.SHUT_RDWR)
        for connection in accepted:
            connection.close()


def test_parent_that_cannot_be_opened_is_no_fault_of_the_account(server: LyingImap, keeper: Keeper) -> None:
    server.fill("Parent")
    server.fill("Parent/Child", 2)
    refused = b"TAG NO it only holds folders\r\n"
    server.twist = lambda command, answer: refused if '"Parent"' in command else answer
    keeper.run()
    assert error_of(keeper) == ""
    with Reader(keeper.folder / "mirror.db") as reader:
        found = {folder.name: (folder.messages, folder.complete) for folder in reader.folders()}
    assert found["Parent/Child"] == (1, True)


def test_login_that_fails_for_the_servers_own_reasons_is_tried_again_after_a_pause(
    server: LyingImap, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror.keeper.random.uniform", lambda _, longest: longest)
    keeper.run()
    assert keeper._session is not None
    keeper._session.abandon()
    said = b"TAG BAD User is authenticated but not connected.\r\n"
    server.twist = replaced("AUTHENTICATE", said)
    for _ in range(4):
        keeper.nudge()
        keeper.run()
        assert "authenticated but not connected" in error_of(keeper)
        assert not keeper.is_due()
    with Reader(keeper.folder / "mirror.db") as reader:
        inbox = next(folder for folder in reader.folders() if folder.name == "INBOX")
        assert [message.subject for message in reader.page(inbox.id, None, None, 10).messages] == ["mail 1"]
    server.twist = lambda _, answer: answer
    keeper.nudge()
    keeper.run()
    assert error_of(keeper) == ""


def test_mirror_that_another_process_kept_is_taken_over_within_seconds(keeper: Keeper) -> None:
    other = Lock(keeper.folder / "lock")
    assert other.acquire()
    keeper.run()
    assert not keeper.is_held
    assert not keeper.is_due()
    other.release()
    end = time.monotonic() + 2 * TAKE_OVER_EVERY
    while not keeper.is_due():
        assert time.monotonic() < end
        time.sleep(0.05)
    keeper.run()
    assert keeper.is_held


def test_account_never_has_more_than_one_connection_for_its_passes(
    server: LyingImap, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Upstream] = []
    connect = Upstream.connect.__func__  # type: ignore[attr-defined]  # of a class method, which mypy does not know

    def counted(cls: type[Upstream], /, *arguments: object, **keys: object) -> Upstream:
        opened.append(connect(cls, *arguments, **keys))
        assert sum(upstream.is_open for upstream in opened) == 1
        return opened[-1]

    monkeypatch.setattr(Upstream, "connect", classmethod(counted))
    keeper.run()
    server.folders["INBOX"].messages.clear()  # to be confirmed on another connection
    keeper.run()
    assert len(opened) == 2
    assert error_of(keeper) == ""


def test_long_pass_is_done_in_turns(server: LyingImap, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror.keeper.TURN", 0.0)
    monkeypatch.setattr("mirror.sync.LOOK_EVERY", 0.0)
    server.fill("INBOX", *range(2, 30))
    assert keeper.hold()
    keeper._turn(0.0)
    assert keeper._pass is not None
    keeper.nudge()
    monkeypatch.setattr("mirror.sync.LOOK_EVERY", 20.0)
    listings = len(server.asked("LIST"))
    keeper.run()
    assert keeper._pass is None
    assert error_of(keeper) == ""
    # The nudge asked for a pass that begins after it.
    assert len(server.asked("LIST")) >= listings + 2
