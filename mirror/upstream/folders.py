"""Folders of a mailbox: listed, asked for their status, opened, and kept open at rest."""

import contextlib
import logging
import re
import time
from collections.abc import Collection, Sequence
from typing import Any, Literal

from imapclient import IMAPClient
from imapclient.imap_utf7 import decode as decode_utf7

from mirror.errors import FolderClosed, UpstreamBroken, UpstreamRefused
from mirror.listing import FolderStatus, ListedFolder, Opened
from mirror.upstream import answers, fetched
from mirror.upstream.idling import Idling
from mirror.upstream.quirks import PLAIN, Quirk
from mirror.upstream.refusals import is_passing

logger = logging.getLogger(__name__)

RESTED_AT_MOST = 600.0
"""Seconds after which a folder that is kept open is closed, and asked for by STATUS again."""
PIPELINED = 25
"""STATUS commands under way at a time."""
_NO_FOLDER = b'"postmirror-no-such-folder"'
_SHIFTS = re.compile(rb"(&[A-Za-z0-9+,]*-)")
SPECIAL_USES = {
    use.lower(): use for use in ("\\All", "\\Archive", "\\Drafts", "\\Flagged", "\\Junk", "\\Sent", "\\Trash")
}


class Folders(Idling):
    """A session, for finding and opening folders."""

    def __init__(self, client: IMAPClient, quirk: Quirk = PLAIN, without: Collection[str] = ()) -> None:
        super().__init__(client, quirk, without)
        self._resting: tuple[bytes, Opened, float] | None = None
        """A folder that is kept open between passes, as it was when it was opened, and when."""

    def list_folders(self) -> tuple[list[ListedFolder], dict[bytes, FolderStatus]]:
        """Every folder, and the STATUS of each where the server gives it along (RFC 5819), else nothing of it.

        A folder that this session rests in is not closed: NOOP tells whether anything stirred there.
        """
        rests = self._resting is not None and time.monotonic() - self._resting[2] < RESTED_AT_MOST
        if not rests:
            self.unselect()
        looked = self._look_at_rest() if rests else b""
        answer: dict[str, list[Any]] = {}
        for extension in ("LIST-STATUS", "LIST-EXTENDED"):
            if not answer and self.has(extension):
                wanted = [b"SPECIAL-USE"] if self.has("SPECIAL-USE") else []
                if extension == "LIST-STATUS":
                    wanted.append(b"STATUS (%s)" % self._status_items())
                if not wanted:
                    continue
                try:
                    answer = self._run("LIST", b'"" "*" RETURN (%s)' % b" ".join(wanted))
                except UpstreamRefused as exc:
                    self.distrust(extension, str(exc))
        if not answer.get("LIST"):
            answer = self._run("LIST", b'"" "*"')
        folders = {}
        for line, literals in answers.lines(answer.get("LIST", [])):
            if (folder := _listed_folder(line, literals)) is not None:
                folders[folder.raw] = folder
        if not folders:
            raise UpstreamBroken("LIST shows no folder")
        statuses = self._statuses(answer)
        if looked:
            statuses |= self._status_at_rest(looked)
        return list(folders.values()), statuses

    def rest(self, folder: bytes) -> None:
        """Keep a folder open until the next list_folders, where the server tells of every change in an open folder.

        A large INBOX takes Dovecot 5 ms to say the STATUS of, and next to nothing while it is open.
        """
        if self._resting is None and self.has("QRESYNC") and self.quirk.fetches > 1:
            opened = self.examine(folder)
            self._resting = folder, opened, time.monotonic()
            self._stirred = False

    def _look_at_rest(self) -> bytes:
        """Ask whether anything stirred; the answer is ahead of that to the next command."""
        with self._translating():
            return self._send("NOOP")

    def _status_at_rest(self, looked: bytes) -> dict[bytes, FolderStatus]:
        """The status of the folder that this session rests in: as when it was opened, or known to be another."""
        if self._resting is None:
            return {}
        folder, opened, _ = self._resting
        try:
            with self._translating():
                self._complete("NOOP", looked)
        except UpstreamRefused:
            self._stirred = True
        if self._stirred:
            self._resting = None
            return {folder: FolderStatus(self.exists, None, opened.uidvalidity, None)}
        return {folder: FolderStatus(opened.exists, opened.uidnext, opened.uidvalidity, opened.highestmodseq)}

    def statuses(self, folders: Sequence[bytes]) -> dict[bytes, FolderStatus]:
        """STATUS of each folder, pipelined; those the server refuses are left out."""
        found: dict[bytes, FolderStatus] = {}
        items = b"(%s)" % self._status_items()
        for start in range(0, len(folders), PIPELINED):
            asked = [raw for raw in folders[start : start + PIPELINED] if answers.is_sendable(raw)]
            with self._translating():
                tags = [self._send("STATUS", answers.quoted(raw), items) for raw in asked]
                for raw, tag in zip(asked, tags, strict=True):
                    with contextlib.suppress(UpstreamRefused):
                        said = self._statuses(self._complete("STATUS", tag))
                        # Servers that spell the name otherwise than asked answer in order all the same.
                        found.update(zip([raw], said.values(), strict=True) if len(said) == 1 else said.items())
        return found

    def _status_items(self) -> bytes:
        items = b"MESSAGES UIDNEXT UIDVALIDITY"
        if self.has_condstore:
            items += b" HIGHESTMODSEQ"
        return items + b" MAILBOXID" if self.has("OBJECTID") and self.quirk.tells_mailbox_id else items

    @staticmethod
    def _statuses(answer: dict[str, list[Any]]) -> dict[bytes, FolderStatus]:
        found = {}
        for line, literals in answers.lines(answer.get("STATUS", [])):
            if (status := answers.status_line(line, literals)) is not None:
                found[status[0]] = status[1]
        return found

    def examine(self, folder: bytes, *, known: tuple[int, int] | None = None) -> Opened:
        """Open a folder read-only. known: its UIDVALIDITY and the modseq up to which changes are known (QRESYNC).

        What vanished since is in take_vanished. Raises UpstreamRefused when it does not exist or cannot be opened.
        """
        if known is not None and self.has("QRESYNC"):
            try:
                return self._open("EXAMINE", folder, b" (QRESYNC (%d %d))" % known)
            except UpstreamRefused:
                opened = self._open("EXAMINE", folder)
                self.distrust("QRESYNC", "EXAMINE with QRESYNC was refused")
                return opened
        return self._open("EXAMINE", folder)

    def _open(self, command: Literal["EXAMINE", "SELECT"], folder: bytes, parameter: bytes = b"") -> Opened:
        if not answers.is_sendable(folder):
            raise UpstreamRefused("a folder name with line breaks cannot be sent")
        self._begin_opening(folder)
        self._resting = None
        if not parameter and self.has_condstore and not self.has("ENABLE"):
            parameter = b" (CONDSTORE)"
        try:
            answer = self._run(command, answers.quoted(folder) + parameter)
        except UpstreamRefused as exc:
            raise exc if is_passing(str(exc)) else FolderClosed(str(exc)) from exc
        self._end_opening(folder, writable=command == "SELECT")
        uidvalidity = _number(answer, "UIDVALIDITY")
        if uidvalidity is None or "EXISTS" not in answer:
            raise UpstreamBroken(f"{command} answered without UIDVALIDITY or EXISTS")
        return Opened(
            exists=self.exists,
            uidvalidity=uidvalidity,
            uidnext=_number(answer, "UIDNEXT"),
            highestmodseq=_number(answer, "HIGHESTMODSEQ") if self.has_condstore and "NOMODSEQ" not in answer else None,
            changed=tuple(fetched.flags(answer.get("FETCH", []))) if b"QRESYNC" in parameter else None,
        )

    def has_open(self, folder: bytes) -> bool:
        """Whether this folder is the one that is open."""
        return self.is_open and self._selected is not None and self._selected[0] == folder

    def unselect(self) -> None:
        """Let go of the open folder, expunging nothing: what STATUS says of a selected one is not reliable."""
        self._resting = None
        if self._selected is None or (self._selected[1] and not self.has("UNSELECT")):
            return
        try:
            # CLOSE expunges nothing from a folder that was EXAMINEd (RFC 3501 6.4.2).
            self._run("UNSELECT" if self.has("UNSELECT") else "CLOSE")
        except UpstreamRefused:
            # pymap closes no read-only folder. After an EXAMINE that fails none is open (RFC 3501 6.3.2).
            with contextlib.suppress(UpstreamRefused):
                self._run("EXAMINE", _NO_FOLDER)
        self._selected = None
        self._imap.state = "AUTH"


