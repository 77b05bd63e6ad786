"""The demo's mail servers: a real IMAP server with the sample mailbox, an SMTP server that keeps what it is given.

The IMAP server is pymap on its maildir backend. Tried with 0.36.7: folders, UIDVALIDITY, uids, system flags and
OBJECTID survive a stop and a kill, so a mirror stays valid and the second start of the demo has nothing to download.
Keywords are lost at once, and mail is handed out as Python's email package writes it again (LF line ends, long headers
folded anew), the same each time.

Everything these servers write lies in the folder they are given: `mail/` (the mailbox), `sent/` (one .eml for each
message that was sent), `tmp/` and `imap.log`.
"""

import logging
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.parser import BytesHeaderParser
from pathlib import Path

try:
    import pymap  # noqa: F401 - runs in a process of its own; that it is there is told here
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        f"the demo needs {exc.name}, which is not installed: pip install 'postmirror[demo]'", name=exc.name
    ) from exc

from server.demo.mailstore import Mailstore
from server.demo.sample import OWNER, sample_mailbox

HOST = "127.0.0.1"
_START = 10.0
_STOP = 5.0
_LARGEST = 25_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that the SMTP server took, and the file it is kept in."""

    sender: str
    recipients: tuple[str, ...]
    file: Path


class DemoServers:
    """The running servers: where they listen and who may log in, to both of them alike."""

    host = HOST
    address = OWNER.addr_spec
    display_name = OWNER.display_name

    def __init__(self, imap_port: int, smtp_port: int, password: str, sent: list[Sent]) -> None:
        self.imap_port = imap_port
        self.smtp_port = smtp_port
        self.username = OWNER.addr_spec
        self.password = password
        self._sent = sent

    def sent(self) -> list[Sent]:
        """The messages that were sent since the servers started, oldest first."""
        return list(self._sent)


@contextmanager
def start_demo_servers(folder: Path, announce: Callable[[str], None] = lambda line: None) -> Iterator[DemoServers]:
    """Run both servers until the block ends; the mailbox is made when the folder has none yet.

    announce: called, from a thread of its own, with one line about each message that is sent.
    """
    for name in ("mail", "sent", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Mailstore(folder / "mail", OWNER.addr_spec)
    if not store.exists():
        store.fill(sample_mailbox(datetime.now(UTC)))
    password = secrets.token_urlsafe(24)
    store.open_for(password)
    sink = _Sink(store, folder / "sent", password, announce)
    with _imap(folder) as imap_port, _smtp(sink) as smtp_port:
        yield DemoServers(imap_port, smtp_port, password, sink.sent)


@contextmanager
def _imap(folder: Path) -> Iterator[int]:
    port = _free_port()
    with (folder / "imap.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - this interpreter and our own file
            [
                *(sys.executable, "-P", str(Path(__file__).with_name("imap_process.py"))),
                *("--host", HOST, "--port", str(port), "--no-tls"),
                *("--no-service", "admin", "--no-service", "managesieve"),
                *("maildir", str(folder / "mail")),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # pymap writes a file and renames it into the mailbox: both must be on one file system.
            env={**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONUTF8": "1"},
            # Ctrl-C reaches the demo alone, which ends its servers after those who use them.
            process_group=0,
        )
    try:
        _wait_for_greeting(process, port, folder / "imap.log")
        yield port
    finally:
        process.terminate()
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None  # noqa: S101 - it was asked for above
        process.stdin.close()


def _wait_for_greeting(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection((HOST, port), timeout=1) as connection:
                if connection.recv(1):
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the demo's IMAP server does not start; {log} says why")


@contextmanager
def _smtp(sink: "_Sink") -> Iterator[int]:
    controller = Controller(
        sink,
        hostname=HOST,
        port=_free_port(),
        ready_timeout=_START,
        ident="postmirror demo",
        authenticator=sink.authenticate,
        auth_require_tls=False,
        enable_SMTPUTF8=True,
        data_size_limit=_LARGEST,
    )
    logging.getLogger("mail.log").setLevel(logging.ERROR)  # aiosmtpd warns itself about its own deprecations
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


class _Sink:
    """What aiosmtpd calls for each message: keep it, say so, and bring it to the inbox when it is for the owner."""

    def __init__(self, store: Mailstore, folder: Path, password: str, announce: Callable[[str], None]) -> None:
        self.sent: list[Sent] = []
        self._store = store
        self._folder = folder
        self._password = password
        self._announce = announce

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        raw, recipients = envelope.original_content, tuple(envelope.rcpt_tos)
        assert isinstance(raw, bytes)  # noqa: S101 - aiosmtpd decodes nothing unless told to
        file = self._folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.eml"
        file.write_bytes(raw)
        self.sent.append(Sent(envelope.mail_from or "", recipients, file))
        if OWNER.addr_spec in recipients:
            self._store.deliver(raw)
        subject = BytesHeaderParser(policy=policy.default).parsebytes(raw)["Subject"]
        self._announce(f"sent to {', '.join(recipients)}: {subject or '(no subject)'}")
        return "250 OK, kept by the demo: nothing leaves this machine"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, credentials: LoginPassword
    ) -> AuthResult:
        expected = OWNER.addr_spec.encode(), self._password.encode()
        return AuthResult(success=(credentials.login, credentials.password) == expected, handled=False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
