"""Signed links: an attachment to be had for five minutes without the bearer token.

A link is sealed (AEAD) and bound to a token, its identity, and one part of one message. It gives nothing by itself:
when it is used, the token must still count, its profile must still give out such links, and the message and the part
must still be visible to it.
"""

import time
from dataclasses import dataclass

from server.auth import Authenticator, Caller
from server.key import DataKey
from server.seal import AttachmentId, NotSealed, Seal

GOOD_FOR = 300
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link as a client gets it. until: seconds since 1970."""

    word: str
    until: int


class Links:
    """Makes and opens signed links."""

    def __init__(self, key: DataKey) -> None:
        self._key = key
        self._made_with = b""
        self._seal: Seal | None = None

    def make(self, caller: Caller, attachment: AttachmentId) -> Link:
        """A link to an attachment, for whoever has it."""
        until = int(time.time()) + GOOD_FOR
        return Link(self._current().link(caller.token, caller.identity, until, attachment), until)

    def open(self, word: str, authenticator: Authenticator) -> tuple[Caller, AttachmentId]:
        """Whose link it is, and to what. Raises NotSealed when it is forged or over, or its token is."""
        token, identity, until, attachment = self._current().link_of(word)
        if until <= time.time():
            raise NotSealed(word)
        caller = authenticator.by_token_name(token)
        if caller is None or caller.policy.content.attachment_links != "signed":
            raise NotSealed(word)
        for each in (caller, *(caller.at(provider) for provider in caller.providers)):
            if each.identity == identity:
                return each, attachment
        raise NotSealed(word)

    def _current(self) -> Seal:
        key = self._key.current()
        if self._seal is None or key != self._made_with:
            # Nobody is asked for a token first, so the seal is that of no identity: names are never empty.
            self._seal, self._made_with = Seal(key, "", "", ""), key
        return self._seal
