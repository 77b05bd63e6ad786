"""What can go wrong in the mirror.

MirrorError
├── UpstreamError               the real mail server
│   ├── UpstreamUnavailable     not reachable, timed out, hung up (a ConnectionError)
│   │   └── UpstreamThrottled   it asks to be left alone for a while
│   ├── AuthenticationRefused   reachable, but it does not accept the login
│   │   └── SignInNeeded        somebody has to sign in (OAuth 2) before it can
│   ├── UpstreamRefused         it answered NO or BAD to a command
│   │   └── FolderClosed        it does not let this account open a folder
│   ├── UpstreamBroken          its answers contradict each other; nothing of them was believed
│   └── MessageChanged          the uid no longer names the message we know (a LookupError)
├── ParserBroken                our own parser fails on a mail that is known to be good
├── StoreError                  the mirror's own file
│   ├── MirrorAbsent            there is no file yet: not mirrored so far (a LookupError)
│   ├── MirrorTooNew            written by a newer version of this program
│   └── MirrorCorrupt           SQLite says the file is damaged
├── MirrorBusy                  another process holds the sync pass of this mirror
├── QueryError                  a query that cannot be understood (a ValueError)
└── QueryTooSlow                a query that found no end in its time (a TimeoutError)
"""

from dataclasses import dataclass


class MirrorError(Exception):
    """Base of everything the mirror raises on purpose. remedy: what to do about it, a sentence, or ""."""

    remedy = ""


def in_plain_words(error: MirrorError) -> str:
    """What went wrong, and what to do about it."""
    return f"{str(error).rstrip('.')}. {error.remedy}" if error.remedy else str(error)


class UpstreamError(MirrorError):
    """The upstream mail server stood in the way. The text is for the log, not for a client."""


class UpstreamUnavailable(UpstreamError, ConnectionError):
    """The server cannot be reached, timed out or hung up."""

    remedy = "It is tried again by itself; when this lasts, check host, port, security and the network"


class UpstreamThrottled(UpstreamUnavailable):
    """The server asks this account to pause. seconds: for how long."""

    remedy = "It goes on by itself; a smaller sync.daily_bytes or a longer sync.interval asks less of the server"

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class AuthenticationRefused(UpstreamError):
    """The server does not accept the login."""

    remedy = "Correct username and password; many providers want an app password"


class SignInNeeded(AuthenticationRefused):
    """There is no sign-in that counts, or the server does not take what came of it; the text says what to do."""

    remedy = ""


class UpstreamRefused(UpstreamError):
    """The server answered NO or BAD to a command."""

    remedy = "It is tried again by itself; imap.disable switches off what a server cannot do"


class FolderClosed(UpstreamRefused):
    """The server refuses to open a folder, and not for reasons that pass."""

    remedy = "The other folders are not affected; sync.exclude leaves it out"


class UpstreamBroken(UpstreamError):
    """The server's answers contradict each other (sync invariants); nothing of them was believed."""

    remedy = "Nothing was taken over from it, and it is tried again by itself"


class MessageChanged(UpstreamError, LookupError):
    """The uid no longer names the message the mirror knows; nothing was written."""


class ParserBroken(MirrorError):
    """The parsing children fail on a plain mail: the fault is this program's or this machine's, not the mailbox's."""

    remedy = "No mail is put off for it. See the worker's log, free memory, and check the installation"


class StoreError(MirrorError):
    """The mirror's file cannot be used."""


class MirrorAbsent(StoreError, LookupError):
    """There is no mirror file yet: nothing of this mailbox has been mirrored."""


class MirrorTooNew(StoreError):
    """The file was written by a newer version of this program."""


class MirrorCorrupt(StoreError):
    """SQLite reports damage in the file."""


class MirrorBusy(MirrorError):
    """Another process holds the sync pass of this mirror."""


@dataclass
class QueryError(MirrorError, ValueError):
    """A query that cannot be understood.

    position: offset into the query, in characters. expected: what could stand there. example: a valid query, the
    corrected one where the mistake is a likely one.
    """

    position: int
    expected: str
    example: str

    def __str__(self) -> str:
        place = f"query error at position {self.position}: expected {self.expected}"
        return f"{place}. Example of a valid query: {self.example}"


class QueryTooSlow(MirrorError, TimeoutError):
    """A query that could not be answered in its time, not even in part."""

    def __init__(self) -> None:
        super().__init__("this search takes too long: add a word, a sender or a range of days, or leave out order by")
