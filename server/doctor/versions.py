"""The versions of Python, SQLite and the libraries that this runs on."""

import platform
import re
import sqlite3
from collections.abc import Iterator
from importlib import metadata

from server.doctor.finding import Finding, fail, ok

LOWEST_SQLITE = (3, 37, 0)
"""STRICT tables (3.37)."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*([<>=!~,.\d\s]*)(;.*)?$")
_BOUND = re.compile(r"(>=|<)\s*([\d.]+)")


def check_versions() -> Iterator[Finding]:
    """Of what is installed here."""
    yield judge_sqlite(sqlite3.sqlite_version_info)
    with sqlite3.connect(":memory:") as db:
        options = {name for (name,) in db.execute("PRAGMA compile_options")}
    db.close()
    if "ENABLE_FTS5" not in options:
        yield fail("sqlite-fts5", "SQLite", "it was built without FTS5", "use a Python whose SQLite has FTS5")
    try:
        wanted = metadata.requires("postmirror") or []
        version = metadata.version("postmirror")
    except metadata.PackageNotFoundError:
        yield ok("versions", "postmirror", f"run from its source, on Python {platform.python_version()}")
        return
    wrong = [problem for line in wanted if (problem := _problem(line))]
    if wrong:
        yield fail("dependencies", "postmirror", "; ".join(wrong), "install it again: pip install --upgrade postmirror")
    else:
        yield ok("versions", "postmirror", f"{version}, on Python {platform.python_version()}")


def judge_sqlite(version: tuple[int, ...]) -> Finding:
    """version: of the library."""
    said = ".".join(map(str, version))
    if version < LOWEST_SQLITE:
        lowest = ".".join(map(str, LOWEST_SQLITE))
        return fail("sqlite-old", "SQLite", f"{said} is too old", f"use a Python with SQLite {lowest} or newer")
    return ok("sqlite", "SQLite", said)


def _problem(requirement: str) -> str:
    found = _REQUIREMENT.match(requirement)
    if found is None or found[3]:
        return ""  # of an extra
    try:
        version = metadata.version(found[1])
    except metadata.PackageNotFoundError:
        return f"{found[1]} is not installed"
    for sign, bound in _BOUND.findall(found[2]):
        if (_numbers(version) >= _numbers(bound)) != (sign == ">="):
            return f"{found[1]} is {version}, wanted is {found[2].strip()}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])
