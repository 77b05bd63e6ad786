"""A mail that was read, searched, flagged and then deleted upstream: after the clean-up no byte tells of it."""

import base64
import zlib
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from tests.processes import until
from tests.server.test_processes import Installation, installation, mail
from tests.servers.dovecot import Dovecot

__all__ = ["installation"]

CANARY = "zanzibarquokka"
KEPT = "xylophonewombat"


def telling(word: str) -> bytes:
    """A mail with a word wherever a word can be."""
    written = EmailMessage(policy=SMTP)
    written["From"], written["To"] = f"{word} <{word}@example.net>", "alice@example.org"
    written["Subject"], written["Message-ID"] = f"about {word}", f"<{word}@example.net>"
    written["Date"] = "Mon, 5 Jan 2026 10:00:00 +0100"
    written.set_content(f"{word} is here. " * 50)
    written.add_alternative(f"<p>{word} is here.</p>" * 50, subtype="html")
    written.add_attachment(f"{word} attached {word}".encode(), maintype="text", subtype="plain", filename=f"{word}.txt")
    return written.as_bytes()


def tells(folder: Path, word: str) -> list[str]:
    """The files below a folder that tell of a word, by name, in clear, in base64 or compressed."""
    spellings = [word.encode(), base64.b64encode(word.encode())[:16]]
    found = []
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if word in path.name or any(each in data for each in spellings) or word.encode() in inflated(data):
            found.append(str(path.relative_to(folder)))
    return found


def inflated(data: bytes) -> bytes:
    """What can be decompressed out of a file, wherever a zlib stream begins in it."""
    found = []
    for header in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        start = data.find(header)
        while start >= 0:
            with suppress(zlib.error):
                found.append(zlib.decompressobj().decompress(data[start : start + 20_000], 100_000))
            start = data.find(header, start + 1)
    return b"".join(found)


def test_no_byte_of_the_data_directory_tells_of_a_mail_that_was_expunged(
    installation: Installation, dovecot: Dovecot, user: str
) -> None:
    data = installation.folder / "data"
    with dovecot.client(user) as client:
        client.append("INBOX", telling(CANARY), telling(KEPT), mail("another"))
    secret = installation.token()
    with installation.serving():
        until(lambda: bool(installation.call(secret, "list_messages", folder="INBOX").get("complete")))
        until(lambda: bool(tells(data, CANARY)))
        found = installation.call(secret, "search_messages", folder="INBOX", query=f"body {CANARY}")["messages"]
        uid = found[0]["uid"]
        assert CANARY in installation.call(secret, "read_message", folder="INBOX", uid=uid)["body"]
        flags = {"flags": ["flagged"], "action": "add"}
        assert "error" not in installation.call(secret, "update_message_flags", folder="INBOX", uid=uid, **flags)
        with dovecot.client(user) as client:
            client.expunge("INBOX", [1])
        done = installation.run("cleanup", "alice/work")
        assert (done.returncode, done.stdout) == (0, "alice/work: cleaned up\n"), done.stderr
        assert tells(data, CANARY) == []
        assert tells(data, KEPT) != []
        assert CANARY not in installation.log.read_text("utf-8")
        again = installation.call(secret, "search_messages", folder="INBOX", query=f"body {KEPT}")
        assert len(again["messages"]) == 1
