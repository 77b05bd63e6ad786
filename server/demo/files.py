"""Small files for attachments, made from nothing: PDF, PNG, CSV and calendar invitations."""

import csv
import io
import struct
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta


def pdf(title: str, lines: Sequence[str]) -> bytes:
    """One page of Helvetica that every viewer opens."""
    shown = [f"BT /F1 18 Tf 60 770 Td ({_escaped(title)}) Tj ET"]
    shown += [f"BT /F1 11 Tf 60 {730 - 18 * row} Td ({_escaped(line)}) Tj ET" for row, line in enumerate(lines)]
    drawing = "\n".join(shown).encode("cp1252", "replace")
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    )
    document, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    document += b"xref\n0 6\n0000000000 65535 f \n%strailer\n<< /Size 6 /Root 1 0 R >>\n" % table
    return bytes(document + b"startxref\n%d\n%%%%EOF\n" % document.index(b"xref\n"))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def png(colour: Sequence[int], width: int = 96, height: int = 64) -> bytes:
    """A picture that fades from a colour to dark."""
    rows = b"".join(
        b"\0" + bytes(value * (2 * height - row) // (2 * height) for _ in range(width) for value in colour)
        for row in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def csv_table(rows: Sequence[Sequence[str]]) -> bytes:
    """The rows with semicolons, as spreadsheets in half of Europe write them."""
    table = io.StringIO(newline="")
    csv.writer(table, delimiter=";").writerows(rows)
    return table.getvalue().encode()


def invitation(uid: str, title: str, place: str, organizer: str, begin: datetime) -> str:
    """A calendar invitation of one hour (RFC 5545)."""
    end = begin + timedelta(hours=1)
    return "\r\n".join(
        (
            "BEGIN:VCALENDAR",
            "VERSION:2.0",
            "PRODID:-//Postmirror//Sample mailbox//EN",
            "METHOD:REQUEST",
            "BEGIN:VEVENT",
            f"UID:{uid}",
            f"DTSTAMP:{_stamp(begin - timedelta(days=7))}",
            f"DTSTART:{_stamp(begin)}",
            f"DTEND:{_stamp(end)}",
            f"SUMMARY:{title}",
            f"LOCATION:{place}",
            f"ORGANIZER:mailto:{organizer}",
            "END:VEVENT",
            "END:VCALENDAR",
            "",
        )
    )


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
