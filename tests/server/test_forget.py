"""After `forget` no byte of the data directory tells of a mailbox, and nothing of another one is missing."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from mirror.store import Store
from server import forgetting
from server.key import DataKey
from server.oauth.grants import Grants
from server.state.journal import Entry
from server.state.store import State
from tests.processes import holding
from tests.server.doctor.installation import Installation
from tests.server.door import Folder, Mail, fill_mirror
from tests.server.test_backup import run

CANARY = "zanzibarquokka"


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """Alice has work, full of the canary, and home; bob has work. Tokens and sent mail of each."""
    made = Installation(tmp_path)
    account = "\n".join(f"{key} = {value}" for key, value in made.account.items())
    made.write(f"[users.alice.providers.home]\n{account}\n[users.bob.providers.work]\n{account}")
    mails = [Mail(subject=f"{CANARY} {number}", text=f"Hello {CANARY}, {number}.") for number in range(30)]
    fill_mirror(made.settings, "alice", "work", [Folder(CANARY.title(), mails)])
    for user, provider in (("alice", "home"), ("bob", "work")):
        fill_mirror(made.settings, user, provider, [Folder("INBOX", [Mail()])])
    with Store(made.mirror) as store:
        content = store._connection.execute("SELECT id FROM content").fetchone()[0]
        store.blobs.keep(content, [("2", f"attached {CANARY}".encode())])
    (made.mirror / "mirror.damaged-20260101-000000.db").write_text(CANARY)
    state = State(made.data_dir)
    for user, provider in (("alice", "work"), ("alice", "home"), ("bob", "work")):
        state.issue_token(user, "assistant", provider=provider, name=f"{user}-{provider}")
        word = CANARY if provider == "work" and user == "alice" else "other"
        for number in range(20):
            with state.sending():
                line = state.begin_submission(
                    Entry(
                        user, provider, "assistant", "token", f"<{word}{number}@example.org>", f"{word}@example.org",
                        (f"to-{word}@example.net",), f"mail {word}".encode() * 300,
                    ),
                    1_000,
                )  # fmt: skip
                assert isinstance(line, int)
                state.settle_submission(line, "sent", copy="owed")
        state.put_sign_in(user, provider, f"sealed {word}".encode(), 2_000_000_000.0, None)
        with Grants(state, DataKey(made.data_dir)).alone(user, provider):
            pass
    state.close()
    return made


def bytes_of(folder: Path) -> bytes:
    """Every byte of every file below a folder, and every name."""
    return b"".join(
        str(path).encode() + (path.read_bytes() if path.is_file() else b"") for path in sorted(folder.rglob("*"))
    )


def test_no_byte_is_left(installation: Installation) -> None:
    assert CANARY.encode() in bytes_of(installation.data_dir).lower()
    done = run("forget", "alice/work", "--yes", "--config", installation.config)
    assert done.exit_code == 0, done.output
    assert "alice-work" in done.output
    assert "still in" in done.output
    assert CANARY.encode() not in bytes_of(installation.data_dir).lower()
    assert not installation.mirror.exists()
    assert {path.name for path in (installation.data_dir / "sign-in").iterdir()} == {"alice.home.lock", "bob.work.lock"}


def test_nothing_of_others_is_missing(installation: Installation) -> None:
    run("forget", "alice/work", "--yes", "--config", installation.config)
    with closing(sqlite3.connect(installation.data_dir / "state.db")) as db:
        names = {name for (name,) in db.execute("SELECT name FROM token")}
        lines = db.execute("SELECT user, provider, count(*) FROM submission GROUP BY 1, 2").fetchall()
        sign_ins = db.execute("SELECT user, provider FROM sign_in ORDER BY user").fetchall()
    assert names == {"laptop", "alice-home", "bob-work"}
    assert sign_ins == [("alice", "home"), ("bob", "work")]
    assert lines == [("alice", "home", 20), ("bob", "work", 20)]
    assert (installation.data_dir / "mirrors" / "alice" / "home" / "mirror.db").exists()
    assert run("audit", "verify", "--config", installation.config).exit_code == 0


def test_a_whole_user(installation: Installation) -> None:
    done = run("forget", "alice", "--yes", "--config", installation.config)
    assert done.exit_code == 0, done.output
    assert not (installation.data_dir / "mirrors" / "alice").exists()
    with closing(sqlite3.connect(installation.data_dir / "state.db")) as db:
        assert [name for (name,) in db.execute("SELECT name FROM token")] == ["bob-work"]


def test_a_mailbox_that_the_configuration_no_longer_has(installation: Installation) -> None:
    installation.write()
    assert run("forget", "bob/work", "--yes", "--config", installation.config).exit_code == 0
    assert not (installation.data_dir / "mirrors" / "bob").exists()


def test_it_asks_first(installation: Installation) -> None:
    done = run("forget", "alice/work", "--config", installation.config, answer="n\n")
    assert done.exit_code == 1
    assert installation.mirror.exists()


@pytest.mark.parametrize("name", ["nobody", "alice/other", "../alice", "alice/..", "alice/work/x", ""])
def test_what_nobody_knows(installation: Installation, name: str) -> None:
    done = run("forget", "--yes", "--config", installation.config, "--", name)
    assert done.exit_code == 1
    assert "nothing is known" in done.output
    assert installation.mirror.exists()


def test_a_mirror_that_is_kept_stays_whole(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "PATIENCE", 0.3)
    with holding(installation.mirror / "lock") as keeper:
        before = time.monotonic()
        done = run("forget", "alice/work", "--yes", "--config", installation.config)
    assert done.exit_code == 1
    assert str(keeper.pid) in done.output
    assert "remove the mailbox from the configuration" in done.output
    assert time.monotonic() - before >= 0.3
    assert (installation.mirror / "mirror.db").exists()
    state = State(installation.data_dir)
    assert {token.name for token in state.tokens()} >= {"alice-work"}
    state.close()


def test_a_state_db_that_serve_has_open_is_written_anew(installation: Installation) -> None:
    serving = State(installation.data_dir)
    assert run("forget", "alice/work", "--yes", "--config", installation.config).exit_code == 0
    assert CANARY.encode() not in bytes_of(installation.data_dir).lower()
    assert {token.name for token in serving.tokens()} == {"laptop", "alice-home", "bob-work"}
    serving.close()
