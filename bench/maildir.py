"""Mail put into a folder of a Dovecot as files: appending a hundred thousand messages would take an hour."""

import os
from collections.abc import Iterable
from pathlib import Path

from tests.servers.dovecot import Dovecot

_HEAD = "3 V1600000000 N{following} G0123456789abcdef0123456789abcdef\n"


def write_folder(dovecot: Dovecot, login: str, name: str, mails: Iterable[tuple[bytes, int]]) -> int:
    """Write (message, INTERNALDATE) pairs into a folder of a user who has not logged in yet; their octets in all."""
    home = dovecot.folder / "home"
    owner = home.stat()
    inbox = home / login / "mail"
    folder = inbox if name == "INBOX" else inbox / name
    for part in ("new", "tmp", "cur"):
        (folder / part).mkdir(parents=True)
    names, octets = [], 0
    for number, (raw, moment) in enumerate(mails, 1):
        names.append(f"{moment}.M{number}.bench,S={len(raw)},W={len(raw)}")
        path = folder / "cur" / f"{names[-1]}:2,S"
        path.write_bytes(raw)
        _give(path, owner)
        os.utime(path, (moment, moment))
        octets += len(raw)
    lines = [f"{uid} :{each}\n" for uid, each in enumerate(names, 1)]
    (folder / "dovecot-uidlist").write_text(_HEAD.format(following=len(names) + 1) + "".join(lines), "ascii")
    for path in (home / login, inbox, folder, *folder.iterdir()):
        _give(path, owner)
    return octets


def _give(path: Path, owner: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.chown(path, owner.st_uid, owner.st_gid)
