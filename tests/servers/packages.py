"""Debian packages unpacked into a folder: servers that cannot be installed beside Dovecot run from there."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from tests.servers.ports import HOST, PASSWORD, free_port
from tests.servers.second_client import SecondClient

DOWNLOADS = Path(__file__).parents[2] / ".servers"
NOBODY = 65_534


class Unpacked:
    """Packages that tests/servers/download.sh fetched, unpacked into a folder; skips the test when they are not there.

    environment: what their programs need to find their libraries.
    """

    def __init__(self, folder: Path, packages: Sequence[str]) -> None:
        self.folder = folder
        if not (DOWNLOADS / "complete").exists() or shutil.which("dpkg") is None:
            pytest.skip("its packages are not here: `sh tests/servers/download.sh` fetches them (Debian, apt-get)")
        folder.mkdir()
        for package in packages:
            [archive] = DOWNLOADS.glob(f"{package}_*.deb")
            subprocess.run(["dpkg", "-x", archive, folder], check=True)
        libraries = [*folder.glob("lib/*-linux-gnu"), *folder.glob("usr/lib/*-linux-gnu"), folder / "usr" / "lib"]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}

    def program(self, path: str) -> Path:
        """A program of the packages; skips the test when this machine lacks a library it needs."""
        found = self.folder / path
        needed = subprocess.run(
            ["ldd", found], env=self.environment, capture_output=True, text=True, check=False
        ).stdout
        if "not found" in needed:
            missing = [line.split()[0] for line in needed.splitlines() if "not found" in line]
            pytest.skip(f"{found.name} needs {', '.join(missing)}, which are not on this machine")
        return found


def mail_user() -> int:
    """Who a server runs as that refuses to run as root: nobody, else whoever runs the tests."""
    return NOBODY if os.geteuid() == 0 else os.geteuid()


class UnpackedServer:
    """An IMAP server on loopback that runs from packages in a folder of its own; `start` is each server's own.

    prefix: what the names of a user's folders begin with.
    """

    host = HOST
    password = PASSWORD
    prefix = ""
    delimiter = "/"

    def __init__(self, packages: Sequence[str], programs: Sequence[str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{type(self).__name__.lower()}-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        try:
            self._unpacked = Unpacked(self.folder / "packages", packages)
            self._programs = [self._unpacked.program(each) for each in programs]
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start it, with the mail it had; returns when it greets."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it and the processes it started. Does nothing when it is stopped."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def client(self, user: str) -> SecondClient:
        """A plain IMAP session of this user, logged in."""
        return SecondClient(self.port, user, PASSWORD)
