"""What a download is served as."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.attachments import disposition, served_type


@pytest.mark.parametrize(
    "media_type",
    [
        "text/html",
        "text/xml",
        "text/javascript",
        "application/javascript",
        "application/xhtml+xml",
        "application/xml",
        "image/svg+xml",
        "image/svg",
        "application/x-shockwave-flash",
        "application/vnd.mozilla.xul+xml",
        "message/rfc822",
        "multipart/mixed",
        "TEXT/HTML",
        "text/plain; charset=x",
        "application/pdf\r\nX: y",
        "",
    ],
)
def test_what_a_browser_might_run_is_served_as_opaque_bytes(media_type: str) -> None:
    assert served_type(media_type) == "application/octet-stream"


@pytest.mark.parametrize("media_type", ["image/png", "application/pdf", "text/plain", "text/csv", "audio/mpeg"])
def test_what_is_inert_keeps_its_type(media_type: str) -> None:
    assert served_type(media_type) == media_type


@given(st.text(max_size=300))
def test_a_disposition_is_one_header_line_whatever_the_name(filename: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in filename):
        return
    line = disposition(filename)
    assert line.isascii()
    assert line.isprintable()
    assert line.count('"') == 2
    assert "/" not in line
    assert "\\" not in line
