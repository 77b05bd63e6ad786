"""`data_dir/key`: 32 random bytes that every other key of this installation is derived from.

The file is replaced as a whole by `postmirror keys rotate`, and looked at on every use: a running process goes on with
the new key from its next request on.
"""

import os
import secrets
import stat
import struct
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from server.unusable import FileUnusable

KEY_BYTES = 32


class KeyUnsafe(FileUnusable):
    """The data key cannot be trusted or used; the text says what to do."""


class DataKey:
    """The data key of this moment. Made at the first start; one that goes away later is not made anew."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "key"
        self._bytes = load_key(data_dir)
        self._seen = _signature(self._path)

    def current(self) -> bytes:
        """The key. Raises KeyUnsafe when it has gone or cannot be trusted any more."""
        seen = _signature(self._path)
        if seen != self._seen:
            self._bytes = _read_key(self._path)
            self._seen = seen
        return self._bytes

    def is_usable(self) -> bool:
        """Whether the key can be trusted at this moment."""
        try:
            return bool(self.current())
        except KeyUnsafe:
            return False


def load_key(data_dir: Path) -> bytes:
    """The data key, made at the first call. Raises KeyUnsafe when others may read or write it."""
    path = data_dir / "key"
    if not path.exists():
        _create_key(path)
    return _read_key(path)


def replace_key(data_dir: Path, prepare: Callable[[bytes, bytes], None]) -> None:
    """Put a new data key in the place of the old one. prepare(old, new) is called before the new one counts.

    One rename decides: a process that dies before it has changed nothing. The caller keeps others from doing the same.
    """
    path = data_dir / "key"
    old, new = load_key(data_dir), secrets.token_bytes(KEY_BYTES)
    for left in path.parent.glob("key.*"):
        left.unlink(missing_ok=True)
    prepare(old, new)
    draft = _draft(path, new)
    draft.replace(path)
    sync_folder(path.parent)


def derive_key(key: bytes, length: int, *names: str) -> bytes:
    """A key of so many bytes for one purpose."""
    info = b"".join(struct.pack(">H", len(name.encode())) + name.encode() for name in ("postmirror", *names))
    return HKDF(SHA256(), length, None, info).derive(key)


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _signature(path: Path) -> tuple[int, int, int, int]:
    try:
        status = path.stat()
    except OSError as exc:
        raise KeyUnsafe(
            f"{path} cannot be read ({type(exc).__name__}): put it back, or start postmirror again"
        ) from exc
    return status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns


def _read_key(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise KeyUnsafe(f"{path} can be read or written by others: chmod 600 {path}")
            if status.st_uid != os.geteuid():
                raise KeyUnsafe(f"{path} belongs to another user")
            key = file.read(KEY_BYTES + 1)
    except OSError as exc:
        raise KeyUnsafe(f"{path} cannot be read ({type(exc).__name__}): check its owner") from exc
    if len(key) != KEY_BYTES:
        raise KeyUnsafe(f"{path} is not a data key: move it away, and a new one is made; old uids and cursors then end")
    return key


def _create_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = _draft(path, secrets.token_bytes(KEY_BYTES))
    try:
        # link() fails when another process was first, and never shows half a key.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _draft(path: Path, key: bytes) -> Path:
    draft = path.with_name(f"key.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return draft
