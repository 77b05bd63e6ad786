"""What a backup brings back: the same tokens and, with the mirrors, the same message uids; and what it refuses."""

import json
import shutil
import sqlite3
import stat
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from config.settings import load_settings
from mirror.blobs import blob_path
from mirror.store import Store
from server.cli import main
from server.state.store import State
from tests.server.doctor.installation import Installation
from tests.server.door import Caller, Door, Folder, Mail, fill_mirror

READS = '[[profiles.assistant.folders]]\nmatch = "*"\naccess = "read"'


def run(*words: str | Path, answer: str = "") -> Result:
    """A command, to its end."""
    return CliRunner().invoke(main, [str(word) for word in words], input=answer)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    folder = tmp_path / "old"
    folder.mkdir(mode=0o700)
    made = Installation(folder)
    made.write(READS)
    return made


def uids(config: Path, token: str) -> list[str]:
    """The uids of INBOX, as the client with this token sees them."""
    with Door(load_settings(config)) as door:
        answer = Caller(door.url, token, door.http).call("list_messages", folder="INBOX")
        return [message["uid"] for message in answer.value["messages"]]


def test_tokens_and_uids_are_those_of_before(installation: Installation, tmp_path: Path) -> None:
    with Store(installation.mirror) as store:
        content = store._connection.execute("SELECT id FROM content").fetchone()[0]
        store.blobs.keep(content, [("2", b"an attachment")])
        digest = store._connection.execute("SELECT digest FROM blob").fetchone()[0]
    before = uids(installation.config, installation.token)
    assert before
    archive, config = tmp_path / "all.backup", tmp_path / "new" / "postmirror.toml"
    done = run("backup", archive, "--with-mirrors", "--config", installation.config)
    assert done.exit_code == 0, done.output
    assert str(installation.password) in done.output
    shutil.rmtree(installation.folder)
    done = run("restore", archive, "--config", config)
    assert done.exit_code == 0, done.output
    assert uids(config, installation.token) == before
    settings = load_settings(config)
    assert blob_path(settings.mirror_dir("alice", "work"), digest).read_bytes() == b"an attachment"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in settings.server.data_dir.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert run("audit", "verify", "--config", config).exit_code == 0
    assert not list(settings.server.data_dir.glob(".restoring*"))


def test_a_mirror_that_is_built_again_has_other_uids(installation: Installation, tmp_path: Path) -> None:
    before = uids(installation.config, installation.token)
    archive, config = tmp_path / "all.backup", tmp_path / "new" / "postmirror.toml"
    assert "no mirrors" in run("backup", archive, "--config", installation.config).output
    assert "not found" in run("restore", archive, "--config", config).output
    fill_mirror(load_settings(config), "alice", "work", [Folder("INBOX", [Mail()])])
    after = uids(config, installation.token)
    assert after
    assert not set(after) & set(before)


def test_a_backup_is_of_one_moment_while_others_write(installation: Installation, tmp_path: Path) -> None:
    archive, config = tmp_path / "all.backup", tmp_path / "new" / "postmirror.toml"
    writer = sqlite3.connect(installation.data_dir / "state.db", isolation_level=None)
    with closing(writer):
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO revocation (name, at) VALUES ('laptop', 1)")
        assert run("backup", archive, "--config", installation.config).exit_code == 0
        writer.execute("COMMIT")
    assert run("restore", archive, "--config", config).exit_code == 0
    state = State(load_settings(config).server.data_dir)
    assert state.revoked() == {}
    state.close()


def test_a_backup_is_private_and_replaces_nothing(installation: Installation, tmp_path: Path) -> None:
    archive = tmp_path / "all.backup"
    assert run("backup", archive, "--config", installation.config).exit_code == 0
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    kept = archive.read_bytes()
    assert run("backup", archive, "--config", installation.config).exit_code == 1
    assert archive.read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["old", archive.name] or len(list(tmp_path.iterdir())) == 2
    password = installation.password.read_bytes()
    assert password not in kept


def test_nothing_is_restored_over_anything(installation: Installation, tmp_path: Path) -> None:
    archive = tmp_path / "all.backup"
    run("backup", archive, "--config", installation.config)
    key = (installation.data_dir / "key").read_bytes()
    done = run("restore", archive, "--config", installation.config)
    assert done.exit_code == 1
    assert "not empty" in done.output
    assert (installation.data_dir / "key").read_bytes() == key


def test_a_configuration_that_is_there_says_where(installation: Installation, tmp_path: Path) -> None:
    archive = tmp_path / "all.backup"
    run("backup", archive, "--config", installation.config)
    shutil.rmtree(installation.data_dir)
    written = installation.config.read_text()
    assert "kept" in run("restore", archive, "--config", installation.config).output
    assert installation.config.read_text() == written
    assert (installation.data_dir / "state.db").exists()


def _cut(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:20_000])


def _flip(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    place = data.rindex(b"SQLite format 3")
    data[place + 5_000] ^= 0xFF
    archive.write_bytes(data)


def _repack(change: Callable[[dict[str, object]], str]) -> Callable[[Path], None]:
    def damage(archive: Path) -> None:
        with tarfile.open(archive) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]  # every member is a file
        manifest = json.loads(members["manifest.json"])
        more = change(manifest)
        members["manifest.json"] = json.dumps(manifest).encode()
        folder = archive.parent / "repack"
        folder.mkdir()
        with tarfile.open(archive, "w") as tar:
            for name, data in [*members.items(), *([(more, b"x")] if more else [])]:
                (folder / "member").write_bytes(data)
                tar.add(folder / "member", name)

    return damage


def _newer(manifest: dict[str, object]) -> str:
    manifest["format"] = 2
    return ""


def _outside(manifest: dict[str, object]) -> str:
    files = manifest["files"]
    assert isinstance(files, dict)
    files["data/../../escaped"] = {"size": 1, "sha256": ""}
    return "data/../../escaped"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_cut, ""),
        (_flip, "damaged"),
        (lambda archive: archive.write_text("hello"), "no backup"),
        (lambda archive: archive.unlink(), "no such file"),
        (_repack(_newer), "newer postmirror"),
        (_repack(_outside), "no backup has"),
        (_repack(lambda _: "data/../../escaped"), "does not name"),
    ],
)
def test_a_file_that_is_no_whole_backup_leaves_nothing(
    installation: Installation, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    archive, config = tmp_path / "all.backup", tmp_path / "new" / "postmirror.toml"
    run("backup", archive, "--config", installation.config)
    damage(archive)
    done = run("restore", archive, "--config", config)
    assert done.exit_code == 1
    assert said in done.output
    assert not config.exists()
    assert not list((tmp_path / "new").rglob("*.db"))
    assert not list(tmp_path.rglob("escaped"))
