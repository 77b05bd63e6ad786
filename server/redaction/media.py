"""Media types under redaction. Whoever writes a mail can write anything into one, so only those of a list are told."""

import mimetypes

UNKNOWN = "application/octet-stream"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OASIS = "application/vnd.oasis.opendocument."
_KNOWN = frozenset(mimetypes.types_map.values()) | {
    f"{_OFFICE}wordprocessingml.document",
    f"{_OFFICE}spreadsheetml.sheet",
    f"{_OFFICE}presentationml.presentation",
    *(f"{_OASIS}{kind}" for kind in ("text", "spreadsheet", "presentation")),
    *(f"application/{kind}" for kind in ("gzip", "ics", "pgp-keys", "pgp-signature", "pkcs7-mime", "pkcs7-signature")),
    *(f"application/x-{kind}" for kind in ("pkcs7-mime", "pkcs7-signature", "zip-compressed", "msdownload")),
    *(f"text/{kind}" for kind in ("calendar", "markdown", "rfc822-headers", "vcard", "x-vcard")),
    *(f"message/{kind}" for kind in ("delivery-status", "disposition-notification", "feedback-report")),
    *(f"image/{kind}" for kind in ("avif", "heic", "heif", "jpg", "pjpeg", "webp")),
    *(f"audio/{kind}" for kind in ("mp4", "ogg", "wav", "webm")),
    *(f"video/{kind}" for kind in ("ogg", "webm")),
}


def known_media_type(media_type: str) -> str:
    """The type itself where it is a common one, else that of any bytes."""
    return media_type if media_type in _KNOWN else UNKNOWN
