"""What a server means by a refusal: leave the account alone for a while, or try again later."""

import re

THROTTLED_SECONDS = 900.0
"""How long an account rests that the server throttles without saying how long."""

_BACKOFF = re.compile(r"Suggested Backoff Time: (\d{1,9}) milliseconds", re.IGNORECASE)
_THROTTLED = re.compile(r"\[(?:OVERQUOTA|THROTTLED)\]|request is throttled|bandwidth limits", re.IGNORECASE)
# RFC 5530: the account is in order, the server is not. Exchange says the last one of a mailbox it cannot open.
_NOT_NOW = re.compile(
    r"\[(?:UNAVAILABLE|INUSE|LIMIT|SERVERBUG|CONTACTADMIN)\]|too many|try again|temporar"
    r"|authenticated but not connected",
    re.IGNORECASE,
)


def throttled_seconds(said: str) -> float:
    """How long the server asks to be left alone in a refusal; 0 when it does not ask."""
    if match := _BACKOFF.search(said):
        return max(1.0, int(match[1]) / 1_000)
    return THROTTLED_SECONDS if _THROTTLED.search(said) else 0.0


def is_passing(said: str) -> bool:
    """Whether a refusal is for a reason that passes by itself (RFC 5530)."""
    return _NOT_NOW.search(said) is not None
