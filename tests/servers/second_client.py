"""An independent IMAP client on nothing but imaplib: what another mail program would do and see."""

import base64
import binascii
import hashlib
import imaplib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from tests.servers.ports import HOST

_TIMEOUT = 30.0
_LIST = re.compile(rb'\((?P<attributes>[^)]*)\) (?:"[^"]*"|NIL) (?P<name>.*)', re.DOTALL)
_FETCH = re.compile(rb"UID (\d+)")
_FLAGS = re.compile(rb"FLAGS \(([^)]*)\)")
_INTERNALDATE = re.compile(rb'INTERNALDATE "([^"]*)"')
_APPENDUID = re.compile(rb"APPENDUID \d+ ([\d:,]+)")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message to append, with the flags and INTERNALDATE it shall have."""

    raw: bytes
    flags: Sequence[str] = ()
    internaldate: datetime | None = None


@dataclass(frozen=True, slots=True, order=True)
class Listed:
    r"""One message as a folder has it. flags: as the server writes them, without \Recent."""

    uid: int
    flags: frozenset[str]
    sha256: str


class SecondClient:
    """One IMAP session.

    Folder names are written as people read them. A command that is refused raises imaplib's error.
    """

    def __init__(self, port: int, user: str, password: str) -> None:
        self.imap = imaplib.IMAP4(HOST, port, timeout=_TIMEOUT)
        self.imap.login(user, password)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up, with a word of goodbye when the server still listens."""
        try:
            self.imap.logout()
        except (imaplib.IMAP4.error, OSError):
            self.imap.shutdown()

    def append(self, folder: str, *messages: bytes | Incoming) -> list[int]:
        """The uids of the messages, appended in one command where that is possible; [] from a server without UIDPLUS.

        A hundred or so at once is quickest; split thousands.
        """
        mails = [message if isinstance(message, Incoming) else Incoming(message) for message in messages]
        if not self.can("MULTIAPPEND") and self.can("UIDPLUS"):
            return [uid for mail in mails for uid in self._append_one(folder, mail)]
        tag = self.imap._new_tag()
        self.imap.send(tag + f" APPEND {_quoted(folder)}".encode("ascii"))
        for mail in mails:
            flags = f" ({' '.join(mail.flags)})" if mail.flags else ""
            date = f" {imaplib.Time2Internaldate(mail.internaldate)}" if mail.internaldate else ""
            self.imap.send(f"{flags}{date} {{{len(mail.raw)}+}}\r\n".encode("ascii") + mail.raw)
        self.imap.send(b"\r\n")
        answer = self._answer(*self.imap._command_complete("APPEND", tag))
        found = _APPENDUID.search(answer[0])
        return _numbers(found[1].decode("ascii")) if found else []

    def _append_one(self, folder: str, mail: Incoming) -> list[int]:
        if self.imap.state == "SELECTED":
            # Courier appends to no folder that is open for reading only; CLOSE of such a one expunges nothing.
            self.imap.select(readonly=True)
            self.imap.close()
        date = imaplib.Time2Internaldate(mail.internaldate) if mail.internaldate else ""
        answer = self._answer(*self.imap.append(_quoted(folder), f"({' '.join(mail.flags)})", date, mail.raw))
        found = _APPENDUID.search(answer[0])
        return _numbers(found[1].decode("ascii")) if found else []

    def can(self, capability: str) -> bool:
        """Whether the server announces a capability."""
        return capability in self.imap.capability()[1][0].decode("ascii").split()

    def listing(self, folder: str) -> list[Listed]:
        """Every message of the folder by uid: the truth that a mirror is compared with."""
        if not self.examine(folder):
            return []
        listed: list[Listed] = []
        for item in self._answer(*self.imap.uid("FETCH", "1:*", "(UID FLAGS BODY.PEEK[])")):
            if isinstance(item, tuple):
                before, raw = item
                uid, flags = _FETCH.search(before), _FLAGS.search(before)
                assert uid, f"FETCH answer in an order this client does not read: {before!r}"
                assert flags, f"FETCH answer in an order this client does not read: {before!r}"
                names = frozenset(flags[1].decode("ascii").split()) - {"\\Recent"}
                listed.append(Listed(int(uid[1]), names, hashlib.sha256(raw).hexdigest()))
        return sorted(listed)

    def raw(self, folder: str, uid: int) -> bytes:
        """The bytes of one message."""
        self.examine(folder)
        answer = self._answer(*self.imap.uid("FETCH", str(uid), "BODY.PEEK[]"))
        raw: bytes = next(item[1] for item in answer if isinstance(item, tuple))
        return raw

    def uids(self, folder: str) -> list[int]:
        """The uids in the folder, ascending."""
        self.examine(folder)
        return sorted(map(int, self._answer(*self.imap.uid("SEARCH", "ALL"))[0].split()))

    def search(self, criteria: str | bytes) -> list[int]:
        """The uids that match in the open folder. Criteria are UTF-8; literals are written `{5+}`."""
        written = criteria.encode() if isinstance(criteria, str) else criteria
        tag = self.imap._new_tag()
        self.imap.send(tag + b" UID SEARCH CHARSET UTF-8 " + written + b"\r\n")
        self._answer(*self.imap._command_complete("UID SEARCH", tag))
        found = self.imap._untagged_response("OK", [None], "SEARCH")[1]
        return [int(number) for line in found if line for number in line.split()]

    def status(self, folder: str) -> dict[str, int]:
        """`{"MESSAGES": 3, "UIDNEXT": 4, "UIDVALIDITY": 1700000000}`."""
        line = self._answer(*self.imap.status(_quoted(folder), "(MESSAGES UIDNEXT UIDVALIDITY)"))[0]
        words = line[line.rindex(b"(") + 1 : line.rindex(b")")].decode("ascii").split()
        return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}

    def examine(self, folder: str) -> int:
        """The number of messages in the folder, which is then open for reading only."""
        return int(self._answer(*self.imap.select(_quoted(folder), readonly=True))[0])

    def expunge(self, folder: str, uids: Iterable[int]) -> None:
        """Delete these messages for good, and no others (UIDPLUS)."""
        wanted = _set(uids)
        self.add_flags(folder, _numbers(wanted), "\\Deleted")
        self._answer(*self.imap.uid("EXPUNGE", wanted))

    def add_flags(self, folder: str, uids: Iterable[int], *flags: str) -> None:
        """Set flags; the folder stays selected."""
        self._store(folder, uids, "+FLAGS", flags)

    def remove_flags(self, folder: str, uids: Iterable[int], *flags: str) -> None:
        """Take flags away; the folder stays selected."""
        self._store(folder, uids, "-FLAGS", flags)

    def move(self, folder: str, uids: Iterable[int], to: str) -> None:
        """Move messages to another folder: by MOVE, or else as programs do that do not know it."""
        wanted = _set(uids)
        self._answer(*self.imap.select(_quoted(folder)))
        if self.imap.uid("MOVE", wanted, _quoted(to))[0] != "OK":
            self._answer(*self.imap.uid("COPY", wanted, _quoted(to)))
            self.expunge(folder, _numbers(wanted))

    def copy(self, folder: str, uids: Iterable[int], to: str) -> None:
        """Copy messages to another folder."""
        self._answer(*self.imap.select(_quoted(folder)))
        self._answer(*self.imap.uid("COPY", _set(uids), _quoted(to)))

    def originals(self, folder: str) -> list[Incoming]:
        """Every message of the folder as it could be appended again, flags and INTERNALDATE included."""
        found = []
        if self.examine(folder):
            for item in self._answer(*self.imap.uid("FETCH", "1:*", "(FLAGS INTERNALDATE BODY.PEEK[])")):
                if isinstance(item, tuple):
                    flags, at = _FLAGS.search(item[0]), _INTERNALDATE.search(item[0])
                    assert flags, f"FETCH answer in an order this client does not read: {item[0]!r}"
                    assert at, f"FETCH answer in an order this client does not read: {item[0]!r}"
                    names = tuple(name for name in flags[1].decode("ascii").split() if name != "\\Recent")
                    date = datetime.strptime(at[1].decode("ascii").strip(), "%d-%b-%Y %H:%M:%S %z")
                    found.append(Incoming(item[1], names, date))
        return found

    def folders(self) -> dict[str, frozenset[str]]:
        r"""Attributes by folder name: `{"INBOX": {"\\HasNoChildren"}, …}`."""
        found = {}
        for item in self._answer(*self.imap.list()):
            line = b"".join((item[0][: item[0].rindex(b"{")], item[1])) if isinstance(item, tuple) else item
            if line and (match := _LIST.match(line)):
                attributes = frozenset(match["attributes"].decode("ascii").split())
                found[decode_name(match["name"].strip(b'"').decode("ascii"))] = attributes
        return found

    def create(self, folder: str) -> None:
        """A new, empty folder."""
        self._answer(*self.imap.create(_quoted(folder)))

    def rename(self, folder: str, to: str) -> None:
        """Give a folder another name."""
        self._answer(*self.imap.rename(_quoted(folder), _quoted(to)))

    def delete(self, folder: str) -> None:
        """Remove a folder with all its mail."""
        self._answer(*self.imap.delete(_quoted(folder)))

    def _store(self, folder: str, uids: Iterable[int], change: str, flags: Sequence[str]) -> None:
        self._answer(*self.imap.select(_quoted(folder)))
        self._answer(*self.imap.uid("STORE", _set(uids), change, f"({' '.join(flags)})"))

    # Any: imaplib gives lines, (line, literal) pairs or None, depending on the command.
    def _answer(self, state: str, data: list[Any]) -> list[Any]:
        if state != "OK":
            raise self.imap.error(f"{state} {data[0]!r}")
        return data


def encode_name(name: str) -> str:
    """A folder name in modified UTF-7 (RFC 3501 5.1.3), `Entw&APw-rfe` for `Entwürfe`."""

    def shifted(run: re.Match[str]) -> str:
        return f"&{base64.b64encode(run[0].encode('utf-16-be')).decode('ascii').rstrip('=').replace('/', ',')}-"

    return re.sub(r"[^\x20-\x7e]+", shifted, name.replace("&", "&-"))


def decode_name(name: str) -> str:
    """The folder name that modified UTF-7 stands for."""

    def unshifted(run: re.Match[str]) -> str:
        digits = run[1].replace(",", "/")
        return binascii.a2b_base64(digits + "=" * (-len(digits) % 4)).decode("utf-16-be") if digits else "&"

    return re.sub(r"&([^-]*)-", unshifted, name)


def _quoted(folder: str) -> str:
    name = encode_name(folder).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}"'


def _set(uids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(uids)))


def _numbers(uid_set: str) -> list[int]:
    numbers: list[int] = []
    for part in uid_set.split(","):
        first, _, last = part.partition(":")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers
