"""Envelopes of messages as JSON, each made once for as long as the mirror gives out the same message."""

from collections.abc import Sequence

from mirror.mirrored import MirroredMessage
from server.remembered import Remembered
from server.said import as_json
from server.seal import Seal
from server.shown import envelope


class Envelopes:
    """Makes the envelopes of what policies show of messages, under an identity's names for them."""

    def __init__(self) -> None:
        self._made: Remembered[str] = Remembered()

    def of(self, seal: Seal, epoch: int, messages: Sequence[MirroredMessage]) -> list[str]:
        """The envelopes of these messages, in their order. epoch: of the mirror that they are from."""
        known = [self._made.find((seal, message)) for message in messages]
        missing = [message for message, found in zip(messages, known, strict=True) if found is None]
        if not missing:
            return [found[0] for found in known if found is not None]
        uids = seal.uids(epoch, [message.id for message in missing])
        made = [as_json(envelope(uid, message)) for uid, message in zip(uids, missing, strict=True)]
        self._made.keep([((seal, message), text) for message, text in zip(missing, made, strict=True)])
        rest = iter(made)
        return [next(rest) if found is None else found[0] for found in known]
