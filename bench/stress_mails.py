"""Mailboxes beyond what people have: very many small messages, a very large one, a conversation that never ends."""

import os
import random
from base64 import encodebytes
from collections.abc import Iterator
from itertools import accumulate

FIRST = 1_262_304_000
"""INTERNALDATE of the first message; the others follow every ten minutes."""
_EVERY = 600
_WORDS = 40
_VOCABULARY = 20_000
_SENDERS = 900
_REFERRED = 10
"""Messages of a conversation that an answer names, beside the first: more of them only the last names."""


def small(messages: int, seed: int = 0) -> Iterator[tuple[bytes, int]]:
    """Plain messages of some 600 octets, each with words of its own, and when they came in."""
    chance = random.Random(seed)
    vocabulary = ["".join(chance.choices("abdefgiklmnoprstuvz", k=chance.randint(3, 10))) for _ in range(_VOCABULARY)]
    # Zipf's law: the word of rank n is n times as rare as the first.
    shares = list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))
    for number in range(messages):
        words = chance.choices(vocabulary, cum_weights=shares, k=_WORDS)
        words[7] = f"n{number:x}q{chance.getrandbits(32):x}"
        text = f"{' '.join(words[:20])}\r\n{' '.join(words[20:])}\r\n"
        sender = number % _SENDERS
        yield (
            _plain(f"<{number}.{seed}@small.example>", sender, f"{words[0]} {words[8]} {words[21]}", text),
            _moment(number),
        )


def chain(messages: int) -> Iterator[tuple[bytes, int]]:
    """One conversation: each message answers the one before; the last names all of them in its References."""
    ids = [f"<{number}@chain.example>" for number in range(messages)]
    for number in range(messages):
        before = ids[:number] if number == messages - 1 else [*ids[:1], *ids[max(1, number - _REFERRED) : number]]
        more = f"In-Reply-To: {ids[number - 1]}\r\nReferences: " + "\r\n ".join(before) + "\r\n" if number else ""
        subject = "Re: the plan" if number else "The plan"
        yield _plain(ids[number], number % 2, subject, f"Answer {number}.\r\n", more), _moment(number)


def large(octets: int) -> tuple[bytes, int]:
    """One message of about that size, nearly all of it one attachment that does not compress."""
    attachment = encodebytes(os.urandom(octets * 57 // 78)).replace(b"\n", b"\r\n")
    head = (
        "From: Bob <bob@example.com>\r\nTo: alice@example.org\r\nSubject: large one\r\nMIME-Version: 1.0\r\n"
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        "--b\r\nContent-Type: text/plain\r\n\r\nThe text beside it.\r\n"
        "--b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=x.bin\r\n"
        "Content-Transfer-Encoding: base64\r\n\r\n"
    )
    return head.encode("ascii") + attachment + b"--b--\r\n", FIRST


def _plain(message_id: str, sender: int, subject: str, text: str, more: str = "") -> bytes:
    return (
        f"From: Sender {sender} <sender{sender}@example.com>\r\nTo: alice@example.org\r\nSubject: {subject}\r\n"
        f"Message-ID: {message_id}\r\n{more}\r\n{text}"
    ).encode("ascii")


def _moment(number: int) -> int:
    return FIRST + _EVERY * number
