"""bleach, the sanitizer of record: the last word on what HTML of a mail a reader may get."""

import zlib
from functools import cache

from bleach.sanitizer import Cleaner

from mirror.page.html import ALLOWED_URL
from mirror.page.markup import TAGS

_LEVEL = 6


def sanitized(normalised: bytes) -> bytes | None:
    """The HTML form that readers get, compressed, of a record's normalised HTML; None when nothing is left."""
    html = clean_html(zlib.decompress(normalised).decode("utf-8"))
    return zlib.compress(html.encode("utf-8"), _LEVEL) if html else None


def clean_html(normalised_html: str) -> str:
    """The HTML form that readers get: allowed elements, links to http, https, mailto and tel, nothing remote."""
    if not normalised_html:
        return ""
    return _cleaner().clean(normalised_html)


@cache
def _cleaner() -> Cleaner:
    # Made once: to make one takes as long as to clean a short mail. It is for one thread, as a parsing child is.
    return Cleaner(
        tags=TAGS,
        attributes=_is_allowed,
        protocols={"http", "https", "mailto", "tel", "cid"},
        strip=True,
        strip_comments=True,
    )


def _is_allowed(tag: str, name: str, value: str) -> bool:
    if tag == "a":
        return name == "href" and ALLOWED_URL.match(value) is not None
    if tag == "img":
        return name == "alt" or (name == "src" and value.lower().startswith("cid:"))
    return tag in ("td", "th") and name in ("colspan", "rowspan") and value.isascii() and value.isdigit()
