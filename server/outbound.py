"""Writes: policy first, then upstream, and the mirror only after upstream has said yes."""

from config.secret import SecretSource
from mirror.credential import Credentials, as_configured
from server.audit.log import Audit
from server.changes import Appended, Created, Deleted, Flagged, FolderExists, Moved, NoTrash
from server.changing import Changing
from server.folder_name import BadFolderName
from server.mirrors import Mirrors
from server.sending.letter import Draft, Enclosure
from server.sending.mail import Denied, Sending, Sent, plain_addresses
from server.sending.outbox import Outbox, SentCopy
from server.state.store import State
from server.storing import NoMessage
from server.upstreams import Upstreams

__all__ = [
    "Appended", "BadFolderName", "Created", "Deleted", "Denied", "Draft", "Enclosure", "Flagged", "FolderExists",
    "Moved", "NoMessage", "NoTrash", "Outbound", "Sent", "SentCopy", "plain_addresses",
]  # fmt: skip


class Outbound(Sending, Changing):
    """Sends mail and changes mailboxes."""

    def __init__(
        self,
        state: State,
        mirrors: Mirrors,
        upstreams: Upstreams,
        audit: Audit,
        credentials: Credentials = as_configured,
    ) -> None:
        self._audit = audit
        self.outbox = self._outbox = Outbox(state, mirrors, upstreams)
        self._state = state
        self._mirrors = mirrors
        self._upstreams = upstreams
        self._credentials = credentials
        self._secrets: dict[SecretSource, str] = {}
