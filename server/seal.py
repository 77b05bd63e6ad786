"""Opaque words that only we can make: virtual uids, cursors and attachment ids.

virtual uid    one AES block of (32-bit epoch of the mirror file, 64-bit message id, 32 zero bits), 22 characters of
               base64url. The zero bits make a forged one fail but once in 2^32; the epoch makes one from before a
               rebuild fail.
cursor, attachment id
               AES-SIV (RFC 5297): sealed and bound to what it was made for. Deterministic, so the same request gets
               the same bytes.

Every key is derived from the data key for one purpose and one (user, provider, profile), so that a word of one
identity is noise to another.
"""

import base64
import binascii
import json
import os
import secrets
import stat
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from server.unusable import FileUnusable

KEY_BYTES = 32
UID_CHARS = 22
MAX_SEALED_CHARS = 512
_BLOCK = struct.Struct(">IQI")
_MAX_PLAIN_BYTES = 1_024

Json = None | bool | int | float | str | Sequence["Json"]


class KeyUnsafe(FileUnusable):
    """The data key cannot be trusted or used; the text says what to do."""


class NotSealed(ValueError):
    """Forged, damaged, cut, of another identity, or made for another request."""


class TooLongToSeal(ValueError):
    """What should be sealed does not fit."""


def load_key(data_dir: Path) -> bytes:
    """The data key, made at the first call. Raises KeyUnsafe when others may read or write it."""
    path = data_dir / "key"
    if not path.exists():
        _create_key(path)
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyUnsafe(f"{path} can be read or written by others: chmod 600 {path}")
        if status.st_uid != os.geteuid():
            raise KeyUnsafe(f"{path} belongs to another user")
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise KeyUnsafe(f"{path} is not a data key: move it away, and a new one is made; old uids and cursors then end")
    return key


def _create_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"key.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # link() fails when another process was first, and never shows half a key.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


class Seal:
    """Makes and opens the opaque words of one identity."""

    def __init__(self, key: bytes, user: str, provider: str, profile: str) -> None:
        identity = (user, provider, profile)
        self._uids = Cipher(AES(_derive(key, 32, "uid", *identity)), ECB())  # noqa: S305 - one block, a permutation
        self._words = {purpose: AESSIV(_derive(key, 64, purpose, *identity)) for purpose in ("cursor", "attachment")}

    def uids(self, epoch: int, message_ids: Sequence[int]) -> list[str]:
        """The virtual uids of these messages, in their order."""
        plain = b"".join(_BLOCK.pack(epoch & 0xFFFFFFFF, message_id, 0) for message_id in message_ids)
        sealed = self._uids.encryptor().update(plain)
        return [_encode(sealed[start : start + 16]) for start in range(0, len(sealed), 16)]

    def message_id(self, epoch: int, uid: str) -> int:
        """The message id behind a virtual uid of a mirror with this epoch. Raises NotSealed."""
        if len(uid) != UID_CHARS:
            raise NotSealed(uid)
        made_in, message_id, zeros = _BLOCK.unpack(self._uids.decryptor().update(_decode(uid)))
        if zeros or made_in != epoch & 0xFFFFFFFF or message_id >= 1 << 63:
            raise NotSealed(uid)
        return int(message_id)

    def cursor(self, position: Sequence[Json], bound_to: Sequence[bytes]) -> str:
        """Seal a position for requests with exactly these properties. Raises TooLongToSeal."""
        return self._seal("cursor", position, bound_to)

    def position(self, cursor: str, bound_to: Sequence[bytes]) -> tuple[Json, ...]:
        """Open a cursor. Raises NotSealed when it was made for anything else."""
        return self._open("cursor", cursor, bound_to)

    def attachment(self, epoch: int, folder_id: int, message_id: int, part: str) -> str:
        """The id under which one attachment can be downloaded."""
        return self._seal("attachment", (epoch, folder_id, message_id, part), ())

    def attachment_of(self, word: str) -> tuple[int, int, int, str]:
        """(epoch, folder id, message id, part) behind an attachment id. Raises NotSealed."""
        match self._open("attachment", word, ()):
            case (int(epoch), int(folder_id), int(message_id), str(part)):
                return epoch, folder_id, message_id, part
        raise NotSealed(word)

    def _seal(self, purpose: str, value: Sequence[Json], bound_to: Sequence[bytes]) -> str:
        plain = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        packed = zlib.compress(plain, 9)
        plain = b"\x01" + packed if len(packed) < len(plain) else b"\x00" + plain
        word = _encode(self._words[purpose].encrypt(plain, list(bound_to) or None))
        if len(word) > MAX_SEALED_CHARS:
            raise TooLongToSeal(f"{len(word)} characters")
        return word

    def _open(self, purpose: str, word: str, bound_to: Sequence[bytes]) -> tuple[Json, ...]:
        if not 24 <= len(word) <= MAX_SEALED_CHARS:
            raise NotSealed(word)
        try:
            plain = self._words[purpose].decrypt(_decode(word), list(bound_to) or None)
        except InvalidTag:
            raise NotSealed(word) from None
        if plain[0]:
            plain = b"\x00" + zlib.decompressobj().decompress(plain[1:], _MAX_PLAIN_BYTES)
        return tuple(json.loads(plain[1:]))


def _derive(key: bytes, length: int, *names: str) -> bytes:
    info = b"".join(struct.pack(">H", len(name.encode())) + name.encode() for name in ("postmirror", *names))
    return HKDF(SHA256(), length, None, info).derive(key)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(word: str) -> bytes:
    """The bytes of a word in its one canonical spelling."""
    try:
        raw = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise NotSealed(word) from None
    if _encode(raw) != word:
        raise NotSealed(word)
    return raw
