"""What sign-ins left, sealed in `state.db` under a key that is derived from the data key for one mailbox."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from mirror.database import private_folder
from mirror.lock import Lock
from server.key import DataKey, derive_key
from server.oauth.tokens import Tokens
from server.state.store import SignIn, State

_LONGEST_WAIT = 15.0
_POLL = 0.02


class GrantSealed(ValueError):
    """What is stored cannot be opened with the data key of this installation."""


class RenewalBusy(TimeoutError):
    """Another process renews this sign-in, and has done so for long."""


class Grants:
    """The sign-ins of one installation."""

    def __init__(self, state: State, key: DataKey) -> None:
        self._state = state
        self._key = key

    def find(self, user: str, provider: str) -> SignIn | None:
        """The sign-in of a mailbox, still sealed."""
        return self._state.sign_in(user, provider)

    def opened(self, sign_in: SignIn) -> Tokens:
        """Its tokens. Raises GrantSealed."""
        return _opened(self._key.current(), sign_in)

    def put(self, user: str, provider: str, tokens: Tokens) -> None:
        """Keep the tokens of a sign-in, on the disk before this returns; what was there goes in the same moment."""
        sealed = _sealed(self._key.current(), user, provider, tokens)
        self._state.put_sign_in(user, provider, sealed, tokens.expires, tokens.refresh_expires)

    def renew(self, sign_in: SignIn, tokens: Tokens) -> None:
        """Put new tokens in the place of the old ones; a sign-in that was forgotten meanwhile stays forgotten."""
        sealed = _sealed(self._key.current(), sign_in.user, sign_in.provider, tokens)
        self._state.end_renewal(sign_in, sealed, tokens.expires, tokens.refresh_expires)

    def begin_renewal(self, user: str, provider: str) -> None:
        """The authorization server is about to be asked."""
        self._state.begin_renewal(user, provider)

    def end(self, user: str, provider: str, fault: str, reason: str) -> None:
        """The sign-in does not count any more."""
        self._state.end_sign_in(user, provider, fault, reason)

    @contextmanager
    def alone(self, user: str, provider: str) -> Iterator[None]:
        """While nobody else, in whatever process, renews or replaces this sign-in. Raises RenewalBusy."""
        path = lock_of(self._state.folder, user, provider)
        private_folder(path.parent)
        lock = Lock(path)
        until = time.monotonic() + _LONGEST_WAIT
        while not lock.acquire():
            if time.monotonic() > until:
                raise RenewalBusy(f"another process renews {user}/{provider}")
            time.sleep(_POLL)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def changing_key(self) -> Iterator["KeyChange"]:
        """While no sign-in is renewed, so that all of them can be sealed under a new data key."""
        with ExitStack() as locks:
            for each in self._state.sign_ins():
                locks.enter_context(self.alone(each.user, each.provider))
            yield KeyChange(self._state)


def lock_of(data_dir: Path, user: str, provider: str) -> Path:
    """The file whose lock whoever renews this sign-in holds."""
    return data_dir / "sign-in" / f"{user}.{provider}.lock"


class KeyChange:
    """Puts a copy under a new key beside what is sealed under the old one: either opens, whichever comes to count."""

    def __init__(self, state: State) -> None:
        self._state = state

    def prepare(self, old: bytes, new: bytes) -> None:
        """Called before the new key counts."""
        for each in self._state.sign_ins():
            sealed = _sealed(new, each.user, each.provider, _opened(old, each))
            self._state.seal_for_next_key(each.user, each.provider, sealed)


def _cipher(key: bytes, user: str, provider: str) -> AESSIV:
    return AESSIV(derive_key(key, 64, "sign-in", user, provider))


def _sealed(key: bytes, user: str, provider: str, tokens: Tokens) -> bytes:
    words = json.dumps([tokens.access, tokens.issued, tokens.expires, tokens.refresh, tokens.refresh_expires])
    return _cipher(key, user, provider).encrypt(words.encode(), None)


def _opened(key: bytes, sign_in: SignIn) -> Tokens:
    cipher = _cipher(key, sign_in.user, sign_in.provider)
    for sealed in filter(None, (sign_in.sealed, sign_in.sealed_next)):
        try:
            return Tokens(*json.loads(cipher.decrypt(sealed, None)))
        except InvalidTag:
            continue
    raise GrantSealed(f"the sign-in of {sign_in.user}/{sign_in.provider} was sealed with another data key")
