"""Messages of the open folder, read."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from imapclient import IMAPClient

from mirror.errors import UpstreamBroken, UpstreamRefused
from mirror.listing import Listed
from mirror.upstream import answers, fetched
from mirror.upstream.folders import Folders
from mirror.upstream.quirks import PLAIN, Quirk

logger = logging.getLogger(__name__)

PIECE = 1 << 20
"""Messages above this many octets are fetched in pieces."""
LARGEST_MESSAGE = 50 << 20
FETCHED_AT_ONCE = 200
"""Messages of one FETCH, several of which are under way."""
LIST_HEADERS = (
    "FROM TO CC BCC REPLY-TO SUBJECT DATE MESSAGE-ID IN-REPLY-TO REFERENCES CONTENT-TYPE"  # Content-Type: charset hint
)


@dataclass(eq=False, slots=True)
class Asked:
    """A section of messages that a server was asked for. sets: not sent yet; tags: of the commands under way."""

    item: bytes
    wanted: frozenset[int]
    sets: deque[bytes]
    tags: deque[bytes] = field(default_factory=deque)
    found: dict[int, bytes] = field(default_factory=dict)
    refused: UpstreamRefused | None = None


class Mailbox(Folders):
    """A session, for reading folders and messages."""

    def __init__(self, client: IMAPClient, quirk: Quirk = PLAIN, without: Collection[str] = ()) -> None:
        super().__init__(client, quirk, without)
        self._asked: deque[Asked] = deque()
        """Whose FETCHes are under way, in the order of the commands."""

    # -- messages of the open folder

    def enumerate(self, uid_set: str) -> list[Listed]:
        """uid, flags, internaldate, size and email id of the messages of a UID set (`"5:*"`)."""
        return list(self._enumerate(uid_set.encode("ascii")).values())

    def enumerate_uids(self, uids: Collection[int]) -> list[Listed]:
        """The same for given uids; those that did not come are missing."""
        return list(self._enumerate(*answers.uid_sets(uids, self.quirk.set_octets)).values())

    def _enumerate(self, *uid_sets: bytes) -> dict[int, Listed]:
        items = b"UID FLAGS INTERNALDATE RFC822.SIZE" + (b" MODSEQ" if self.has_condstore else b"")
        for capability, item in (("OBJECTID", b" EMAILID"), ("X-GM-EXT-1", b" X-GM-MSGID")):
            if self.has(capability):
                try:
                    return self._listed(uid_sets, items + item)
                except UpstreamRefused as exc:
                    self.distrust(capability, str(exc))
        return self._listed(uid_sets, items)

    def _listed(self, uid_sets: Sequence[bytes], items: bytes) -> dict[int, Listed]:
        commands = [b"FETCH %s (%s)" % (uid_set, items) for uid_set in uid_sets]
        found: dict[int, Listed] = {}
        for answer in self._run_each("UID", commands, at_once=self.quirk.fetches):
            found |= fetched.listed(answer.get("FETCH", []))
        return found

    def changed_since(self, modseq: int) -> list[fetched.FlagsLine]:
        """(uid, flags, modseq) of the messages changed since a modseq (RFC 7162 3.1.4.1)."""
        answer = self._run("UID", b"FETCH 1:* (UID FLAGS) (CHANGEDSINCE %d)" % modseq)
        return fetched.flags(answer.get("FETCH", []))

    def flags_of(self, uid: int) -> fetched.FlagsLine | None:
        """(uid, flags, modseq) of one message; None when it is gone."""
        items = b"(UID FLAGS MODSEQ)" if self.has_condstore else b"(UID FLAGS)"
        found = fetched.flags(self._run("UID", b"FETCH %d %s" % (uid, items)).get("FETCH", []))
        return next((line for line in found if line[0] == uid), None)

    def uids(self) -> set[int]:
        """Every uid of the open folder, by ESEARCH (RFC 4731) where the server can: its answer is compressed."""
        if self.has("ESEARCH"):
            try:
                lines = self._run("UID", b"SEARCH RETURN (ALL COUNT) ALL").get("ESEARCH", [])
                found, count = answers.esearch_line(lines[-1])
                if count == len(found):
                    return found
                reason = "COUNT and ALL of an ESEARCH answer differ"
            except UpstreamRefused as exc:
                reason = str(exc)
            except (ValueError, IndexError, TypeError):
                reason = "an ESEARCH answer could not be read"
            self.distrust("ESEARCH", reason)
        answer = self._run("UID", b"SEARCH ALL")
        if "SEARCH" not in answer and self.exists > 0:
            raise UpstreamBroken("SEARCH answered OK without a result")
        return answers.search_lines(answer.get("SEARCH", []))

    def headers(self, uids: Collection[int], fields: str = LIST_HEADERS) -> dict[int, bytes]:
        """The named header fields of each message, as a header block. uids that did not come are missing."""
        return self.take(self.ask_headers(uids, fields))

    def ask_headers(self, uids: Collection[int], fields: str = LIST_HEADERS) -> Asked:
        """Ask for these header fields without waiting for them, as ask_messages does for the whole."""
        return self._ask(uids, b"BODY.PEEK[HEADER.FIELDS (%s)]" % fields.encode("ascii"))

    def messages(self, uids: Collection[int]) -> dict[int, bytes]:
        """The whole of each message, \\Seen untouched. uids that did not come are missing."""
        return self.take(self.ask_messages(uids))

    def ask_messages(self, uids: Collection[int]) -> Asked:
        """Ask for the whole of each message without waiting for it, \\Seen untouched; take gives what came.

        What follows on this session is sent behind it. A server that bears one command at a time is asked by take.
        """
        return self._ask(uids, b"BODY.PEEK[]")

    def take(self, asked: Asked) -> dict[int, bytes]:
        """What came of what was asked for. Raises UpstreamRefused when the server refused a part of it."""
        with self._translating():
            while asked.sets or asked.tags:
                self._top_up(asked)
                self._complete_first()
        if asked.refused is not None:
            raise asked.refused
        return asked.found

    def _sections(self, uids: Collection[int], item: bytes) -> dict[int, bytes]:
        """One section of each message, as many FETCHes under way as the server bears."""
        return self.take(self._ask(uids, item))

    def _ask(self, uids: Collection[int], item: bytes) -> Asked:
        ordered = sorted(set(uids))
        sets = [
            uid_set
            for at in range(0, len(ordered), FETCHED_AT_ONCE)
            for uid_set in answers.uid_sets(ordered[at : at + FETCHED_AT_ONCE], self.quirk.set_octets)
        ]
        asked = Asked(item, frozenset(ordered), deque(sets))
        if self.quirk.fetches > 1:
            with self._translating():
                self._top_up(asked)
        return asked

    def _top_up(self, asked: Asked) -> None:
        while asked.sets and len(asked.tags) < self.quirk.fetches:
            asked.tags.append(self._send_ahead("UID", b"FETCH %s (UID %s)" % (asked.sets.popleft(), asked.item)))
            self._asked.append(asked)

    def _complete_first(self) -> None:
        """Read the answer to the oldest FETCH under way; messages that others asked for may be among it."""
        asked = self._asked.popleft()
        try:
            came = self._complete("UID", asked.tags.popleft()).get("FETCH", [])
        except UpstreamRefused as exc:
            asked.refused = exc
            return
        bodies = fetched.bodies(came)
        for each in {id(one): one for one in (asked, *self._asked) if one.item == asked.item}.values():
            each.found |= {uid: bodies[uid] for uid in bodies.keys() & each.wanted}

    def _catch_up(self) -> None:
        while self._asked:
            self._complete_first()

    def large_message(self, uid: int, size: int, add: Callable[[bytes], None], limit: int = LARGEST_MESSAGE) -> bool:
        """One message fetched in pieces, handed over as they come, at most so many octets of it; False: it is gone.

        The end is a short piece, not RFC822.SIZE, which is wrong on Exchange and 0 on Proton Bridge.
        """
        came = 0
        while came < limit:
            piece = self._piece(uid, "", came, PIECE)
            if piece is None:
                return 0 < came >= size
            add(piece[: limit - came])
            came += len(piece)
            if len(piece) != PIECE:  # more than asked for: a server without partial FETCH sends the whole
                break
        return True

    def _piece(self, uid: int, section: str, offset: int, length: int) -> bytes | None:
        command = b"FETCH %d (UID BODY.PEEK[%s]<%d.%d>)" % (uid, section.encode("ascii"), offset, length)
        return fetched.bodies(self._run("UID", command).get("FETCH", [])).get(uid)
