"""A connection to an IMAP server: commands out, answers in, and what the server says unasked on the way."""

import contextlib
import imaplib
import logging
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Self

from imapclient import IMAPClient

from mirror.errors import (
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    UpstreamThrottled,
    UpstreamUnavailable,
)
from mirror.upstream import answers
from mirror.upstream.quirks import PLAIN, Quirk
from mirror.upstream.refusals import throttled_seconds

logger = logging.getLogger(__name__)

LARGEST_LITERAL = 64 << 20
"""Octets of one literal; a server that announces more is not believed."""
_OF_MESSAGES = frozenset(["EXISTS", "EXPUNGE", "VANISHED", "FETCH", "RECENT"])
LONGEST_LINE = 64_000_000
"""Octets of one line: SEARCH answers of 140,000 uids exceed the 1,000,000 of imaplib."""


class Session:
    """One IMAP connection, logged in. Not for several threads at once.

    exists: messages in the open folder, by every EXISTS, EXPUNGE and VANISHED in the order they came (RFC 3501 7.3.1).
    distrusted: rungs dropped because the server broke them, with the reason.
    """

    def __init__(self, client: IMAPClient, quirk: Quirk = PLAIN, without: Collection[str] = ()) -> None:
        self._client = client
        self._imap = client._imap  # noqa: SLF001 - see the package's docstring
        self._imap._append_untagged = self._heard  # noqa: SLF001 - the only place that sees answers in their order
        self._imap.read = self._read_literal
        self._imap.readline = self._read_line
        self._received = 0
        self._capabilities: frozenset[str] = frozenset()
        self._without = frozenset(name.upper() for name in without)
        self._selected: tuple[bytes, bool] | None = None
        self._opening: bytes | None = None
        self._leaving: bytes | None = None
        self._vanished: dict[bytes, list[answers.Range]] = {}
        self._filling: set[bytes] = set()
        self._stirred = False
        """Whether anything was heard of the open folder's messages, asked for or not."""
        self.distrusted: dict[str, str] = {}
        self.quirk = quirk
        self.is_open = True
        self.exists = 0

    def _ask_capabilities(self) -> frozenset[str]:
        answer = self._run("CAPABILITY")
        words = b" ".join(line for line in answer.get("CAPABILITY", []) if isinstance(line, bytes))
        return frozenset(words.decode("ascii", "replace").upper().split()) - self._without

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Log out where that is quick, and close."""
        if self.is_open and None in self._imap.tagged_commands.values():
            self.abandon()  # a goodbye would wait behind what is under way
        elif self.is_open:
            self.is_open = False
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                self._client.socket().settimeout(1.0)
                self._client.logout()
            drop(self._client)

    def abandon(self) -> None:
        """Close without a word: the stream is not usable any more."""
        self.is_open = False
        drop(self._client)

    # -- the ladder

    @property
    def capabilities(self) -> frozenset[str]:
        """What the server announces now, without what is not to be used."""
        return self._capabilities

    def has(self, capability: str) -> bool:
        """Whether the server announced a capability after login, and it was neither switched off nor broken since."""
        return capability in self._capabilities

    @property
    def has_condstore(self) -> bool:
        """Whether modification sequences can be used (RFC 7162)."""
        return bool(self._capabilities & {"CONDSTORE", "QRESYNC"})

    @property
    def rung(self) -> str:
        """The capabilities in use, highest first, for `status`."""
        used = ("QRESYNC", "CONDSTORE", "LIST-STATUS", "ESEARCH", "OBJECTID", "X-GM-EXT-1", "MOVE", "UIDPLUS", "IDLE")
        return " ".join(name for name in used if self.has(name)) or "IMAP4rev1"

    def distrust(self, capability: str, reason: str) -> None:
        """Go without a capability that the server announced and broke."""
        if self.has(capability):
            logger.warning("capability not used any more", extra={"capability": capability, "reason": reason})
            self._capabilities -= {capability}
            self.distrusted[capability] = reason

    # -- commands

    def take_vanished(self) -> dict[bytes, list[answers.Range]]:
        """By folder, the uids that VANISHED answers named since the last call; they are said once (RFC 7162 3.2.10)."""
        vanished, self._vanished = self._vanished, {}
        return vanished

    def _begin_opening(self, folder: bytes) -> None:
        self._opening, self._leaving = folder, self._selected[0] if self._selected else None
        self._selected = None
        self._imap.state = "AUTH"

    def _end_opening(self, folder: bytes, *, writable: bool) -> None:
        self._opening = self._leaving = None
        self._imap.state = "SELECTED"
        self._selected = (folder, writable)

    def _run(self, name: str, *arguments: bytes) -> dict[str, list[Any]]:
        with self._translating():
            return self._complete(name, self._send(name, *arguments))

    def _run_each(self, name: str, commands: Sequence[bytes], *, at_once: int) -> list[dict[str, list[Any]]]:
        """The answers to several commands in turn, so many of them under way; the first refusal ends it."""
        came: list[dict[str, list[Any]]] = []
        refused: UpstreamRefused | None = None
        waiting, tags = deque(commands), deque[bytes]()
        with self._translating():
            self._catch_up()
            while tags or (waiting and refused is None):
                while waiting and refused is None and len(tags) < at_once:
                    tags.append(self._send_ahead(name, waiting.popleft()))
                try:
                    came.append(self._complete(name, tags.popleft()))
                except UpstreamRefused as exc:
                    refused = refused or exc
        if refused is not None:
            raise refused
        return came

    def _send(self, name: str, *arguments: bytes) -> bytes:
        self._catch_up()
        return self._send_ahead(name, *arguments)

    def _catch_up(self) -> None:
        """Read to their end the answers to commands that were sent ahead."""

    def _send_ahead(self, name: str, *arguments: bytes) -> bytes:
        """Send a command while the answers to others are still to be read."""
        self._imap.untagged_responses.clear()
        tag: bytes = self._imap._command(name, *arguments)  # noqa: SLF001 - see the package's docstring
        if name == "APPEND" or (arguments and arguments[0].startswith((b"COPY", b"MOVE"))):
            self._filling.add(tag)
        return tag

    def _complete(self, name: str, tag: bytes) -> dict[str, list[Any]]:
        """The untagged answers up to a command's own. Raises UpstreamRefused for NO and BAD."""
        try:
            kind, data = self._imap._command_complete(name, tag)  # noqa: SLF001 - see the package's docstring
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as exc:
            kind, data = "BAD", [str(exc).encode("utf-8", "replace")]
        answer = {key.upper(): value for key, value in self._imap.untagged_responses.items()}
        self._imap.untagged_responses.clear()
        if kind != "OK":
            said = _said(data)
            # OVERQUOTA of a write is about the mailbox's size (RFC 5530), of anything else about our haste (Gmail).
            if tag not in self._filling and (seconds := throttled_seconds(said)):
                self.abandon()
                raise UpstreamThrottled(f"the server throttles this account: {said}", seconds)
            raise UpstreamRefused(f"{name} was refused: {said}")
        return answer

    def _heard(self, kind: str, data: Any) -> None:
        self._imap.untagged_responses.setdefault(kind, []).append(b"" if data is None else data)
        word = kind.upper()
        self._stirred = self._stirred or word in _OF_MESSAGES
        if not isinstance(data, bytes):
            return
        if word == "EXISTS" and data.isdigit():
            self.exists = int(data)
        elif word == "EXPUNGE":
            self.exists -= 1
        elif word == "CLOSED":
            self._leaving = None
        elif word == "VANISHED":
            self._hear_vanished(*answers.vanished_line(data))

    def _hear_vanished(self, earlier: bool, ranges: list[answers.Range]) -> None:
        if self._selected is not None:
            folder: bytes | None = self._selected[0]
        else:
            # While another folder is opened, what comes before CLOSED is of the old one (RFC 7162 3.2.11).
            folder = self._opening if earlier or self._leaving is None else self._leaving
        if folder is not None:
            self._vanished.setdefault(folder, []).extend(ranges)
        if not earlier:
            self.exists -= sum(last - first + 1 for first, last in ranges)

    def take_received(self) -> int:
        """How many octets the server sent since the last call."""
        received, self._received = self._received, 0
        return received

    def _read_line(self) -> bytes:
        line: bytes = self._imap.file.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise imaplib.IMAP4.abort(f"the server sent a line of more than {LONGEST_LINE} octets")
        self._received += len(line)
        return line

    def _read_literal(self, size: int) -> bytes:
        if size > LARGEST_LITERAL:
            raise imaplib.IMAP4.abort(f"the server announces a literal of {size} octets")
        data: bytes = self._imap.file.read(size)
        if len(data) < size:
            raise imaplib.IMAP4.abort("the connection ended within a literal")
        self._received += size
        return data

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except UpstreamError:
            raise
        except (imaplib.IMAP4.abort, OSError, EOFError) as exc:
            self.abandon()
            raise UpstreamUnavailable(f"the connection was lost: {reason(exc)}") from exc
        except imaplib.IMAP4.error as exc:
            raise UpstreamRefused(reason(exc)) from exc
        except (ValueError, IndexError, KeyError, AssertionError, AttributeError) as exc:
            self.abandon()
            raise UpstreamBroken(f"an answer could not be understood: {reason(exc)}") from exc


def _said(data: Sequence[Any]) -> str:
    return b" ".join(item for item in data if isinstance(item, bytes)).decode("utf-8", "replace")[:200]


def reason(exc: BaseException) -> str:
    """What an error of imaplib or of the network says, cut short."""
    return (str(exc) or type(exc).__name__)[:200]


def drop(client: IMAPClient) -> None:
    """Close the socket, whatever state it is in."""
    with contextlib.suppress(OSError, imaplib.IMAP4.error, AttributeError):
        client.shutdown()
