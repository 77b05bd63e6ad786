"""Writes to a mailbox, each with the proof that it happened to the message that was meant."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime
from imaplib import Time2Internaldate
from typing import Literal

from imapclient.imap_utf7 import encode as encode_utf7

from mirror.errors import MessageChanged, UpstreamRefused
from mirror.listing import Arrived, FlagsNow, Listed, ListedFolder, Place, Removed
from mirror.upstream import answers, fetched
from mirror.upstream.folders import folder_name
from mirror.upstream.mailbox import PIECE, Mailbox

DELETED = "\\Deleted"
NEWEST = 30
"""uids of a folder, the last ones, among which a Message-ID is looked for whatever the server's search says."""
SLOWEST_OCTETS = 50_000.0
"""Octets a second that a connection is expected to carry at least."""


class Upstream(Mailbox):
    r"""A mailbox, for reading and writing.

    Every write names its message by Place: UIDVALIDITY, size, INTERNALDATE and Message-ID are checked on this session
    first, and MessageChanged is raised when the uid is gone or names another message. UpstreamRefused: the server did
    not do it. A write whose connection is lost may have happened; the next sync tells. Flags change by +FLAGS and
    -FLAGS only, and EXPUNGE is never sent: it would take what other clients marked \Deleted.
    """

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
            if len(piece) != PIECE:
                return

    def store_flags(self, place: Place, change: Literal["add", "remove"], flags: Collection[str]) -> FlagsNow:
        """Add or remove flags of one message, and the flags it then has, read back from the server."""
        self._verify(place, writable=True)
        return self._store(place.uid, change, flags)

    def _store(self, uid: int, change: Literal["add", "remove"], flags: Collection[str]) -> FlagsNow:
        words = _flag_words(flags)
        sign = b"+" if change == "add" else b"-"
        self._run("UID", b"STORE %d %sFLAGS (%s)" % (uid, sign, words))
        # A STORE of a uid that is gone, or that changes nothing, answers OK without data: asking again decides.
        now = self.flags_of(uid)
        if now is None:
            raise MessageChanged(f"uid {uid} vanished while its flags were stored")
        kept = {flag.lower() for flag in now[1]}
        if any((flag.lower() in kept) != (change == "add") for flag in flags):
            raise UpstreamRefused("the server answered OK but did not store the flags")
        return FlagsNow(frozenset(now[1]), now[2])

    def move(self, place: Place, to: bytes, *, repeated: bool = False) -> Arrived:
        r"""Move one message to another folder, and where it is there.

        By MOVE (RFC 6851) where the server can, else COPY and `remove`; without UIDPLUS the original then stays, marked
        \Deleted. repeated: an earlier try, whose answer was lost, may have got further: a copy that is in the target
        already is not made again, and a message that is only there was moved.
        """
        if not answers.is_sendable(to):
            raise UpstreamRefused("a folder name with line breaks cannot be sent")
        return self._move(place, to, repeated) if self.has("MOVE") else self._copy_away(place, to, repeated)

    def _move(self, place: Place, to: bytes, repeated: bool) -> Arrived:
        if (there := self._moved_earlier(place, to, repeated)) is not None:
            return there
        answer = self._run("UID", b"MOVE %d %s" % (place.uid, answers.quoted(to)))
        copied = self._copied(answer.get("COPYUID", []), place.uid)
        # A MOVE of a uid that is gone answers OK too, and Outlook.com sends COPYUID without uids.
        if copied.uid is None and self.flags_of(place.uid) is not None:
            raise UpstreamRefused("the server answered OK but did not move the message")
        if copied.uid is not None and not self._is_same(place, to, copied):
            # Dovecot 2.3 goes on in a folder that is deleted and made anew after SELECT: uids then name its messages.
            self._run("UID", b"MOVE %d %s" % (copied.uid, answers.quoted(place.folder_raw)))
            raise MessageChanged("the folder was made anew while the message was moved; what was moved is back")
        return copied

    def _moved_earlier(self, place: Place, to: bytes, repeated: bool) -> Arrived | None:
        """Where an earlier try has put the message; None: it is where the mirror has it, in the folder that is open."""
        try:
            self._verify(place, writable=True)
        except MessageChanged:
            if repeated and (there := self._find(place, to)) is not None:
                return there
            raise
        return None

    def _is_same(self, place: Place, folder: bytes, arrived: Arrived) -> bool:
        """Whether what arrived in a folder is this message; servers may give it another date there, and size."""
        if self._open("SELECT", folder).uidvalidity != arrived.uidvalidity or arrived.uid is None:
            return True  # counted anew meanwhile: nothing there can be named
        if not place.message_id:
            listed = self.enumerate_uids([arrived.uid])
            return all(message.size == place.size for message in listed)
        blocks = self._sections([arrived.uid], b"BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]")
        return all(_has_message_id(block, place.message_id) for block in blocks.values())

    def _copy_away(self, place: Place, to: bytes, repeated: bool) -> Arrived:
        if (there := self._moved_earlier(place, to, repeated)) is not None:
            return there
        header = self._sections([place.uid], b"BODY.PEEK[HEADER]").get(place.uid, b"")
        there = self._find(place, to, header) if repeated else None
        if there is None:
            if repeated:
                self._verify(place, writable=True)
            answer = self._run("UID", b"COPY %d %s" % (place.uid, answers.quoted(to)))
            there = self._copied(answer.get("COPYUID", []), place.uid)
            if there.uid is None:
                # OK proves nothing: a COPY of a uid that is gone answers the same.
                there = self._find(place, to, header)
                if there is None:
                    raise UpstreamRefused("the server answered OK but did not copy the message")
                self._verify(place, writable=True)
        else:
            self._verify(place, writable=True)
        removed = self._remove(place.uid)
        return there if removed.expunged else replace(there, left=removed.flags)

    def remove(self, place: Place) -> Removed:
        r"""Delete one message for good; where the server has no UIDPLUS it stays, marked \Deleted."""
        self._verify(place, writable=True)
        return self._remove(place.uid)

    def _remove(self, uid: int) -> Removed:
        marked = self._store(uid, "add", [DELETED])
        if not self.has("UIDPLUS"):
            return Removed(expunged=False, flags=marked.flags)
        self._run("UID", b"EXPUNGE %d" % uid)
        if self.flags_of(uid) is not None:
            raise UpstreamRefused("the server answered OK but did not delete the message")
        return Removed(expunged=True)

    def append(
        self, folder: bytes, raw: bytes, flags: Collection[str] = (), internaldate: datetime | None = None
    ) -> Arrived:
        """Store a message (with CR LF line ends, without NUL) in a folder, and where it is there."""
        if not answers.is_sendable(folder) or b"\0" in raw:
            raise UpstreamRefused("a NUL or a folder name with line breaks cannot be sent")
        arguments = [answers.quoted(folder), b"(%s)" % _flag_words(flags)]
        if internaldate is not None:
            arguments.append(Time2Internaldate(internaldate).encode("ascii"))
        self.unselect()
        with self._translating(), self._allowing(len(raw) / SLOWEST_OCTETS):
            self._imap.literal = raw
            words = self._complete("APPEND", self._send("APPEND", *arguments)).get("APPENDUID", [b""])[-1].split()
        if len(words) == 2 and all(word.isdigit() for word in words):
            return Arrived(int(words[0]), int(words[1]))
        return Arrived(None, None)

    @contextlib.contextmanager
    def _allowing(self, more: float) -> Iterator[None]:
        """So many seconds more for each answer."""
        connected = self._client.socket()
        before = connected.gettimeout()
        if before is not None:
            connected.settimeout(before + more)
        yield
        connected.settimeout(before)

    def find_message_id(self, folder: bytes, message_id: str) -> Arrived | None:
        """Where a folder has the newest message with this Message-ID (without angle brackets); None where it has none.

        What the server's search finds is read again: it may find parts of words, or run behind (the newest are looked
        at whatever it says).
        """
        opened = self._open("EXAMINE", folder)
        if not opened.exists:
            return None
        try:
            searched = b'SEARCH HEADER Message-ID "%s"' % message_id.encode("ascii")
            found = answers.search_lines(self._run("UID", searched).get("SEARCH", []))
        except (UpstreamRefused, UnicodeEncodeError):
            found = set()
        following = opened.uidnext or max(self.uids(), default=0) + 1
        newest = self._run("UID", b"FETCH %d:* (UID FLAGS)" % max(1, following - NEWEST)).get("FETCH", [])
        found.update(uid for uid, _, _ in fetched.flags(newest))
        wanted = sorted(found)[-2 * NEWEST :]
        blocks = self._sections(wanted, b"BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]")
        same = [uid for uid, block in blocks.items() if _names(block, message_id)]
        return Arrived(opened.uidvalidity, max(same)) if same else None

    def arrived(self, folder: bytes, uid: int) -> Listed | None:
        """A message of a folder as a sync would list it; None when it is gone."""
        self._open("EXAMINE", folder)
        return next(iter(self.enumerate_uids([uid])), None)

    def create_folder(self, name: str) -> list[ListedFolder]:
        """Make a folder, subscribed, and every folder there is then. UpstreamRefused when it is there already."""
        raw = encode_utf7(name)
        if not answers.is_sendable(raw):
            raise UpstreamRefused("a folder name with line breaks cannot be sent")
        self._run("CREATE", answers.quoted(raw))
        with contextlib.suppress(UpstreamRefused):
            # Many mail programs show only what is subscribed.
            self._run("SUBSCRIBE", answers.quoted(raw))
        return self.list_folders()[0]

    def personal_prefix(self) -> str:
        """What names of the user's own folders begin with (RFC 2342), such as Courier's `INBOX.`; mostly ""."""
        if not self.has("NAMESPACE"):
            return ""
        told = self._run("NAMESPACE").get("NAMESPACE", [])
        return folder_name(answers.personal_namespace(told[-1])) if told and isinstance(told[-1], bytes) else ""

    @staticmethod
    def _copied(codes: list[bytes], uid: int) -> Arrived:
        for code in codes:
            mapping = answers.copied_line(code)
            if mapping is not None and uid in mapping[1]:
                return Arrived(mapping[0], mapping[2][mapping[1].index(uid)])
        return Arrived(None, None)

    def _find(self, place: Place, folder: bytes, header: bytes | None = None) -> Arrived | None:
        """Where a folder has this message, by size, INTERNALDATE and Message-ID, and the whole header where given.

        Without a Message-ID and a header nothing is found: too little would name it.
        """
        opened = self._open("EXAMINE", folder)
        near = b"SEARCH LARGER %d SMALLER %d" % (max(0, place.size - 1), place.size + 1)
        found = answers.search_lines(self._run("UID", near).get("SEARCH", []))
        at = [listed.uid for listed in self.enumerate_uids(found) if _is_at(listed, place)]
        headers = self._sections(at, b"BODY.PEEK[HEADER]") if at else {}
        same = [
            uid
            for uid, block in headers.items()
            if (block == header if header else bool(place.message_id) and _names(block, place.message_id))
        ]
        return Arrived(opened.uidvalidity, max(same)) if same else None

    def _verify(self, place: Place, *, writable: bool) -> None:
        opened = self._open("SELECT" if writable else "EXAMINE", place.folder_raw)
        if opened.uidvalidity != place.uidvalidity:
            raise MessageChanged(f"UIDVALIDITY is {opened.uidvalidity}, not {place.uidvalidity}")
        message_id = b"BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]"
        answer = self._run("UID", b"FETCH %d (UID FLAGS INTERNALDATE RFC822.SIZE %s)" % (place.uid, message_id))
        untagged = answer.get("FETCH", [])
        listed = fetched.listed(untagged).get(place.uid)
        block = fetched.bodies(untagged).get(place.uid, b"")
        if listed is None or not _is_at(listed, place) or not _has_message_id(block, place.message_id):
            raise MessageChanged(f"uid {place.uid} is gone or names another message")


def _flag_words(flags: Collection[str]) -> bytes:
    words = " ".join(sorted(flags))
    if not words.isascii() or any(octet in words for octet in '\r\n\0(){%*"'):
        raise UpstreamRefused("a flag with characters that no flag has")
    return words.encode("ascii")


def _names(block: bytes, message_id: str) -> bool:
    return b"<%s>" % message_id.encode("ascii", "replace") in b"".join(block.split())


def _is_at(listed: Listed, place: Place) -> bool:
    return listed.size == place.size and listed.internaldate == place.internaldate


def _has_message_id(block: bytes, message_id: str) -> bool:
    """Whether a header block has this Message-ID; ids that cleaning may have changed are not compared."""
    if not message_id.isascii() or not message_id.isprintable() or " " in message_id:
        return True
    return message_id.encode("ascii") in b"".join(block.split())
