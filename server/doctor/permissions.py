"""Who may read and write what an installation keeps: configuration, secrets, key and data directory."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from config.identity import Settings
from config.secret import SecretSource, SecretUnavailable
from server.amounts import counted
from server.doctor.finding import Finding, fail, ok, warn
from server.key import KEY_BYTES

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_configuration(path: Path) -> Iterator[Finding]:
    """Of the file alone, before it is read."""
    try:
        status = path.stat()
    except OSError:
        return  # reading it says so
    if status.st_mode & _WRITABLE:
        yield fail("configuration-writable", path, "others can write the configuration", f"chmod 600 {path}")
    elif status.st_mode & stat.S_IROTH:
        yield warn(
            "configuration-readable", path, "everybody here can read the addresses and rules in it", f"chmod 600 {path}"
        )
    if status.st_uid not in (0, os.geteuid()):
        yield fail(
            "configuration-owner",
            path,
            f"it belongs to {_user_name(status.st_uid)}, who can change what every token may do",
            f"chown {_user_name(os.geteuid())} {path}",
        )
    folder = path.absolute().parent
    mode = folder.stat().st_mode
    if mode & _WRITABLE and not mode & stat.S_ISVTX:
        yield fail(
            "configuration-folder",
            folder,
            "others can write the folder of the configuration, and so put another file in its place",
            f"chmod go-w {folder}",
        )


def check_secrets(settings: Settings) -> Iterator[Finding]:
    """Every secret that the configuration names: there, private, and not empty."""
    seen: set[SecretSource] = set()
    for user, name, provider in settings.identities():
        for kind, endpoint in (("imap", provider.imap), ("smtp", provider.smtp)):
            if endpoint is None:
                continue
            _, source = provider.login(endpoint)
            about = f"{user}/{name} {kind}"
            if provider.is_signed_in(endpoint):
                continue
            if source is None and provider.auth == "password":
                yield fail("secret-none", about, "no password is configured", "set password in the provider's table")
            elif source is not None and source not in seen:
                seen.add(source)
                yield from _check_secret(source, about)


def _check_secret(source: SecretSource, about: str) -> Iterator[Finding]:
    if source.file is not None:
        path = source.file.expanduser()
        try:
            is_open = bool(path.stat().st_mode & _OTHERS)
        except OSError as exc:
            yield fail(
                "secret-missing", about, f"{path}: {exc.strerror}", "write the password into this file, chmod 600"
            )
            return
        if is_open:
            yield fail("secret-readable", about, f"others can read or write {path}", f"chmod 600 {path}")
    try:
        secret = source.read()
    except SecretUnavailable as exc:
        if not (source.file is not None and is_open):
            what, _, how = str(exc).rpartition(": ")
            yield fail("secret-missing", about, what or str(exc), how or "check the secret")
        return
    if not secret:
        yield fail("secret-empty", about, "the password is empty", "put the password where the configuration says")
    elif secret != secret.strip():
        yield warn(
            "secret-blanks",
            about,
            "the password begins or ends with a blank, which is rarely meant",
            "write it again without blanks: printf %s 'PASSWORD' > FILE",
        )


def check_data(data_dir: Path) -> Iterator[Finding]:
    """Of the data directory and of what lies in it."""
    if not data_dir.exists():
        yield ok("data", data_dir, "not there yet: made by the first sync or serve")
        return
    status = data_dir.stat()
    if status.st_uid != os.geteuid():
        owner = _user_name(status.st_uid)
        yield fail(
            "data-owner",
            data_dir,
            f"it belongs to {owner}, and this is {_user_name(os.geteuid())}",
            f"run postmirror as that user: sudo -u {owner} postmirror …",
        )
        return
    bad = False
    if status.st_mode & _OTHERS:
        bad = True
        yield fail(
            "data-mode",
            data_dir,
            "other users of this machine can look into the data directory",
            f"chmod 700 {data_dir}",
        )
    foreign = [path for path in _kept(data_dir) if path.lstat().st_uid != os.geteuid()]
    if foreign:
        bad = True
        yield fail(
            "data-file-owner",
            foreign[0],
            f"{counted(len(foreign), 'file')} not of the user of postmirror, as after a command that ran as root",
            f"chown -R {_user_name(os.geteuid())} {data_dir}",
        )
    opened = [path for path in _kept(data_dir) if not path.is_socket() and path.lstat().st_mode & _OTHERS]
    if opened:
        bad = True
        yield fail(
            "data-file-mode", opened[0], f"others can read {counted(len(opened), 'file')}", f"chmod -R go= {data_dir}"
        )
    key = data_dir / "key"
    if key.exists() and key.stat().st_size != KEY_BYTES:
        bad = True
        yield fail(
            "key",
            key,
            "this is not a data key",
            "put it back from a backup, or remove it: uids given out are then invalid",
        )
    elif not key.exists() and (data_dir / "state.db").exists():
        bad = True
        yield fail(
            "key-missing",
            key,
            "the data key has gone: every uid and cursor given out is invalid",
            "put it back from a backup (postmirror restore); without one, the next start makes a new key",
        )
    if not bad:
        yield ok("data", data_dir, "private, and all of it of this user")


def check_agent(data_dir: Path, agent: str) -> Iterator[Finding]:
    """Whether the user that the agent runs as can read the data directory."""
    try:
        entry = pwd.getpwnam(agent)
    except KeyError:
        yield fail("agent-unknown", agent, "there is no such user", "give --agent-user the name of a user here")
        return
    if entry.pw_uid in (0, os.geteuid()):
        yield fail(
            "agent-same-user",
            agent,
            "it runs as the user of Postmirror, or as root, and can read mail, key and passwords past every rule",
            "run Postmirror as a user of its own (docs/operations.md, a user of its own)",
        )
        return
    groups = {entry.pw_gid, *(group.gr_gid for group in grp.getgrall() if agent in group.gr_mem)}
    if data_dir.exists() and all(
        _may(folder, entry.pw_uid, groups, stat.S_IXOTH) for folder in (data_dir, *data_dir.parents)
    ):
        yield fail("agent-reads", data_dir, f"{agent} can enter the data directory", f"chmod 700 {data_dir}")
    else:
        yield ok("agent", agent, "cannot enter the data directory")


def _may(path: Path, user: int, groups: set[int], bit: int) -> bool:
    status = path.stat()
    if status.st_uid == user:
        return bool(status.st_mode & bit << 6)
    return bool(status.st_mode & (bit << 3 if status.st_gid in groups else bit))


def _kept(data_dir: Path) -> list[Path]:
    """What lies in it, but for blobs, of which there can be many."""
    patterns = ("*", "audit/*", "mirrors/*", "mirrors/*/*", "mirrors/*/*/*")
    return [path for pattern in patterns for path in data_dir.glob(pattern)]


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
