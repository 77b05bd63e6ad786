"""The demo's mailbox on disk: a maildir as pymap keeps it, written at once instead of a message at a time over IMAP."""

import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pysasl.hashing import BuiltinHash

from server.demo.letter import Letter

_MAILDIR_FLAGS = {"\\Draft": "D", "\\Flagged": "F", "\\Answered": "R", "\\Seen": "S", "\\Deleted": "T"}


@dataclass(frozen=True, slots=True)
class Mailstore:
    """The mail of one user under a folder, which pymap takes as its base directory."""

    folder: Path
    user: str

    @property
    def maildir(self) -> Path:
        """The user's inbox; other folders are `.NAME` inside it."""
        return self.folder / self.user

    def exists(self) -> bool:
        """Whether the mailbox was filled before."""
        return self.maildir.exists()

    def fill(self, letters: Iterable[Letter]) -> None:
        """Make the mailbox with these letters; uids follow their order. Complete or not there at all."""
        unfinished = self.folder / f"{self.user}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        by_folder: dict[str, list[Letter]] = defaultdict(list, {"INBOX": []})
        for letter in letters:
            by_folder[letter.folder].append(letter)
        for folder, content in by_folder.items():
            place = unfinished if folder == "INBOX" else unfinished / f".{folder.replace('/', '.')}"
            _write_folder(place, content)
            if folder != "INBOX":
                (place / "maildirfolder").touch()
        unfinished.rename(self.maildir)

    def open_for(self, password: str) -> None:
        """Make this the user's password, and remove the locks that a crash left: pymap would respect them."""
        # One round: the password is random and lives no longer than the demo.
        digest = BuiltinHash(rounds=1).hash(password)
        (self.folder / "pymap-etc-passwd").write_text(f"{self.user}:x::::{self.user}:\n", "utf-8")
        (self.folder / "pymap-etc-shadow").write_text(f"{self.user}:{digest}\n", "utf-8")
        for lock in self.folder.rglob("*.lock"):
            lock.unlink()

    def deliver(self, raw: bytes) -> None:
        """Put a new message into the inbox, as a mail server does."""
        name = f"{secrets.token_hex(16)}.demo"
        (self.maildir / "tmp" / name).write_bytes(raw)
        (self.maildir / "tmp" / name).rename(self.maildir / "new" / name)


def _write_folder(place: Path, letters: Sequence[Letter]) -> None:
    for subfolder in ("cur", "new", "tmp"):
        (place / subfolder).mkdir(parents=True, mode=0o700)
    lines = [f"3 V{secrets.randbelow(2**31 - 1) + 1} N{len(letters) + 1} G{secrets.token_hex(16)}"]
    for uid, letter in enumerate(letters, 1):
        key = f"{int(letter.date.timestamp())}.{uid}.demo"
        flags = "".join(sorted(_MAILDIR_FLAGS[flag] for flag in letter.flags))
        file = place / "cur" / f"{key}:2,{flags}"
        file.write_bytes(letter.raw().replace(b"\r\n", b"\n"))
        os.utime(file, (letter.date.timestamp(), letter.date.timestamp()))
        lines.append(f"{uid} :{key}:2,{flags}")
    (place / "dovecot-uidlist").write_text("\n".join(lines) + "\n", "utf-8")
