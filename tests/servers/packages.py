"""Debian packages unpacked into a folder: servers that cannot be installed beside Dovecot run from there."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

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
