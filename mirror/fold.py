"""One folding of text for the index and for patterns, so that both sides agree on what is equal."""

import json
import unicodedata

FOLD_VERSION = 1


def fold(text: str) -> str:
    """Text as the index holds it: casefolded, accents dropped, non-word characters turned to blanks."""
    return "".join(character if character.isalnum() else " " for character in fold_keeping_separators(text))


def fold_keeping_separators(text: str) -> str:
    """Text as substrings are confirmed: casefolded, compatibility forms, accents dropped, separators kept."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.combining(c)))


def people(addresses: str) -> str:
    """The searchable text of a stored address list (JSON `[[name, address], …]`)."""
    return " ".join(f"{name} <{address}>" if name else address for name, address in json.loads(addresses))
