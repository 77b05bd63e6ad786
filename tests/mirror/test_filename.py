"""File names that are safe to write to a disk."""

import pytest

from mirror.invisible import Findings
from mirror.mail.filename import safe_filename


@pytest.mark.parametrize(
    ("sent", "safe"),
    [
        ("a.pdf", "a.pdf"),
        ("a b.pdf", "a b.pdf"),
        ("résumé.pdf", "résumé.pdf"),
        ("re\u0301sume\u0301.pdf", "résumé.pdf"),
        ("/etc/passwd", "passwd"),
        ("..", "attachment-3.bin"),
        (".", "attachment-3.bin"),
        ("..%252F..%252Fx.txt", "x.txt"),
        ("\uff0e\uff0e\uff0fx.txt", "x.txt"),
        ("a\u2215b.txt", "b.txt"),
        ("a:b.txt", "a_b.txt"),
        ("a\nb.txt", "a b.txt"),
        ("a\0b.txt", "ab.txt"),
        ("con.txt", "_con.txt"),
        ("NUL", "_NUL"),
        ("com1.pdf", "_com1.pdf"),
        ("console.txt", "console.txt"),
        ("-rf.txt", "_rf.txt"),
        (".hidden", "hidden"),
        ("a.txt. . ", "a.txt"),
        ("$(reboot).sh", "_(reboot).sh"),
        ("???", "attachment-3.bin"),
        ("100%.txt", "100%.txt"),
        ("%ff.txt", "%ff.txt"),
    ],
)
def test_names(sent: str, safe: str) -> None:
    assert safe_filename(sent, "application/octet-stream", 3, Findings()) == safe


def test_long_name_keeps_its_extension_within_150_bytes() -> None:
    name = safe_filename("ä" * 500 + ".docx", "application/octet-stream", 1, Findings())

    assert name.endswith("ä.docx")
    assert 145 < len(name.encode()) <= 150


@pytest.mark.parametrize("name", ["a.exe", "a.pdf.exe", "a.docm", "a.html", "a.svg", "A.JS", "a.lnk"])
def test_active_types_are_flagged(name: str) -> None:
    findings = Findings()
    safe_filename(name, "application/pdf", 1, findings)

    assert findings["att_active_type"] == 1
