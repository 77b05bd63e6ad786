"""Reading the audit log: whether its chain is whole, and its last lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.amounts import counted
from server.audit.chain import Chain, Head, audit_key, file_numbers, file_path, former_keys, is_next, key_id, read_head

_MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verifying found. problems: one line each, with file and line."""

    lines: int
    files: int
    problems: tuple[str, ...]


def verify(chain: Chain) -> Verdict:
    """Check every line that is kept against the one before it, and the end against the head."""
    key = audit_key(chain.key.current())
    keys = {**former_keys(chain.folder, key), key_id(key): key}
    with chain.locked():
        head, numbers = read_head(chain.folder, keys), file_numbers(chain.folder)
        last_size = file_path(chain.folder, numbers[-1]).stat().st_size if numbers else 0
    if head is None:
        problems = ["head: missing or not made by this installation; the end of the chain cannot be checked"]
        return Verdict(0, 0, ()) if not numbers else _walk(chain.folder, keys, numbers, None, last_size, problems)
    expected = range(head.first, head.file + 1)
    problems = [f"{file_path(chain.folder, each).name}: missing" for each in expected if each not in numbers]
    problems += [
        f"{file_path(chain.folder, each).name}: nobody began this file" for each in numbers if each > head.file
    ]
    kept = [number for number in numbers if number in expected]
    return _walk(chain.folder, keys, kept, head, last_size, problems)


def _walk(
    folder: Path, keys: dict[str, bytes], numbers: list[int], head: Head | None, last_size: int, problems: list[str]
) -> Verdict:
    count, seq, mac, before = 0, 0, "", 0
    for number in numbers:
        name = file_path(folder, number).name
        try:
            data = file_path(folder, number).read_bytes()
        except FileNotFoundError:
            # It was the oldest, and a running server began a new file meanwhile.
            continue
        if number == numbers[-1]:
            data = data[:last_size]
        lines = data.split(b"\n")
        if lines.pop() and (head is None or number != head.file):
            problems.append(f"{name}:{len(lines) + 1}: ends in the middle of a line")
        first = _fields(lines[0]) if lines else {}
        key = keys.get(str(first.get("key")))
        if key is None or not isinstance(first.get("previous"), str) or not isinstance(first.get("seq"), int):
            problems.append(f"{name}:1: not the first line of a file, or of an unknown key")
            continue
        if before and number == before + 1 and first["previous"] != mac:
            problems.append(f"{name}:1: does not follow the end of the file before: lines are missing or were changed")
        seq, mac, before = first["seq"] - 1, first["previous"], number
        for line_number, line in enumerate(lines, 1):
            if not is_next(line, seq + 1, mac, key):
                problems.append(f"{name}:{line_number}: changed, moved, or a line before it is missing")
                break
            count, seq, mac = count + 1, seq + 1, line[-66:-2].decode()
    if head is not None and not problems and seq < head.seq:
        problems.append(
            f"{file_path(folder, head.file).name}: cut short by {counted(head.seq - seq, 'line')} at its end"
        )
    return Verdict(count, len(numbers), tuple(problems[:_MAX_PROBLEMS]))


def tail(folder: Path, lines: int) -> list[dict[str, Any]]:
    """The last events, oldest first, without their macs."""
    found: list[dict[str, Any]] = []
    for fields in _newest_first(folder):
        if len(found) >= lines:
            break
        found.append({name: value for name, value in fields.items() if name not in ("mac", "previous", "key")})
    return found[::-1]


def _newest_first(folder: Path) -> Iterator[dict[str, Any]]:
    for number in reversed(file_numbers(folder)):
        for line in reversed(file_path(folder, number).read_bytes().splitlines()):
            if fields := _fields(line):
                yield fields


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
