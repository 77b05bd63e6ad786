"""Faults of files, locks and addresses on this machine: each is named, with its fix, and nothing else is."""

import os
import pwd
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirror.database import private_folder
from mirror.listing import Listed
from mirror.store import Store
from server.audit.chain import Chain
from server.audit.log import Audit
from server.doctor.disk import judge_room
from server.doctor.versions import judge_sqlite
from server.key import DataKey
from tests.processes import holding, until
from tests.server.doctor.installation import Installation


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_a_healthy_installation_raises_no_alarm(installation: Installation) -> None:
    audit = Audit(installation.data_dir, DataKey(installation.data_dir), installation.settings.audit)
    audit.record("send", "begun")
    audit.close()
    assert installation.examine() == {}


def test_a_first_start_raises_no_alarm(installation: Installation) -> None:
    shutil.rmtree(installation.data_dir)
    assert installation.examine() == {}


def test_looking_changes_nothing(installation: Installation) -> None:
    shutil.rmtree(installation.data_dir)
    installation.examine()
    assert not installation.data_dir.exists()


def _unknown_key(it: Installation) -> None:
    it.write('colour = "blue"')


def _lose_variable(it: Installation) -> None:
    it.account["password"] = '{ env = "POSTMIRROR_TEST_UNSET" }'
    it.write()


def _foreign_file(it: Installation) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(it.data_dir / "state.db", 65_534, 65_534)


