"""Mail broken on purpose: mutations of real messages, the same for the same seed."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_SIZE = 60_000
_FRAGMENTS = (
    b"\0", b"\r", b"\n\n", b"\r\n\r\n", b"--", b"=?utf-8?B?", b"?=", b'"', b"<", b">", b"(", b";", b"=\n", b"\xff",
    b"\x1b$B", b"Content-Type: multipart/mixed; boundary=x\n", b"Content-Transfer-Encoding: base64\n", b"<!--",
    b"<style>", b"<table>", b"</div>", b"&#x200b;", b"From: ", b"\xe2\x80\xae", b"<div style='display:none'>",
    b"\xf3\xa0\x81\x81",
)  # fmt: skip


def mutations(paths: Sequence[Path], count: int, seed: int) -> Iterator[tuple[Path, bytes]]:
    """`count` messages, each a message of the paths with one to eight things done to it."""
    chance = random.Random(seed)
    for _ in range(count):
        path = chance.choice(paths)
        raw = bytearray(path.read_bytes()[:MAX_SIZE])
        for _ in range(chance.randint(1, 8)):
            _mutate(raw, chance, paths)
        yield path, bytes(raw)


def _mutate(raw: bytearray, chance: random.Random, paths: Sequence[Path]) -> None:
    # Half of the damage is done to the header block and the first parts, where it tells most.
    end = min(len(raw), 3_000) if chance.random() < 0.5 else len(raw)
    at = chance.randint(0, end)
    length = chance.choice((1, 2, 8, 64, 1_000))
    kind = chance.randrange(6)
    if kind == 0 and at < len(raw):
        raw[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del raw[at : at + length]
    elif kind == 2:
        raw[at:at] = raw[at : at + length] * chance.choice((1, 2, 20))
    elif kind == 3:
        raw[at:at] = chance.choice(_FRAGMENTS) * chance.choice((1, 1, 3, 50))
    elif kind == 4:
        other = chance.choice(paths).read_bytes()[:MAX_SIZE]
        start = chance.randint(0, len(other))
        raw[at:at] = other[start : start + length]
    else:
        del raw[at:]
