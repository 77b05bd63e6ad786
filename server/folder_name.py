"""Names that a new folder can have."""

import unicodedata
from dataclasses import dataclass

_LONGEST = 200


@dataclass
class BadFolderName(ValueError):
    """No folder can be given that name. reason: in plain words."""

    reason: str


def check_folder_name(name: str, delimiter: str) -> None:
    """Raises BadFolderName."""
    if not name.strip() or len(name) > _LONGEST:
        raise BadFolderName(f"it needs 1 to {_LONGEST} characters")
    if not name.isprintable() or name != unicodedata.normalize("NFC", name) or name != name.strip():
        raise BadFolderName("only printable characters, no blank at either end, accents composed (NFC)")
    if any(character in name for character in '*%\\"'):
        raise BadFolderName('the characters * % \\ " are not possible')
    if any(not part.strip() or part in (".", "..") for part in name.split(delimiter)):
        raise BadFolderName(f"no part between two {delimiter} may be empty")
