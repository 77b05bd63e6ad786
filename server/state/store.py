"""`data_dir/state.db`, small and precious.

Tokens (server.state.tokens), sign-ins (server.state.sign_ins), the send journal (server.state.journal) and unconfirmed
changes (server.unconfirmed).
"""

from server.state.file import StateUnavailable
from server.state.forgotten import Forgetting
from server.state.journal import Journal, KeyUsed, StillSending, Submission, TooManyRefusals, TooManySends
from server.state.sign_ins import SignIn, StoredSignIns
from server.state.tokens import IssuedToken, StoredTokens, TokenExists, TokenRevoked, TokenUnknown, digest
from server.unconfirmed import Unconfirmed

__all__ = [
    "IssuedToken", "KeyUsed", "SignIn", "State", "StateUnavailable", "StillSending", "Submission", "TokenExists",
    "TokenRevoked", "TokenUnknown", "TooManyRefusals", "TooManySends", "digest",
]  # fmt: skip


class State(Journal, StoredTokens, StoredSignIns, Forgetting, Unconfirmed):
    """The open `state.db`. Safe to share between threads; each call is one transaction.

    Every call raises StateUnavailable when the file cannot be used.
    """
