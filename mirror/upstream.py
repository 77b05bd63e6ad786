"""The upstream IMAP server as typed answers: the only import of imapclient, and the only place that uses its `_imap`.

imapclient 4.1 gives connection, TLS, SASL and the FETCH parser. Commands are sent through imaplib below it, because
imapclient's own calls validate ranges after they ran, merge FETCH data without a uid into the message whose *uid*
equals the sequence number, decode folder names so strictly that one odd name loses the whole LIST, and hide COPYUID,
VANISHED and LIST-STATUS. Every failure leaves as an error of mirror.errors; a connection that failed in mid-command
is closed.

Folder names are bytes exactly as received (RFC 3501 5.1.3 is undone for display only). uids are always UIDs.
"""

import contextlib
import imaplib
import logging
import select
import socket
import ssl
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import imapclient
from imapclient import IMAPClient, SocketTimeout
from imapclient.imap_utf7 import decode as decode_utf7
from imapclient.response_parser import parse_fetch_response

from config.identity import Endpoint, Provider
from config.secret import SecretUnavailable
from mirror import answers
from mirror.errors import (
    AuthenticationRefused,
    MessageChanged,
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnavailable,
)
from mirror.listing import FlagsNow, FolderStatus, Listed, ListedFolder, Opened, Place

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 60.0
PIECE = 1 << 20
"""Messages above this many octets are fetched in pieces."""
LARGEST_MESSAGE = 50 << 20
SPECIAL_USES = {
    use.lower(): use for use in ("\\All", "\\Archive", "\\Drafts", "\\Flagged", "\\Junk", "\\Sent", "\\Trash")
}
LIST_HEADERS = (
    "FROM TO CC BCC REPLY-TO SUBJECT DATE MESSAGE-ID IN-REPLY-TO REFERENCES CONTENT-TYPE"  # Content-Type: charset hint
)

imaplib._MAXLINE = 64_000_000  # type: ignore[attr-defined]  # noqa: SLF001 - SEARCH answers of 140,000 uids exceed 1 MB

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _NamedContext(ssl.SSLContext):
    # A context that checks the certificate against the configured name instead of the host that was dialled.
    name: str | None = None

    def wrap_socket(self, sock: Any, *args: Any, **kwargs: Any) -> Any:
        if self.name is not None:
            kwargs["server_hostname"] = self.name
        return super().wrap_socket(sock, *args, **kwargs)


def tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """A verifying context, TLS 1.2 or newer, for this endpoint's CA file and certificate name.

    Raises UpstreamUnavailable when the CA file cannot be read.
    """
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.name = endpoint.server_name
    try:
        if endpoint.ca_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(endpoint.ca_file.expanduser())
    except OSError as exc:
        raise UpstreamUnavailable(f"ca_file {endpoint.ca_file} cannot be used: {exc}") from exc
    return context


