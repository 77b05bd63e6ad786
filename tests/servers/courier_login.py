"""The login of a Courier: its own needs daemons of the machine. Run by tests.servers.courier.

    python -m tests.servers.courier_login PORT FOLDER UID < password

Any user name logs in with the password and has a mailbox of its own; the connection is then imapd's.
"""

import os
import pwd
import re
import signal
import socket
import sys
import threading
from pathlib import Path

from tests.servers.ports import HOST

_CAPABILITY = "IMAP4rev1 UIDPLUS CHILDREN NAMESPACE SORT QUOTA IDLE"
_LOGIN = re.compile(rb'LOGIN "?([^" ]+)"? (?:"((?:[^"\\]|\\.)*)"|(\S+))$', re.IGNORECASE)
_SETTINGS = {
    "PROTOCOL": "IMAP",
    "IMAP_CAPABILITY": _CAPABILITY,
    "IMAP_KEYWORDS": "1",
    "IMAP_ACL": "0",
    "IMAP_CHECK_ALL_FOLDERS": "0",
    "IMAP_OBSOLETE_CLIENT": "0",
    "IMAP_USELOCKS": "0",
    "IMAP_IDLE_TIMEOUT": "1",
    "IMAP_MAILBOX_SANITY_CHECK": "0",
    "IMAP_ENHANCEDIDLE": "0",
    "IMAP_MOVE_EXPUNGE_TO_TRASH": "0",
    "TCPREMOTEIP": HOST,
    "TCPREMOTEPORT": "0",
    "GAM_CLIENT_ID": f"tests-{os.getpid()}",
}


def _refuse_watching(user: str) -> None:
    """Stand in for the file watcher that imapd looks for; without an answer it tries for seconds at each login."""
    listener = socket.socket(socket.AF_UNIX)
    # Its client connects by an abstract name as long as sockaddr_un.
    listener.bind(f"\0/tmp/fam-{user}-{_SETTINGS['GAM_CLIENT_ID']}".ljust(108, "\0"))
    listener.listen()
    while True:
        listener.accept()[0].close()


def _serve(connection: socket.socket, folder: Path, uid: int, password: bytes) -> None:
    with connection.makefile("rwb", buffering=0) as stream:
        stream.write(f"* OK [CAPABILITY {_CAPABILITY}] Courier-IMAP ready.\r\n".encode())
        while line := stream.readline():
            tag, _, command = line.rstrip(b"\r\n").partition(b" ")
            login = _LOGIN.match(command)
            if command.upper() == b"CAPABILITY":
                stream.write(f"* CAPABILITY {_CAPABILITY}\r\n".encode() + tag + b" OK CAPABILITY completed\r\n")
            elif command.upper() == b"LOGOUT":
                stream.write(b"* BYE Courier-IMAP server shutting down\r\n" + tag + b" OK LOGOUT completed\r\n")
                return
            elif login and (login[2] or login[3]) == password:
                _become_imapd(connection, folder, uid, login[1].decode("ascii"), tag.decode("ascii"))
            else:
                stream.write(tag + b" NO Login failed.\r\n")


def _become_imapd(connection: socket.socket, folder: Path, uid: int, user: str, tag: str) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(pwd.getpwuid(uid).pw_gid)
        os.setuid(uid)
    home = folder / "home" / user
    home.mkdir(exist_ok=True)
    os.chdir(home)
    for part in ("cur", "new", "tmp"):
        Path("Maildir", part).mkdir(parents=True, exist_ok=True)
    os.dup2(connection.fileno(), 0)
    os.dup2(connection.fileno(), 1)
    environment = os.environ | _SETTINGS | {"HOME": str(home), "AUTHENTICATED": user, "IMAPLOGINTAG": tag}
    os.execve(folder / "packages" / "usr" / "bin" / "imapd", ["imapd", "Maildir"], environment)


def main() -> None:
    """Serve until killed."""
    port, folder, uid = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    password = sys.stdin.buffer.readline().strip()
    threading.Thread(target=_refuse_watching, args=(pwd.getpwuid(uid).pw_name,), daemon=True).start()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.create_server((HOST, port)) as listener:
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    _serve(connection, folder, uid, password)
                finally:
                    os._exit(0)
            connection.close()


if __name__ == "__main__":
    main()
