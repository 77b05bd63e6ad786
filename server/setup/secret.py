"""Where a password is kept: a file of its own, or the keyring of the desktop, asked by command."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from config.secret import SecretSource, SecretUnavailable

_SECONDS = 60.0
_SERVICE = "postmirror"


class NotStored(RuntimeError):
    """The password could not be put where it should be kept."""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file that only its owner can read."""

    path: Path

    @property
    def source(self) -> SecretSource:
        """As the configuration says it; the file lies beside it."""
        return SecretSource(file=Path(self.path.name))

    def store(self, secret: str) -> None:
        """Write the file. Raises NotStored when there is one already."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise NotStored(f"{self.path} cannot be written: {exc.strerror}") from exc
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())

    def forget(self) -> None:
        """Take back what store did."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keyring that the desktop keeps open while its user is logged in.

    read, write, remove: commands. said: what is written to the standard input of write, with the secret in it.
    """

    read: tuple[str, ...]
    write: tuple[str, ...]
    remove: tuple[str, ...]
    said: Callable[[str], str] = str

    @property
    def source(self) -> SecretSource:
        """The command that reads it."""
        return SecretSource(command=self.read)

    def store(self, secret: str) -> None:
        """Hand it to the keyring's own program. Raises NotStored."""
        try:
            subprocess.run(  # noqa: S603 - a fixed argv
                self.write, input=self.said(secret).encode(), capture_output=True, timeout=_SECONDS, check=True
            )
            kept = self.source.read()
        except (OSError, subprocess.SubprocessError, SecretUnavailable) as exc:
            raise NotStored(f"the keyring did not take it ({self.write[0]}): unlock it, or use --store file") from exc
        if kept != secret:
            raise NotStored(f"the keyring does not give back what it took ({self.write[0]}): use --store file")

    def forget(self) -> None:
        """Take back what store did."""
        subprocess.run(self.remove, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603 - a fixed argv


def keyring(account: str) -> Keyring | None:
    """The keyring of this machine's user, None where there is none."""
    if sys.platform == "darwin" and (program := shutil.which("security")):
        names = ("-s", _SERVICE, "-a", account)
        line = f"add-generic-password -U -s {_SERVICE} -a {_quoted(account)} -w"
        return Keyring(
            (program, "find-generic-password", "-w", *names),
            (program, "-i"),
            (program, "delete-generic-password", *names),
            lambda secret: f"{line} {_quoted(secret)}\n",
        )
    program = shutil.which("secret-tool")
    if program is None or not os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return None
    names = ("service", _SERVICE, "account", account)
    return Keyring(
        (program, "lookup", *names),
        (program, "store", "--label", f"Postmirror {account}", *names),
        (program, "clear", *names),
    )


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