class Upstream:
    """One IMAP connection, logged in. Not for several threads at once."""

    def __init__(self, client: IMAPClient) -> None:
        self._client = client
        self._imap = client._imap  # noqa: SLF001 - see the module's docstring
        self._capabilities: frozenset[str] = frozenset()
        self._selected: tuple[bytes, bool] | None = None
        self.is_open = True
        self.exists = 0
        """Messages in the open folder, by the last EXISTS and the EXPUNGEs since (RFC 3501 7.3.1)."""

    @classmethod
    def connect(
        cls, provider: Provider, *, connect_timeout: float = CONNECT_TIMEOUT, read_timeout: float = READ_TIMEOUT
    ) -> "Upstream":
        """A connection logged in as the provider's user.

        Raises UpstreamUnavailable or AuthenticationRefused; no credential is sent before TLS where TLS is asked for.
        """
        endpoint = provider.imap
        user, source = provider.login(endpoint)
        if source is None:
            raise AuthenticationRefused(f"no password is configured for {endpoint.host}: set password")
        try:
            password = source.read()
        except SecretUnavailable as exc:
            raise AuthenticationRefused(str(exc)) from exc
        client: IMAPClient | None = None
        try:
            context = None if endpoint.security == "plain" else tls_context(endpoint)
            client = IMAPClient(
                endpoint.host,
                endpoint.port,
                ssl=endpoint.security == "tls",
                ssl_context=context,
                timeout=SocketTimeout(connect_timeout, min(read_timeout, 15.0)),
            )
            client._imap.debug = 0  # noqa: SLF001 - its default formats every literal: 4 times slower
            # imaplib writes a literal and the line end after it apart; without this the second waits 40 ms for an ACK.
            client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.folder_encode = False
            client.normalise_times = False
            if endpoint.security == "starttls":
                client.starttls(context)
            upstream = cls(client)
            upstream._log_in(user, password)
            client.socket().settimeout(read_timeout)
        except BaseException as exc:
            if client is not None:
                _drop(client)
            if isinstance(exc, UpstreamError) or not isinstance(exc, OSError | imaplib.IMAP4.error | EOFError):
                raise
            raise UpstreamUnavailable(f"{endpoint.host}:{endpoint.port} cannot be used: {_reason(exc)}") from exc
        return upstream

    def _log_in(self, user: str, password: str) -> None:
        before = self._ask_capabilities()
        try:
            if "LOGINDISABLED" in before and "AUTH=PLAIN" not in before:
                raise AuthenticationRefused("the server offers no login without TLS (LOGINDISABLED)")
            # LOGIN cannot carry a non-ASCII password; SASL PLAIN can (RFC 4616).
            if "AUTH=PLAIN" in before:
                self._imap.authenticate("PLAIN", lambda _: f"\0{user}\0{password}".encode())
            else:
                self._client.login(user, password)
        except (imaplib.IMAP4.abort, OSError):
            raise
        except imaplib.IMAP4.error as exc:
            raise AuthenticationRefused("the server does not accept the user name or password") from exc
        self._capabilities = self._ask_capabilities()
        if "ENABLE" in self._capabilities and "CONDSTORE" in self._capabilities:
            with contextlib.suppress(UpstreamRefused):
                self._run("ENABLE", b"CONDSTORE")

    def _ask_capabilities(self) -> frozenset[str]:
        answer = self._run("CAPABILITY")
        words = b" ".join(line for line in answer.get("CAPABILITY", []) if isinstance(line, bytes))
        return frozenset(words.decode("ascii", "replace").upper().split())

    def __enter__(self) -> "Upstream":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Log out where that is quick, and close."""
        if self.is_open:
            self.is_open = False
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                self._client.socket().settimeout(1.0)
                self._client.logout()
            _drop(self._client)

    def abandon(self) -> None:
        """Close without a word: the stream is not usable any more."""
        self.is_open = False
        _drop(self._client)

    def has(self, capability: str) -> bool:
        """Whether the server announced a capability, after login."""
        return capability in self._capabilities

    @property
    def has_condstore(self) -> bool:
        """Whether modification sequences can be used (RFC 7162)."""
        return bool(self._capabilities & {"CONDSTORE", "QRESYNC"})

    # -- folders

    def list_folders(self) -> tuple[list[ListedFolder], dict[bytes, FolderStatus]]:
        """Every folder, and the STATUS of each where the server gives it along (RFC 5819), else nothing of it."""
        if self.has("LIST-STATUS"):
            answer = self._run("LIST", b'"" "*" RETURN (SPECIAL-USE STATUS (%s))' % self._status_items())
        elif self.has("SPECIAL-USE") and self.has("LIST-EXTENDED"):
            answer = self._run("LIST", b'"" "*" RETURN (SPECIAL-USE)')
        else:
            answer = self._run("LIST", b'"" "*"')
        folders = {}
        for line, literals in answers.lines(answer.get("LIST", [])):
            if (folder := _listed_folder(line, literals)) is not None:
                folders[folder.raw] = folder
        if not any(raw.upper() == b"INBOX" for raw in folders):
            raise UpstreamBroken("LIST shows no INBOX")
        return list(folders.values()), self._statuses(answer)

    def statuses(self, folders: Sequence[bytes]) -> dict[bytes, FolderStatus]:
        """STATUS of each folder, pipelined; those the server refuses are left out."""
        found: dict[bytes, FolderStatus] = {}
        items = b"(%s)" % self._status_items()
        for start in range(0, len(folders), 25):
            with self._translating():
                tags = [
                    self._imap._command("STATUS", _sendable(raw), items)  # noqa: SLF001
                    for raw in folders[start : start + 25]
                ]
                for tag in tags:
                    with contextlib.suppress(UpstreamRefused):
                        found.update(self._statuses(self._complete("STATUS", tag)))
        return found

    def _status_items(self) -> bytes:
        return b"MESSAGES UIDNEXT UIDVALIDITY" + (b" HIGHESTMODSEQ" if self.has_condstore else b"")

    @staticmethod
    def _statuses(answer: dict[str, list[Any]]) -> dict[bytes, FolderStatus]:
        found = {}
        for line, literals in answers.lines(answer.get("STATUS", [])):
            if (status := answers.status_line(line, literals)) is not None:
                found[status[0]] = status[1]
        return found

    def examine(self, folder: bytes) -> Opened:
        """Open a folder read-only. Raises UpstreamRefused when it does not exist or cannot be opened."""
        return self._open("EXAMINE", folder)

    def _open(self, command: Literal["EXAMINE", "SELECT"], folder: bytes) -> Opened:
        self._selected = None
        self._imap.state = "AUTH"
        argument = _sendable(folder)
        if self.has_condstore and not self.has("ENABLE"):
            argument += b" (CONDSTORE)"
        answer = self._run(command, argument)
        self._imap.state = "SELECTED"
        self._selected = (folder, command == "SELECT")
        uidvalidity = _number(answer, "UIDVALIDITY")
        if uidvalidity is None or "EXISTS" not in answer:
            raise UpstreamBroken(f"{command} answered without UIDVALIDITY or EXISTS")
        return Opened(
            exists=_number(answer, "EXISTS") or 0,
            uidvalidity=uidvalidity,
            uidnext=_number(answer, "UIDNEXT"),
            highestmodseq=None if "NOMODSEQ" in answer else _number(answer, "HIGHESTMODSEQ"),
        )

    def has_open(self, folder: bytes) -> bool:
        """Whether this folder is the one that is open."""
        return self.is_open and self._selected is not None and self._selected[0] == folder

    # -- reading messages of the open folder

    def enumerate(self, uid_set: str) -> list[Listed]:
        """uid, flags, internaldate and size of the messages of a UID set (`"5:*"`)."""
        return list(self._enumerate(uid_set.encode("ascii")).values())

    def enumerate_uids(self, uids: Collection[int]) -> list[Listed]:
        """The same for given uids; those that did not come are missing."""
        found: dict[int, Listed] = {}
        for uid_set in answers.uid_sets(uids):
            found |= self._enumerate(uid_set)
        return list(found.values())

    def _enumerate(self, uid_set: bytes) -> dict[int, Listed]:
        items = b"(UID FLAGS INTERNALDATE RFC822.SIZE%s)" % (b" MODSEQ" if self.has_condstore else b"")
        answer = self._run("UID", b"FETCH %s %s" % (uid_set, items))
        found = {}
        for line, literals in answers.lines(answer.get("FETCH", [])):
            listed = answers.listed(line) if not literals else None
            if listed is None:
                listed = _listed_slowly(line, literals)
            if listed is not None:
                found[listed.uid] = listed
        return found

    def flags(self, uids: str = "1:*", *, changed_since: int | None = None) -> list[tuple[int, tuple[str, ...], int]]:
        """(uid, flags, modseq) of a set, or only of those changed since a modseq (RFC 7162 3.1.4.1)."""
        since = b" (CHANGEDSINCE %d)" % changed_since if changed_since is not None else b""
        answer = self._run("UID", b"FETCH %s (UID FLAGS)%s" % (uids.encode("ascii"), since))
        found = {}
        for line, literals in answers.lines(answer.get("FETCH", [])):
            items = answers.uid_and_flags(line) if not literals else None
            if items is None:
                items = _uid_and_flags_slowly(line, literals)
            if items is not None:
                found[items[0]] = items
        return list(found.values())

    def uids(self, criteria: bytes = b"ALL") -> set[int]:
        """Every uid of the open folder that meets fixed criteria (never a user's text)."""
        answer = self._run("UID", b"SEARCH " + criteria)
        if "SEARCH" not in answer:
            raise UpstreamBroken("SEARCH answered OK without a result")
        return {int(word) for line in answer["SEARCH"] for word in line.split() if word.isdigit()}

    def headers(self, uids: Collection[int], fields: str = LIST_HEADERS) -> dict[int, bytes]:
        """The named header fields of each message, as a header block. uids that did not come are missing."""
        found: dict[int, bytes] = {}
        for uid_set in answers.uid_sets(uids):
            items = b"(UID BODY.PEEK[HEADER.FIELDS (%s)])" % fields.encode("ascii")
            found |= self._literals(self._run("UID", b"FETCH %s %s" % (uid_set, items)), uids)
        return found

    def messages(self, uids: Sequence[int]) -> dict[int, bytes]:
        """The whole of each message, \\Seen untouched. uids that did not come are missing."""
        found: dict[int, bytes] = {}
        for uid_set in answers.uid_sets(uids):
            found |= self._literals(self._run("UID", b"FETCH %s (UID BODY.PEEK[])" % uid_set), uids)
        return found

    def large_message(self, uid: int, limit: int = LARGEST_MESSAGE) -> bytes | None:
        """One message fetched in pieces, at most so many octets of it; None when it is gone.

        The end is a short piece, not RFC822.SIZE, which is wrong on Exchange and 0 on Proton Bridge.
        """
        data = bytearray()
        while len(data) < limit:
            piece = self._piece(uid, "", len(data), PIECE)
            if piece is None:
                return bytes(data) if data else None
            data += piece
            if len(piece) < PIECE:
                break
        return bytes(data)

    def _piece(self, uid: int, section: str, offset: int, length: int) -> bytes | None:
        command = b"FETCH %d (UID BODY.PEEK[%s]<%d.%d>)" % (uid, section.encode("ascii"), offset, length)
        return self._literals(self._run("UID", command), (uid,)).get(uid)

    def _literals(self, answer: dict[str, list[Any]], uids: Collection[int]) -> dict[int, bytes]:
        found = {}
        wanted = set(uids)
        for line, literals in answers.lines(answer.get("FETCH", [])):
            items = _parsed(line, literals)
            if items is None or items.get(b"UID") not in wanted:
                continue
            for key, value in items.items():
                if key.startswith(b"BODY[") and isinstance(value, bytes):
                    found[items[b"UID"]] = value
        return found

    # -- one message by its place, for reads and writes on a reader's behalf

    def fetch_section(self, place: Place, section: str) -> Iterator[bytes]:
        r"""The raw octets of a section (RFC 3501 6.4.5, `"2.1"`) in pieces; \Seen untouched.

        Raises MessageChanged when the uid no longer names this message.
        """
        self._verify(place, writable=False)
        offset = 0
        while True:
            piece = self._piece(place.uid, section, offset, PIECE)
            if piece is None:
                return
            yield piece
            offset += len(piece)
            if len(piece) < PIECE:
                return

    def store_flags(self, place: Place, change: Literal["add", "remove"], flags: Collection[str]) -> FlagsNow:
        """Add or remove flags of one message, and the flags it then has, read back from the server.

        UIDVALIDITY, size and INTERNALDATE are checked on this session first: raises MessageChanged when the uid is gone
        or names another message. Raises UpstreamRefused when the server does not store them.
        """
        self._verify(place, writable=True)
        sign = b"+" if change == "add" else b"-"
        words = " ".join(sorted(flags)).encode("ascii")
        self._run("UID", b"STORE %d %sFLAGS (%s)" % (place.uid, sign, words))
        # A STORE of a uid that is gone, or that changes nothing, answers OK without data: asking again decides.
        now = [answer for answer in self.flags(str(place.uid)) if answer[0] == place.uid]
        if not now:
            raise MessageChanged(f"uid {place.uid} vanished while its flags were stored")
        kept = {flag.lower() for flag in now[0][1]}
        if any((flag.lower() in kept) != (change == "add") for flag in flags):
            raise UpstreamRefused("the server answered OK but did not store the flags")
        return FlagsNow(frozenset(now[0][1]), now[0][2])

    def _verify(self, place: Place, *, writable: bool) -> None:
        opened = self._open("SELECT" if writable else "EXAMINE", place.folder_raw)
        if opened.uidvalidity != place.uidvalidity:
            raise MessageChanged(f"UIDVALIDITY is {opened.uidvalidity}, not {place.uidvalidity}")
        same = [listed for listed in self.enumerate(str(place.uid)) if listed.uid == place.uid]
        if not same or same[0].size != place.size or same[0].internaldate != place.internaldate:
            raise MessageChanged(f"uid {place.uid} is gone or names another message")

    def check(self) -> None:
        """Ask the server for a sign of life. Raises UpstreamUnavailable."""
        self._run("NOOP")

    def idle(self, folder: bytes, timeout: float, started: Callable[[], None]) -> bool:
        """IDLE (RFC 2177) on a folder until the server reports a change or the time is up. Whether it did.

        started is called once the server listens: what happened before that may not be reported, so look then. A hint
        only: every waking is followed by a sync, and so is every renewal.
        """
        if not self.has_open(folder):
            self.examine(folder)
        with self._translating():
            self._imap.untagged_responses.clear()
            tag = self._imap._command("IDLE")  # noqa: SLF001
            while self._imap._get_response() is not None:  # noqa: SLF001 - None: the continuation has come
                if self._imap.tagged_commands[tag]:
                    self._complete("IDLE", tag)
                    return False
            started()
            socket = self._client.socket()
            if not (isinstance(socket, ssl.SSLSocket) and socket.pending()):
                select.select([socket], [], [], timeout)
            self._imap.send(b"DONE\r\n")
            return bool(self._complete("IDLE", tag).keys() & {"EXISTS", "EXPUNGE", "FETCH", "VANISHED", "RECENT"})

    # -- commands

    def _run(self, name: str, *arguments: bytes) -> dict[str, list[Any]]:
        with self._translating():
            self._imap.untagged_responses.clear()
            return self._complete(name, self._imap._command(name, *arguments))  # noqa: SLF001

    def _complete(self, name: str, tag: bytes) -> dict[str, list[Any]]:
        kind, data = self._imap._command_complete(name, tag)  # noqa: SLF001
        answer = {key.upper(): value for key, value in self._imap.untagged_responses.items()}
        self._imap.untagged_responses.clear()
        if "EXISTS" in answer:
            self.exists = int(answer["EXISTS"][-1])
        else:
            self.exists -= len(answer.get("EXPUNGE", []))
        if kind != "OK":
            raise UpstreamRefused(f"{name} was refused: {_said(data)}")
        return answer

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (imaplib.IMAP4.abort, OSError, EOFError) as exc:
            if not isinstance(exc, UpstreamUnavailable):
                self.abandon()
                raise UpstreamUnavailable(f"the connection was lost: {_reason(exc)}") from exc
            raise
        except imaplib.IMAP4.error as exc:
            raise UpstreamRefused(_reason(exc)) from exc
        except (UpstreamError, GeneratorExit):
            raise
        except (ValueError, IndexError, KeyError, AssertionError) as exc:
            self.abandon()
            raise UpstreamBroken(f"an answer could not be understood: {_reason(exc)}") from exc


def folder_name(raw: bytes) -> str:
    """A readable folder name: modified UTF-7 (RFC 3501 5.1.3) undone, raw UTF-8 accepted, anything else as it is."""
    if raw.upper() == b"INBOX":
        return "INBOX"
    try:
        name = decode_utf7(raw)
    except (UnicodeError, ValueError, LookupError):
        name = raw.decode("utf-8", "replace")
    cleaned = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    return cleaned.encode("utf-8", "replace").decode("utf-8")


def _listed_folder(line: bytes, literals: Sequence[bytes]) -> ListedFolder | None:
    parts = answers.folder_line(line, literals)
    if parts is None:
        logger.warning("a LIST line could not be understood")
        return None
    raw, delimiter, attributes = parts
    lowered = {attribute.lower() for attribute in attributes}
    role = next((SPECIAL_USES[attribute] for attribute in sorted(lowered) if attribute in SPECIAL_USES), "")
    sendable = not any(octet in raw for octet in (b"\r", b"\n", b"\0"))
    selectable = sendable and not lowered & {"\\noselect", "\\nonexistent"}
    return ListedFolder(raw, folder_name(raw), delimiter, attributes, role, selectable)


def _sendable(folder: bytes) -> bytes:
    try:
        return answers.quoted(folder)
    except ValueError as exc:
        raise UpstreamRefused(str(exc)) from exc


def _number(answer: dict[str, list[Any]], key: str) -> int | None:
    values = [value for value in answer.get(key, []) if value]
    return answers.positive(values[-1]) if values else None


def _flag_items(items: dict[bytes, Any]) -> tuple[str, ...]:
    # imapclient turns a keyword that looks like a number into one.
    words = items.get(b"FLAGS") or ()
    return answers.canonical_flags(word if isinstance(word, bytes) else str(word).encode() for word in words)


def _uid_and_flags_slowly(line: bytes, literals: Sequence[bytes]) -> tuple[int, tuple[str, ...], int] | None:
    items = _parsed(line, literals)
    if items is None or b"FLAGS" not in items:
        return None
    return int(items[b"UID"]), _flag_items(items), _modseq_item(items)


def _listed_slowly(line: bytes, literals: Sequence[bytes]) -> Listed | None:
    items = _parsed(line, literals)
    if items is None or b"UID" not in items or b"RFC822.SIZE" not in items:
        return None
    at = items.get(b"INTERNALDATE")
    date = at if isinstance(at, datetime) and at.tzinfo is not None else _EPOCH
    return Listed(int(items[b"UID"]), _flag_items(items), date, int(items[b"RFC822.SIZE"]), _modseq_item(items))


def _modseq_item(items: dict[bytes, Any]) -> int:
    value = items.get(b"MODSEQ")
    return int(value[0]) if isinstance(value, tuple) and value else 0


def _parsed(line: bytes, literals: Sequence[bytes]) -> dict[bytes, Any] | None:
    """The items of one FETCH response; None when it has no uid (data of another message) or cannot be parsed."""
    pieces: list[Any] = []
    rest = line
    for literal in literals:
        marker = b"{%d}" % len(literal)
        head, found, rest = rest.partition(marker)
        if not found:
            return None
        pieces.append((head + marker, literal))
    pieces.append(rest)
    try:
        answers = list(parse_fetch_response(pieces, normalise_times=False, uid_is_key=False).values())
    except (imapclient.exceptions.ProtocolError, ValueError, AssertionError, IndexError):
        logger.warning("a FETCH answer could not be parsed")
        return None
    return dict(answers[0]) if len(answers) == 1 and b"UID" in answers[0] else None


def _said(data: Sequence[Any]) -> str:
    return b" ".join(item for item in data if isinstance(item, bytes)).decode("utf-8", "replace")[:200]


def _reason(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__)[:200]


def _drop(client: IMAPClient) -> None:
    with contextlib.suppress(OSError, imaplib.IMAP4.error, AttributeError):
        client.shutdown()
