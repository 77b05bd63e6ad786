"""Kinds of values in the configuration, checked on the way in, and the model that all others are made of."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

_DURATION = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
SPECIAL_USES = ("\\All", "\\Archive", "\\Drafts", "\\Flagged", "\\Important", "\\Junk", "\\Sent", "\\Trash")
"""What a folder can be for (RFC 6154 2, RFC 8457 3), as servers say it."""
GMAIL_VIEWS = "\\Gmail"
"""In a rule: the folders that Gmail makes by itself, below [Gmail] or [Google Mail]; others are a user's labels."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _duration(value: object) -> object:
    if isinstance(value, str):
        if match := _DURATION.fullmatch(value.strip()):
            return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
        raise ValueError('write a number and a unit, for example "30s", "2m", "12h", "7d"')
    if isinstance(value, timedelta):
        return value
    raise ValueError('write a number and a unit in quotes, for example "2m"')


def _at_least_ten_seconds(value: timedelta) -> timedelta:
    if value < timedelta(seconds=10):
        raise ValueError('use at least "10s": every pass asks the mail server')
    return value


def _folder_pattern(value: str) -> str:
    if value.startswith("\\") and value.casefold() not in {use.casefold() for use in (*SPECIAL_USES, GMAIL_VIEWS)}:
        raise ValueError(f"there is no special use {value}; there are {' '.join(SPECIAL_USES)}, and {GMAIL_VIEWS}")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Interval = Annotated[Duration, AfterValidator(_at_least_ten_seconds)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
MailAddress = Annotated[str, StringConstraints(pattern=r"^[^\s@<>\"(),:;]+@[^\s@<>\"(),:;]+$", max_length=320)]
FolderPattern = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_folder_pattern)]
HttpsUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s]+$", max_length=2_000)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Frozen(BaseModel):
    """A model that cannot change and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