def _damage_pages(it: Installation) -> None:
    with closing(sqlite3.connect(it.mirror / "mirror.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray((it.mirror / "mirror.db").read_bytes())
    for start in range(3 * 4096, len(data), 4096):
        data[start + 8 : start + 300] = bytes(292)
    (it.mirror / "mirror.db").write_bytes(data)


def _damage_index(it: Installation) -> None:
    with closing(sqlite3.connect(it.mirror / "mirror.db")) as db:
        db.execute("DELETE FROM fts_data WHERE id > 10")
        db.commit()


def _from_the_future(name: str) -> Callable[[Installation], None]:
    def stage(it: Installation) -> None:
        path = it.data_dir / "state.db" if name == "state" else it.mirror / "mirror.db"
        with closing(sqlite3.connect(path)) as db:
            db.execute("INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'x', '')", (name,))
            db.commit()

    return stage


def _forge_line(it: Installation) -> None:
    chain = Chain(it.data_dir, DataKey(it.data_dir), 100_000, 3)
    chain.append([{"event": "tool", "outcome": "done"}])
    path = next(chain.folder.glob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"done"', b'"none"'))


def _fail_a_pass(it: Installation) -> None:
    with Store(it.mirror) as store:
        store.end_pass("{}", "the server does not answer")


def _use_up_the_day(it: Installation) -> None:
    with Store(it.mirror) as store:
        store.set_account("IDLE", 1_000, None)
        store.add_fetched(2_000)
        folder = store.folders()[0].id
        store.add_listed(folder, [Listed(99, (), datetime(2026, 1, 1, tzinfo=UTC), 5_000)])


def _public(**server: object) -> Callable[[Installation], None]:
    def stage(it: Installation) -> None:
        it.server.update(server)
        it.write()

    return stage


def _old_files(it: Installation) -> None:
    later = os.stat(it.data_dir).st_mtime + 86_400
    os.utime(it.data_dir / "key", (later, later))


FAULTS: list[tuple[str, Callable[[Installation], object], str]] = [
    ("configuration-writable", lambda it: it.config.chmod(0o666), "chmod 600"),
    ("configuration-readable", lambda it: it.config.chmod(0o644), "chmod 600"),
    ("configuration-folder", lambda it: it.folder.chmod(0o777), "chmod go-w"),
    ("configuration", _unknown_key, "config check"),
    ("secret-readable", lambda it: it.password.chmod(0o644), "chmod 600"),
    ("secret-missing", lambda it: it.password.unlink(), "write the password"),
    ("secret-missing", _lose_variable, "export it"),
    ("secret-empty", lambda it: it.password.write_text(""), "put the password"),
    ("secret-blanks", lambda it: it.password.write_text(" secret "), "without blanks"),
    ("data-mode", lambda it: it.data_dir.chmod(0o755), "chmod 700"),
    ("data-file-mode", lambda it: (it.mirror / "mirror.db").chmod(0o640), "chmod -R go="),
    ("data-file-owner", _foreign_file, "chown -R"),
    ("key", lambda it: (it.data_dir / "key").write_bytes(b"short"), "backup"),
    ("key-missing", lambda it: (it.data_dir / "key").unlink(), "backup"),
    ("mirror-damaged", _damage_pages, "built again"),
    ("mirror-damaged", _damage_index, "built again"),
    ("mirror-too-new", _from_the_future("mirror"), "upgrade"),
    ("mirror-set-aside", lambda it: (it.mirror / "mirror.damaged-20260101-000000.db").touch(0o600), "disk and memory"),
    ("mirror-orphan", lambda it: private_folder(it.data_dir / "mirrors" / "bob" / "old"), "forget bob/old"),
    ("pass-failed", _fail_a_pass, "postmirror sync"),
    ("budget-used", _use_up_the_day, "midnight UTC"),
    ("state-damaged", lambda it: (it.data_dir / "state.db").write_bytes(b"no database" * 900), "backup"),
    ("state-too-new", _from_the_future("state"), "upgrade"),
    ("audit", _forge_line, "audit verify"),
    ("clock", _old_files, "timedatectl"),
    ("public-url-clear", _public(public_url="http://mail.example.org"), "https"),
    ("proxy-public-url", _public(behind_proxy=True), "public_url"),
    (
        "proxy-everybody",
        _public(behind_proxy=True, public_url="https://mail.example.org", trusted_proxies=["0.0.0.0/0"]),
        "proxy's own address",
    ),
    (
        "proxy-bypass",
        _public(behind_proxy=True, public_url="https://mail.example.org", host="0.0.0.0"),
        'host = "127.0.0.1"',
    ),
    ("tls-files", _public(tls_cert_file="no.pem", tls_key_file="no.key"), "PEM"),
]


@pytest.mark.parametrize(("name", "stage", "fix"), FAULTS, ids=[f"{name}-{n}" for n, (name, *_) in enumerate(FAULTS)])
def test_a_fault_is_named_with_its_fix_and_alone(
    installation: Installation, name: str, stage: Callable[[Installation], object], fix: str
) -> None:
    stage(installation)
    found = installation.examine()
    assert set(found) == {name}
    assert fix in found[name]["fix"]


def test_a_limit_on_files_is_found_before_mail_is_lost(installation: Installation) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "server.cli", "doctor", "--offline", "--config", str(installation.config)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert done.returncode == 2
    assert "disk-write" in done.stdout


def test_room_on_the_disk_is_judged_by_what_will_be_written(tmp_path: Path) -> None:
    assert judge_room(100_000_000, 0, tmp_path).name == "disk-full"
    assert judge_room(5_000_000_000, 2_000_000_000, tmp_path).name == "disk-cleanup"
    assert judge_room(7_000_000_000, 2_000_000_000, tmp_path).state == "ok"


def test_an_sqlite_without_strict_tables_is_too_old() -> None:
    assert judge_sqlite((3, 36, 9)).name == "sqlite-old"
    assert judge_sqlite(sqlite3.sqlite_version_info).state == "ok"


def test_a_port_that_another_program_has(installation: Installation) -> None:
    with socket.create_server(("127.0.0.1", installation.port)):
        assert set(installation.examine()) == {"port-taken"}


@pytest.fixture
def holder(installation: Installation) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of serve, and answers nobody."""
    with holding(installation.data_dir / "serve.lock") as process:
        yield process


def test_a_serve_that_holds_its_lock_and_hangs(installation: Installation, holder: subprocess.Popen[str]) -> None:
    found = installation.examine()
    assert set(found) == {"serve-hangs", "public-url"}
    assert f"kill {holder.pid}" in found["serve-hangs"]["fix"]


def test_a_lock_whose_holder_is_stopped(installation: Installation, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGSTOP)
    until(lambda: Path(f"/proc/{holder.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", 10)
    assert f"kill -CONT {holder.pid}" in installation.examine()["lock-stopped"]["fix"]


def test_an_agent_that_runs_as_the_same_user(installation: Installation) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert "a user of its own" in installation.examine("--agent-user", me)["agent-same-user"]["fix"]
    assert set(installation.examine("--agent-user", "nobody")) == set()


def test_an_agent_that_can_enter_the_data_directory() -> None:
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others already
    try:
        installation = Installation(folder)
        folder.chmod(0o755)
        installation.data_dir.chmod(0o711)
        assert "chmod 700" in installation.examine("--agent-user", "nobody")["agent-reads"]["fix"]
    finally:
        shutil.rmtree(folder)
