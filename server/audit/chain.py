"""`data_dir/audit/`: JSON lines that are only ever appended, each sealed to the one before it.

NNNNNNNN.jsonl  one event a line. Its last member, mac, is the HMAC-SHA256 of the mac before and the line without it;
                the first line of a file names the mac that the file before ended with, and the key.
head            number, mac and end of the last line, and the oldest file kept: a file that was cut short is noticed.
keys-ID         the chain's former keys, sealed under the key with that id.
lock            held by whoever appends: several processes write one chain.

Lines reach the disk before the head that speaks of them, so that a crash leaves at most lines beyond the head, which
the next writer adopts. The chain shows accidents and clumsy hands. Who can read the data key can forge it.
"""

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from mirror.database import private_folder
from server.key import DataKey, derive_key, sync_folder

NOTHING = "0" * 64
_MAC = ',"mac":"'
_TAIL = len(_MAC) + 64 + 2
_HEAD_BYTES = 512

Fields = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends: number and mac of the last line, its file and end, the oldest file kept, the key's id."""

    seq: int
    mac: str
    file: int
    end: int
    first: int
    key: str


class Chain:
    """The chain of one data directory, for writing.

    file_size: bytes after which a new file begins. files: how many are kept.
    """

    def __init__(self, data_dir: Path, key: DataKey, file_size: int, files: int) -> None:
        self.folder = private_folder(data_dir / "audit")
        self.key = key
        self._file_size = file_size
        self._files = files

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone with the chain for the length of a block."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def append(self, events: Sequence[Fields]) -> None:
        """Write these events down; on the disk when it returns. Raises OSError and FileUnusable."""
        with self.locked():
            key = audit_key(self.key.current())
            head, remarks = self._position(key)
            if head.key != key_id(key) or head.end >= self._file_size or head.file == 0 or remarks:
                head = self._begin_file(head, key, remarks)
            self._write(head, key, events)

    def remember(self, old: bytes, new: bytes) -> None:
        """Before a new data key takes the place of the old one: keep what the lines so far are checked with."""
        former = {**former_keys(self.folder, audit_key(old)), key_id(audit_key(old)): audit_key(old)}
        box = _box(audit_key(new))
        sealed = {
            each: base64.b64encode(box.encrypt(secret, [each.encode()])).decode() for each, secret in former.items()
        }
        path = self.folder / f"keys-{key_id(audit_key(new))}"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump(sealed, file)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.folder)

    def forget(self) -> None:
        """After it has: drop what only the old key could read."""
        for path in self.folder.glob("keys-*"):
            if path.name != f"keys-{key_id(audit_key(self.key.current()))}":
                path.unlink(missing_ok=True)

    def _position(self, key: bytes) -> tuple[Head, list[str]]:
        """Where to go on, and what was found wrong on the way there."""
        keys = {**former_keys(self.folder, key), key_id(key): key}
        head, remarks = read_head(self.folder, keys), []
        if head is None:
            numbers = file_numbers(self.folder)
            if not numbers:
                return Head(0, NOTHING, 0, 0, 1, key_id(key)), []
            remarks.append("head_lost")
            head = self._first_line_of(numbers[-1], numbers[0])
            if head is None:
                return Head(0, NOTHING, numbers[-1], 0, numbers[0], ""), remarks
        while True:
            head, is_whole = self._adopt(head, keys)
            if not is_whole:
                return head, [*remarks, "damaged"]
            following = self._first_line_of(head.file + 1, head.first)
            if following is None or following.mac != head.mac:
                self._drop_unbegun(head.file + 1)
                return head, remarks
            head = following

    def _drop_unbegun(self, number: int) -> None:
        """Remove a file whose first line was never whole: its writer died before anything counted."""
        path = file_path(self.folder, number)
        with contextlib.suppress(FileNotFoundError):
            if b"\n" not in path.read_bytes():
                path.unlink()

    def _first_line_of(self, number: int, first: int) -> Head | None:
        """The place before the first line of a file."""
        try:
            with file_path(self.folder, number).open("rb") as file:
                line = json.loads(file.readline(_HEAD_BYTES))
            return Head(int(line["seq"]) - 1, str(line["previous"]), number, 0, first, str(line["key"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _adopt(self, head: Head, keys: Mapping[str, bytes]) -> tuple[Head, bool]:
        """The head moved over whole lines that a process wrote but did not live to count. False: others are there."""
        if head.file == 0:
            return head, True
        path = file_path(self.folder, head.file)
        try:
            size = path.stat().st_size
            if size <= head.end:
                return head, size == head.end
            with path.open("rb") as file:
                file.seek(head.end)
                rest = file.read()
        except FileNotFoundError:
            return head, False
        lines = rest.split(b"\n")
        for line in lines[:-1]:
            if head.key not in keys or not is_next(line, head.seq + 1, head.mac, keys[head.key]):
                return head, False
            head = replace(head, seq=head.seq + 1, mac=line[-66:-2].decode(), end=head.end + len(line) + 1)
        if lines[-1]:
            # The end of a line that a power cut tore; nobody was told that it is written.
            os.truncate(path, head.end)
        return head, True

    def _begin_file(self, head: Head, key: bytes, remarks: Sequence[str]) -> Head:
        number = max([head.file, *file_numbers(self.folder)]) + 1
        path = file_path(self.folder, number)
        first = max(head.first, number - self._files + 1)
        line = {"event": "audit", "outcome": ",".join(remarks) or "file", "previous": head.mac, "key": key_id(key)}
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            begun = Head(head.seq, head.mac, number, 0, first, key_id(key))
            begun = self._write(begun, key, [line])
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        sync_folder(self.folder)
        for old in file_numbers(self.folder):
            if old < first:
                file_path(self.folder, old).unlink(missing_ok=True)
        return begun

    def _write(self, head: Head, key: bytes, events: Sequence[Fields]) -> Head:
        pieces, mac, seq = [], head.mac, head.seq
        for event in events:
            seq += 1
            line, mac = sealed_line({"seq": seq, "at": _now(), **event}, mac, key)
            pieces.append(line)
        data = "".join(pieces).encode()
        path = file_path(self.folder, head.file)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            try:
                written = 0
                while written < len(data):
                    written += os.write(descriptor, data[written:])
                os.fdatasync(descriptor)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, head.end)
                raise
        finally:
            os.close(descriptor)
        moved = replace(head, seq=seq, mac=mac, end=head.end + len(data))
        write_head(self.folder, moved, key)
        return moved


def audit_key(data_key: bytes) -> bytes:
    """The chain's key."""
    return derive_key(data_key, 32, "audit")


def key_id(key: bytes) -> str:
    """By what a file says which key it was written with."""
    return hashlib.sha256(key).hexdigest()[:16]


def former_keys(folder: Path, key: bytes) -> dict[str, bytes]:
    """The keys before this one, by their ids."""
    try:
        sealed = json.loads((folder / f"keys-{key_id(key)}").read_bytes())
        box = _box(key)
        return {each: box.decrypt(base64.b64decode(word), [each.encode()]) for each, word in sealed.items()}
    except (OSError, ValueError, AttributeError, TypeError, InvalidTag):
        return {}


def file_path(folder: Path, number: int) -> Path:
    """One file of the chain."""
    return folder / f"{number:08d}.jsonl"


def file_numbers(folder: Path) -> list[int]:
    """The files there are, oldest first."""
    return sorted(int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdecimal())


def sealed_line(fields: Fields, previous: str, key: bytes) -> tuple[str, str]:
    """(line with its mac, mac) of an event that follows the line with the mac `previous`."""
    body = json.dumps(fields, ensure_ascii=True, separators=(",", ":"))[:-1]
    mac = _mac(previous, body.encode(), key)
    return f'{body}{_MAC}{mac}"}}\n', mac


def is_next(line: bytes, seq: int, previous: str, key: bytes) -> bool:
    """Whether a line, without its line break, is the one with this number that follows the mac `previous`."""
    body = line[:-_TAIL]
    expected = f'{_MAC}{_mac(previous, body, key)}"}}'.encode()
    return hmac.compare_digest(line[-_TAIL:], expected) and body.startswith(b'{"seq":%d,' % seq)


def read_head(folder: Path, keys: Mapping[str, bytes]) -> Head | None:
    """The head, None when there is none or it cannot be believed."""
    try:
        body, _, mac = (folder / "head").read_text("ascii").strip().rpartition(" ")
        head = Head(**json.loads(body))
        key = keys[head.key]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return head if hmac.compare_digest(mac, _mac("head", body.encode(), key)) else None


def write_head(folder: Path, head: Head, key: bytes) -> None:
    """Put the head in the old one's place with one write."""
    fields = {name: getattr(head, name) for name in ("seq", "mac", "file", "end", "first", "key")}
    body = json.dumps(fields, separators=(",", ":"))
    text = f"{body} {_mac('head', body.encode(), key)}".ljust(_HEAD_BYTES - 1) + "\n"
    descriptor = os.open(folder / "head", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, text.encode("ascii"), 0)
    finally:
        os.close(descriptor)


def _mac(previous: str, body: bytes, key: bytes) -> str:
    return hmac.digest(key, previous.encode("ascii") + body, "sha256").hex()


def _box(key: bytes) -> AESSIV:
    return AESSIV(derive_key(key, 64, "audit-keys"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
