"""The spellings of addresses and subjects, as rules compare them. Pure.

What allows is narrow: of a local part only ASCII letters are folded, since `boss@` and `boß@` are two people. What
denies is wide: it also compares NFKC and case-folded forms, and finds addresses wherever a sender wrote one. Both try
a domain as A-labels and as U-labels (RFC 5890), in the pattern and in the address, without a dot at its end.
"""

import re
import string
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

import idna

from mirror.message import Address

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_QUOTES = str.maketrans("", "", "\"'\\`\u2018\u2019\u201c\u201d")
_ADDRESS_LIKE = re.compile(r"[^\s<>()\[\],;:@]+@[^\s<>()\[\],;:@]+")


def matches(pattern: str, text: str) -> bool:
    """Whether a glob matches; only * and ? are special, since names hold brackets ("[Gmail]/All Mail")."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def allows(patterns: Iterable[str], address: str) -> bool:
    """Whether a glob names exactly this address."""
    return _any(map(_narrow, patterns), _narrow(address))


def denies(patterns: Iterable[str], address: str) -> bool:
    """Whether a glob names this address, or one that looks or may be delivered like it."""
    return _any(map(_wide, patterns), _wide(address))


def denies_sender(patterns: Iterable[str], senders: Iterable[Address]) -> bool:
    """Whether a glob names an address that one of the senders shows, also in a name. True when there is no address."""
    if not patterns:
        return False
    shown = frozenset[str]().union(*(_shown(each.name, each.address) for each in senders))
    return not shown or _any(map(_wide, patterns), shown)


def denies_subject(patterns: Iterable[str], subject: str) -> bool:
    """Whether a glob matches a subject, in any of its Unicode forms and in any case."""
    folded = _folded(subject)
    return any(matches(_folded(pattern), folded) for pattern in patterns)


def narrow_form(address: str) -> str:
    """The one spelling of an address by which two are the same."""
    local, _, domain = unicodedata.normalize("NFC", address).rpartition("@")
    return f"{local.translate(_LOWER)}@{_labels(domain, to_ascii=True)}"


def _any(patterns: Iterable[frozenset[str]], spellings: frozenset[str]) -> bool:
    return any(matches(form, spelling) for forms in patterns for form in forms for spelling in spellings)


@lru_cache(maxsize=4_096)
def _narrow(address: str) -> frozenset[str]:
    return both_spellings(unicodedata.normalize("NFC", address).translate(_LOWER))


@lru_cache(maxsize=4_096)
def _wide(address: str) -> frozenset[str]:
    return _narrow(address) | both_spellings(_folded(address))


@lru_cache(maxsize=4_096)
def _shown(name: str, address: str) -> frozenset[str]:
    text = unicodedata.normalize("NFKC", f"{name} {address}")
    texts = (text, text.translate(_QUOTES), re.sub("[\"'\u2018\u2019]", " ", text))
    found = {match for each in texts for match in _ADDRESS_LIKE.findall(each)}
    return frozenset[str]().union(*map(_wide, found | ({address} if "@" in address else set())))


def both_spellings(text: str) -> frozenset[str]:
    """An address or a pattern with its domain in both spellings; what has no @ may be all domain."""
    local, at, domain = text.rpartition("@")
    return frozenset(f"{local}{at}{_labels(domain, to_ascii=to_ascii)}" for to_ascii in (True, False))


def _labels(domain: str, *, to_ascii: bool) -> str:
    labels = domain.lower().replace("\u3002", ".").rstrip(".").split(".")
    return ".".join(_label(label, to_ascii=to_ascii) for label in labels)


def _label(label: str, *, to_ascii: bool) -> str:
    """One label in the spelling asked for; as it is where it holds a wildcard or is none."""
    if label.isascii() and not (label.startswith("xn--") and not to_ascii):
        return label
    try:
        encoded = idna.encode(label, uts46=True).decode("ascii")
        return encoded if to_ascii else idna.decode(encoded)
    except (idna.IDNAError, UnicodeError):
        return label


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
