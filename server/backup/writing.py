"""Writing a backup, also while `serve` runs.

SQLite files are copied through SQLite, so that one that is being written is copied as of one moment. Key and audit log
are read while the log is locked, which is also what a new key waits for: they fit together.
"""

import hashlib
import io
import json
import os
import secrets
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from config.identity import Settings
from server.audit.chain import Chain
from server.backup.archive import CONFIG, FORMAT, MANIFEST, MEMBER, Contents, NothingToBackUp, contents_of
from server.key import DataKey, sync_folder


def write_archive(target: Path, config: Path, settings: Settings, *, with_mirrors: bool) -> Contents:
    """Write a backup, 0600, under a name that is not taken. It is whole once it has its name.

    Raises NothingToBackUp, FileExistsError, and OSError when it cannot be written.
    """
    data_dir = settings.server.data_dir
    if not (data_dir / "state.db").exists():
        raise NothingToBackUp(f"{data_dir} has no state.db yet: there is nothing to back up")
    if target.exists():
        raise FileExistsError(f"{target} exists: give another name")
    with tempfile.TemporaryDirectory(prefix=".postmirror-backup-", dir=target.absolute().parent) as scratch:
        copies = Path(scratch)
        members = {CONFIG: _text_copy(copies / "config", config.read_bytes())}
        chain = Chain(data_dir, DataKey(data_dir), settings.audit.file_size, settings.audit.files)
        with chain.locked():
            members["data/key"] = _text_copy(copies / "key", (data_dir / "key").read_bytes())
            for path in sorted(chain.folder.iterdir()):
                if MEMBER.fullmatch(name := f"data/audit/{path.name}"):
                    members[name] = _text_copy(copies / path.name, path.read_bytes())
            members["data/state.db"] = _database_copy(copies / "state.db", data_dir / "state.db")
        if with_mirrors:
            for number, folder in enumerate(sorted((data_dir / "mirrors").glob("*/*"))):
                members.update(_mirror(folder, copies / f"mirror-{number}"))
        return _pack(target, members)


def _mirror(folder: Path, copy: Path) -> Iterator[tuple[str, Path]]:
    if not (folder / "mirror.db").is_file():
        return
    place = f"data/mirrors/{folder.parent.name}/{folder.name}"
    # Blobs that come later have no row in the copy; of one that went meanwhile the row remains: it is fetched again.
    yield f"{place}/mirror.db", _database_copy(copy, folder / "mirror.db")
    for path in sorted((folder / "blobs").glob("*/*")):
        name, kept = f"{place}/blobs/{path.parent.name}/{path.name}", copy.with_name(f"{copy.name}-{path.name}")
        if MEMBER.fullmatch(name) and _hold(kept, path):
            yield name, kept


def _hold(copy: Path, path: Path) -> bool:
    """Give a file that may go at any moment a second name. False when it has gone."""
    try:
        os.link(path, copy)
    except FileNotFoundError:
        return False
    except OSError:  # another file system
        try:
            shutil.copyfile(path, copy)
        except FileNotFoundError:
            return False
    return True


def _text_copy(copy: Path, data: bytes) -> Path:
    copy.write_bytes(data)
    return copy


def _database_copy(copy: Path, source: Path) -> Path:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as db,
        closing(sqlite3.connect(copy)) as into,
    ):
        db.backup(into)
    return copy


def _pack(target: Path, members: dict[str, Path]) -> Contents:
    files: dict[str, dict[str, Any]] = {
        name: {"size": path.stat().st_size, "sha256": _digest(path)} for name, path in members.items()
    }
    made = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = json.dumps({"format": FORMAT, "postmirror": _version(), "made": made, "files": files}, indent=1).encode()
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                tar.addfile(_entry(MANIFEST, len(manifest)), io.BytesIO(manifest))
                for name, path in members.items():
                    with path.open("rb") as member:
                        tar.addfile(_entry(name, files[name]["size"]), member)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, target)
        sync_folder(target.absolute().parent)
    finally:
        draft.unlink(missing_ok=True)
    return contents_of(made, files)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


def _version() -> str:
    try:
        return metadata.version("postmirror")
    except metadata.PackageNotFoundError:
        return ""
