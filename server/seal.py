"""Opaque words that only we can make: virtual uids, cursors and attachment ids.

virtual uid    one AES block of (32-bit epoch of the mirror file, 64-bit message id, 32 zero bits), 22 characters of
               base64url. The zero bits make a forged one fail but once in 2^32; the epoch makes one from before a
               rebuild fail.
cursor, attachment id, link
               AES-SIV (RFC 5297): sealed and bound to what it was made for. Deterministic, so the same request gets
               the same bytes.

Every key is derived from the data key for one purpose and one (user, provider, profile), so that a word of one
identity is noise to another; that of links for no identity, since whoever has a link says no other.
"""

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from server.key import derive_key

UID_CHARS = 22
MAX_SEALED_CHARS = 512
_BLOCK = struct.Struct(">IQI")
_MAX_PLAIN_BYTES = 1_024
_WORTH_PACKING = 64

Json = None | bool | int | float | str | Sequence["Json"]

AttachmentId = tuple[int, int, int, str]
"""Epoch of the mirror's file, folder id, message id, part."""


class NotSealed(ValueError):
    """Forged, damaged, cut, of another identity, or made for another request."""


class TooLongToSeal(ValueError):
    """What should be sealed does not fit."""


class Seal:
    """Makes and opens the opaque words of one identity."""

    def __init__(self, key: bytes, user: str, provider: str, profile: str) -> None:
        identity = (user, provider, profile)
        self._uids = Cipher(AES(derive_key(key, 32, "uid", *identity)), ECB())  # noqa: S305 - one block, a permutation
        self._words = {
            purpose: AESSIV(derive_key(key, 64, purpose, *identity)) for purpose in ("cursor", "attachment", "link")
        }

    def uids(self, epoch: int, message_ids: Sequence[int]) -> list[str]:
        """The virtual uids of these messages, in their order."""
        plain = b"".join([_BLOCK.pack(epoch & 0xFFFFFFFF, message_id, 0) for message_id in message_ids])
        sealed = self._uids.encryptor().update(plain)
        # Two bytes more make the blocks end where base64 begins anew.
        padded = b"\0\0".join([sealed[start : start + 16] for start in range(0, len(sealed), 16)])
        words = base64.urlsafe_b64encode(padded).decode()
        return [words[start : start + UID_CHARS] for start in range(0, len(words), UID_CHARS + 2)]

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

    def attachment(self, attachment: AttachmentId) -> str:
        """The id under which one attachment can be downloaded."""
        return self._seal("attachment", attachment, ())

    def attachment_of(self, word: str) -> AttachmentId:
        """What is behind an attachment id. Raises NotSealed."""
        match self._open("attachment", word, ()):
            case (int(epoch), int(folder_id), int(message_id), str(part)):
                return epoch, folder_id, message_id, part
        raise NotSealed(word)

    def link(self, token: str, identity: str, until: int, attachment: AttachmentId) -> str:
        """A signed link of a token to an attachment."""
        return self._seal("link", (token, identity, until, *attachment), ())

    def link_of(self, word: str) -> tuple[str, str, int, AttachmentId]:
        """(token, identity, end, attachment) of a signed link. Raises NotSealed."""
        match self._open("link", word, ()):
            case (str(token), str(identity), int(until), int(epoch), int(folder_id), int(message_id), str(part)):
                return token, identity, until, (epoch, folder_id, message_id, part)
        raise NotSealed(word)

    def _seal(self, purpose: str, value: Sequence[Json], bound_to: Sequence[bytes]) -> str:
        plain = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        packed = zlib.compress(plain, 9) if len(plain) > _WORTH_PACKING else plain
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
