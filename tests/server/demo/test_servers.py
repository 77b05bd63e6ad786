"""The demo's servers hold the sample mailbox, keep it, and leave nothing behind."""

import importlib
import signal
import smtplib
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from server.demo.servers import DemoServers, start_demo_servers
from tests.servers.second_client import Listed, SecondClient

ROOT = Path(__file__).parents[3]
_KILLED = """
import sys, time
from pathlib import Path
from server.demo.servers import start_demo_servers

with start_demo_servers(Path(sys.argv[1])) as servers:
    print(servers.imap_port, flush=True)
    time.sleep(600)
"""


def everything(servers: DemoServers) -> dict[str, tuple[dict[str, int], list[Listed]]]:
    with client(servers) as imap:
        folders = [name for name, attributes in imap.folders().items() if "\\Noselect" not in attributes]
        return {folder: (imap.status(folder), imap.listing(folder)) for folder in folders}


def client(servers: DemoServers) -> SecondClient:
    return SecondClient(servers.imap_port, servers.username, servers.password)


def send(servers: DemoServers, recipient: str, message: bytes) -> None:
    with smtplib.SMTP(servers.host, servers.smtp_port, timeout=10) as smtp:
        smtp.login(servers.username, servers.password)
        smtp.sendmail(servers.address, [recipient], message)


def test_the_mailbox_is_made_once_and_keeps_uids_and_changes(tmp_path: Path) -> None:
    with start_demo_servers(tmp_path) as servers:
        first = everything(servers)
        assert {"INBOX", "Sent", "Ausflüge", "Archive/Invoices", "Lists/Night Sky"} <= first.keys()
        assert sum(len(listing) for _, listing in first.values()) > 200
        with client(servers) as imap:
            unseen = next(message.uid for message in first["INBOX"][1] if not message.flags)
            imap.add_flags("INBOX", [unseen], "\\Seen", "\\Flagged")
            imap.expunge("Junk", imap.uids("Junk"))
        changed = everything(servers)
    with start_demo_servers(tmp_path) as servers:
        assert everything(servers) == changed != first


def test_mail_that_is_sent_is_kept_and_announced(tmp_path: Path) -> None:
    lines: list[str] = []
    message = b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nHello.\r\n"
    with start_demo_servers(tmp_path, announce=lines.append) as servers:
        send(servers, "bob@example.net", message)
        [sent] = servers.sent()
    assert (sent.sender, sent.recipients) == (servers.address, ("bob@example.net",))
    assert sent.file.parent == tmp_path / "sent"
    assert sent.file.read_bytes() == message
    assert lines == ["sent to bob@example.net: Grüße"]


def test_mail_to_oneself_arrives_in_the_inbox(tmp_path: Path) -> None:
    with start_demo_servers(tmp_path) as servers:
        with client(servers) as imap:
            before = imap.uids("INBOX")
        send(servers, servers.address, b"Subject: note to self\r\n\r\nHello.\r\n")
        with client(servers) as imap:
            [new] = set(imap.uids("INBOX")) - set(before)
            assert b"Subject: note to self" in imap.raw("INBOX", new)


def test_a_missing_package_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "server.demo.servers")
    monkeypatch.setitem(sys.modules, "aiosmtpd.controller", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'postmirror\[demo\]'"):
        importlib.import_module("server.demo.servers")


def test_no_server_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    demo = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert demo.stdout
    with demo.stdout:
        port = int(demo.stdout.readline())
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((DemoServers.host, port), timeout=1).close()
        except ConnectionRefusedError:
            break
        assert time.monotonic() < deadline, "the IMAP server still listens"
        time.sleep(0.02)
    with start_demo_servers(tmp_path) as servers:
        assert len(everything(servers)["INBOX"][1]) > 20
