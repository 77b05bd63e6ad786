"""A mailbox in memory whose answers a test may twist: for servers that lie, which no real one can be made to do."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.servers.scripted import ScriptedImap

FIRST = datetime(2026, 1, 5, 10, tzinfo=UTC)
_NAME = re.compile(r'^(?:LIST|STATUS|EXAMINE|SELECT) "((?:[^"\\]|\\.)*)"', re.IGNORECASE)

Twist = Callable[[str, bytes], bytes | None]
"""(command without its tag, the honest answer) -> the answer; None hangs up."""


def inserted(pattern: str, before: bytes, times: int = 1) -> Callable[[str, bytes], bytes]:
    """A twist that says something more ahead of the answers to some commands."""
    return _twisting(pattern, times, lambda answer: before + answer)


def replaced(pattern: str, by: bytes, times: int = 1_000) -> Callable[[str, bytes], bytes]:
    """A twist that answers some commands otherwise."""
    return _twisting(pattern, times, lambda _: by)


def _twisting(pattern: str, times: int, change: Callable[[bytes], bytes]) -> Callable[[str, bytes], bytes]:
    left = times

    def twist(command: str, answer: bytes) -> bytes:
        nonlocal left
        if re.match(pattern, command) and left:
            left -= 1
            return change(answer)
        return answer

    return twist


def mail(number: int, text: str = "Text") -> bytes:
    """A small message, its Message-ID made from a number."""
    head = f"From: a@example.org\r\nSubject: mail {number}\r\nMessage-ID: <{number}@example.org>\r\n\r\n"
    return f"{head}{text} {number}\r\n".encode()


@dataclass
class Message:
    """One message. minutes: INTERNALDATE, after the fifth of January 2026, 10:00 UTC. more: further FETCH items."""

    raw: bytes
    flags: str = ""
    minutes: int = 0
    more: str = ""

    def enumerated(self) -> str:
        """Its flags, date and size."""
        at = (FIRST + timedelta(minutes=self.minutes)).strftime("%d-%b-%Y %H:%M:%S +0000")
        return f'FLAGS ({self.flags}) INTERNALDATE "{at}" RFC822.SIZE {len(self.raw)}{self.more}'


@dataclass
class Folder:
    """One folder by uid. more: response codes told when it is opened. status: further STATUS items."""

    messages: dict[int, Message] = field(default_factory=dict)
    uidvalidity: int = 7
    uidnext: int | None = None
    more: str = ""
    status: str = ""
    attributes: str = ""

    def following(self) -> int:
        """UIDNEXT."""
        return max(self.messages, default=0) + 1 if self.uidnext is None else self.uidnext


class LyingImap(ScriptedImap):
    """One mailbox on `port`; folders by the name as it is written in quotes. twist: see Twist."""

    def __init__(self, *, capability: str = "IMAP4rev1 AUTH=PLAIN", twist: Twist = lambda _, answer: answer) -> None:
        super().__init__((), capability=capability)
        self.folders = {"INBOX": Folder()}
        self.twist = twist
        self._open = "INBOX"

    def fill(self, folder: str, *numbers: int) -> None:
        """Messages of these numbers, each under the uid of its number."""
        self.folders.setdefault(folder, Folder()).messages |= {
            number: Message(mail(number), minutes=number) for number in numbers
        }

    def asked(self, pattern: str) -> list[str]:
        """The commands so far that match."""
        return [command for command in self.commands if re.search(pattern, command)]

    def _answer(self, command: str) -> bytes | None:
        honest = self._honest(command)
        if honest is None:
            return self.twist(command, super()._answer(command) or b"")
        self.commands.append(command)
        return self.twist(command, honest)

    def _honest(self, command: str) -> bytes | None:
        verb = command.partition(" ")[0].upper()
        if verb == "LIST":
            lines = [f'* LIST ({folder.attributes}) "/" "{name}"\r\n' for name, folder in self.folders.items()]
            return "".join([*lines, "TAG OK done\r\n"]).encode()
        if verb in ("STATUS", "EXAMINE", "SELECT"):
            match = _NAME.match(command)
            name = match[1] if match else ""
            if name not in self.folders:
                return b"TAG NO no such folder\r\n"
            return self._status(name) if verb == "STATUS" else self._opened(name)
        if verb == "UID":
            return self._uid(command.partition(" ")[2])
        return None

    def _status(self, name: str) -> bytes:
        folder = self.folders[name]
        items = f"MESSAGES {len(folder.messages)} UIDNEXT {folder.following()} UIDVALIDITY {folder.uidvalidity}"
        return f'* STATUS "{name}" ({items}{folder.status})\r\nTAG OK done\r\n'.encode()

    def _opened(self, name: str) -> bytes:
        self._open = name
        folder = self.folders[name]
        codes = f"* OK [UIDVALIDITY {folder.uidvalidity}] ok\r\n* OK [UIDNEXT {folder.following()}] ok\r\n"
        return f"* {len(folder.messages)} EXISTS\r\n{codes}{folder.more}TAG OK done\r\n".encode()

    def _uid(self, command: str) -> bytes:
        verb, _, rest = command.partition(" ")
        messages = self.folders[self._open].messages
        if verb == "SEARCH":
            return f"* SEARCH {' '.join(map(str, sorted(messages)))}\r\nTAG OK done\r\n".encode()
        uids, _, items = rest.partition(" ")
        chosen = [uid for uid in sorted(messages) if _within(uid, uids, max(messages))]
        if verb == "STORE":
            self._store(chosen, items)
        elif verb == "EXPUNGE":
            for uid in chosen:
                del messages[uid]
        elif verb == "FETCH":
            return b"".join(_fetched(uid, messages[uid], items) for uid in chosen) + b"TAG OK done\r\n"
        else:
            return b"TAG BAD not known here\r\n"
        return b"TAG OK done\r\n"

    def _store(self, uids: list[int], items: str) -> None:
        for uid in uids:
            message = self.folders[self._open].messages[uid]
            words = set(re.findall(r"\((.*)\)", items)[0].split())
            now = set(message.flags.split())
            message.flags = " ".join(sorted(now | words if items.startswith("+") else now - words))


def _fetched(uid: int, message: Message, items: str) -> bytes:
    section = re.search(r"BODY\.PEEK(\[.*\])(?:<(\d+)\.(\d+)>)?", items)
    if section is None:
        return f"* {uid} FETCH (UID {uid} {message.enumerated()})\r\n".encode()
    raw = message.raw if section[1] == "[]" else message.raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    origin = ""
    if section[2]:
        raw, origin = raw[int(section[2]) : int(section[2]) + int(section[3])], f"<{section[2]}>"
    listed = f"{message.enumerated()} " if "FLAGS" in items else ""
    return f"* {uid} FETCH (UID {uid} {listed}BODY{section[1]}{origin} {{{len(raw)}}}\r\n".encode() + raw + b")\r\n"


def _within(uid: int, uid_set: str, last: int) -> bool:
    for word in uid_set.split(","):
        first, _, end = word.replace("*", str(last)).partition(":")
        low, high = sorted((int(first), int(end or first)))
        if low <= uid <= high:
            return True
    return False
