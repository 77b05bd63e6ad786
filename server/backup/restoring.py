"""Reading a backup back: into an empty data directory, whole or not at all."""

import hashlib
import os
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from config.identity import AuditRule
from mirror.database import private_folder
from server.audit.chain import Chain
from server.backup.archive import CONFIG, ArchiveUnusable, Contents, NotEmpty, contents_of, opened, read_manifest
from server.doctor.schema import unknown_migrations
from server.key import DataKey, sync_folder
from server.state.schema import migrations

_PIECE = 1 << 20


def restore_archive(source: Path, config: Path, data_dir: Path) -> Contents:
    """Put what is in a backup into a data directory that is empty or not there; the configuration where there is none.

    Everything is read and compared with the manifest before anything gets its name. Raises NotEmpty and
    ArchiveUnusable; then nothing is left behind.
    """
    if data_dir.exists() and any(data_dir.iterdir()):
        raise NotEmpty(f"{data_dir} is not empty: a backup is not restored over anything; give an empty --data-dir")
    private_folder(data_dir)
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=data_dir) as scratch:
        unpacked = Path(scratch)
        with opened(source) as tar:
            manifest = read_manifest(tar, source)
            _unpack(tar, manifest["files"], unpacked, source)
        _check_state(unpacked / "data" / "state.db", source)
        if not config.exists():
            private_folder(config.absolute().parent)
            with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write((unpacked / CONFIG).read_bytes())
        # state.db last: a restore that was cut short is not taken for an installation without tokens.
        for path in sorted((unpacked / "data").iterdir(), key=lambda each: each.name == "state.db"):
            path.rename(data_dir / path.name)
    sync_folder(data_dir)
    return contents_of(manifest["made"], manifest["files"])


def record_restored(data_dir: Path, rule: AuditRule, contents: Contents) -> None:
    """Write into the audit log that what comes next follows on an older state."""
    chain = Chain(data_dir, DataKey(data_dir), rule.file_size, rule.files)
    chain.append([{"event": "backup", "outcome": "restored", "made": contents.made}])


def _unpack(tar: tarfile.TarFile, files: dict[str, dict[str, Any]], folder: Path, source: Path) -> None:
    missing = dict(files)
    while (member := tar.next()) is not None:
        stated = missing.pop(member.name, None)
        file = tar.extractfile(member) if member.isreg() else None
        if stated is None or file is None:
            raise ArchiveUnusable(f"{source} holds a file that its manifest does not name: {member.name!r}")
        path = folder / member.name
        private_folder(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as into:
            digest = _copy(file, into)
            into.flush()
            os.fsync(into.fileno())
        if digest != stated.get("sha256"):
            raise ArchiveUnusable(f"{source} is damaged: {member.name} is not what was put in")
    if missing:
        raise ArchiveUnusable(f"{source} is damaged: {next(iter(missing))} is missing")
    if "data/state.db" not in files or "data/key" not in files:
        raise ArchiveUnusable(f"{source} lacks state.db or the key")


def _check_state(path: Path, source: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        if unknown := unknown_migrations(db, "state", migrations):
            raise ArchiveUnusable(f"{source} was made by a newer postmirror ({unknown}): upgrade the program")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _copy(file: IO[bytes], into: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
        into.write(piece)
    return digest.hexdigest()
