"""`data_dir/state.db`: tokens (server.state_tokens), sign-ins, the send journal (server.journal). Small, precious."""

from server.journal import Journal, KeyUsed, StillSending, Submission, TooManySends
from server.state_file import StateUnavailable
from server.state_forgotten import Forgetting
from server.state_sign_ins import SignIn, StoredSignIns
from server.state_tokens import IssuedToken, StoredTokens, TokenExists, TokenRevoked, TokenUnknown, digest

__all__ = [
    "IssuedToken", "KeyUsed", "SignIn", "State", "StateUnavailable", "StillSending", "Submission", "TokenExists",
    "TokenRevoked", "TokenUnknown", "TooManySends", "digest",
]  # fmt: skip


class State(Journal, StoredTokens, StoredSignIns, Forgetting):
    """The open `state.db`. Safe to share between threads; each call is one transaction.

    Every call raises StateUnavailable when the file cannot be used.
    """
