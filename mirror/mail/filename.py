"""File names of attachments, made safe to write to a disk; what was wrong with them is counted."""

import re
import unicodedata
from urllib.parse import unquote_to_bytes

from mirror.invisible import Findings, one_line

MAX_BYTES = 150
_MAX_RAW = 2_000
_MAX_EXTENSION = 12
_SEPARATOR_LOOKALIKES = str.maketrans(
    {"\uff0f": "/", "\u2215": "/", "\u2044": "/", "\u29f8": "/", "\uff3c": "\\", "\u2216": "\\"}
)
_UNSAFE = re.compile(r'[<>:"|?*`$\x00-\x1f]')
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(?:\.|$)")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_ACTIVE = re.compile(
    r"(?i)\.(?:ade|adp|app|bat|chm|cmd|com|cpl|dll|docm|dotm|exe|hta|html?|img|iso|jar|js|jse|lnk|mht|msc|msi|msp|pif|"
    r"ps1|pptm|reg|scf|scr|sct|sh|svg|url|vb|vbe|vbs|vhdx?|wsc|wsf|wsh|xhtml|xll|xlsm|xltm)$"
)
_DOUBLE = re.compile(r"(?i)\.(?:pdf|docx?|xlsx?|pptx?|jpe?g|png|gif|txt|zip|mp[34])[ ._-]*\.[a-z0-9]{2,5}$")
_EXTENSIONS = {
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "application/json": ".json",
    "application/ics": ".ics",
    "application/msword": ".doc",
    "application/pgp-keys": ".asc",
    "application/x-pkcs7-mime": ".p7m",
    "application/xml": ".xml",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/jpg": ".jpg",
    "image/pjpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tiff",
    "image/webp": ".webp",
    "message/delivery-status": ".txt",
    "message/disposition-notification": ".txt",
    "message/feedback-report": ".txt",
    "message/rfc822": ".eml",
    "text/calendar": ".ics",
    "text/csv": ".csv",
    "text/directory": ".vcf",
    "text/html": ".html",
    "text/plain": ".txt",
    "text/rfc822-headers": ".txt",
    "text/vcard": ".vcf",
    "text/x-vcard": ".vcf",
    "text/xml": ".xml",
    "video/mp4": ".mp4",
}
_KNOWN_NAMES = {
    "application/pkcs7-mime": "smime.p7m",
    "application/x-pkcs7-mime": "smime.p7m",
    "application/pkcs7-signature": "smime.p7s",
    "application/x-pkcs7-signature": "smime.p7s",
    "application/pgp-signature": "signature.asc",
    "application/pgp-encrypted": "pgp-version.asc",
    "application/ms-tnef": "winmail.dat",
}


def safe_filename(sent: str, media_type: str, position: int, findings: Findings) -> str:
    """The file name to use for the attachment at `position` (from 1): one path component, at most 150 bytes."""
    name = one_line(_percent_decoded(sent[:_MAX_RAW]), _MAX_RAW, findings)
    name = unicodedata.normalize("NFC", name).translate(_SEPARATOR_LOOKALIKES)
    *folders, name = re.split(r"[/\\]", name)
    if folders or name.strip() in (".", ".."):
        findings["att_path"] += 1
    name = " ".join(_UNSAFE.sub("_", name).split()).strip(" .")
    if not name.strip("_- ."):
        name = _KNOWN_NAMES.get(media_type) or f"attachment-{position}{_EXTENSIONS.get(media_type, '.bin')}"
    if _RESERVED.match(name):
        name = f"_{name}"
    if name.startswith("-"):
        name = f"_{name[1:]}"
    if _ACTIVE.search(name):
        findings["att_active_type"] += 1
        if _DOUBLE.search(name):
            findings["att_double_extension"] += 1
    return _shortened(name)


def _percent_decoded(name: str) -> str:
    for _ in range(3):
        if not _PERCENT.search(name):
            break
        try:
            name = unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            break
    return name


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    if not stem or len((dot + extension).encode()) > _MAX_EXTENSION:
        stem, dot, extension = name, "", ""
    kept = stem.encode()[: MAX_BYTES - len((dot + extension).encode())].decode(errors="ignore").rstrip(" .")
    return f"{kept}{dot}{extension}"