def folder_name(raw: bytes) -> str:
    """A readable folder name: modified UTF-7 (RFC 3501 5.1.3) undone, raw UTF-8 accepted, anything else as it is."""
    if raw.upper() == b"INBOX":
        return "INBOX"
    name = (
        "".join(_unshifted(piece) for piece in _SHIFTS.split(raw)) if raw.isascii() else raw.decode("utf-8", "replace")
    )
    cleaned = "".join(
        character if character.isprintable() or character == "\t" else "\N{REPLACEMENT CHARACTER}" for character in name
    )
    return cleaned.encode("utf-8", "replace").decode("utf-8")


def _unshifted(piece: bytes) -> str:
    if _SHIFTS.fullmatch(piece):
        try:
            return str(decode_utf7(piece))
        except (UnicodeError, ValueError, LookupError):
            pass
    return piece.decode("ascii")


def _listed_folder(line: bytes, literals: Sequence[bytes]) -> ListedFolder | None:
    parts = answers.folder_line(line, literals)
    if parts is None:
        logger.warning("a LIST line could not be understood")
        return None
    raw, delimiter, attributes = parts
    lowered = {attribute.lower() for attribute in attributes}
    role = next((SPECIAL_USES[attribute] for attribute in sorted(lowered) if attribute in SPECIAL_USES), "")
    selectable = answers.is_sendable(raw) and not lowered & {"\\noselect", "\\nonexistent"}
    return ListedFolder(raw, folder_name(raw), delimiter, attributes, role, selectable)


def _number(answer: dict[str, list[Any]], key: str) -> int | None:
    values = [value for value in answer.get(key, []) if value]
    return answers.positive(values[-1]) if values else None
