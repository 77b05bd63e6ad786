r"""The files that agents exchange with mail: the only place that turns what a client wrote into a file on the disk.

Each user has one folder below the root; nothing outside of it is read, written, created or told of. What a client
writes is split into names first, and a name that is not plain is refused before the disk is looked at: `..`, names that
begin with a dot or end with one or a blank, those of devices on other systems, control and format characters, and
`\ : * ? " < > |`. Then each name is opened relative to the folder before it, never following a link (`openat` with
O_NOFOLLOW), so that whatever is swapped for whatever during a call, what is open is what was checked: a path is never
looked up a second time. Only regular files with one name are read, only folders of this process's user are entered.

A file is written under a name that nobody can ask for, made durable, read back and compared, and then linked to its
name: link fails where that name exists in any case or normal form, and the next one with a number is tried. Before and
after, the folder is walked to again: where it is another one by now, the file goes and the call fails.
"""

import fcntl
import hashlib
import os
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

MAX_FILE = 50_000_000
"""Bytes of one file, in either direction."""
MAX_FILES = 10_000
_MAX_NAME = 200
_MAX_DEPTH = 20
_MAX_PATH = 1_000
_MAX_TRIES = 1_000
_PIECE = 1 << 20
_UNFINISHED = ".postmirror-"
_FORBIDDEN = frozenset('\\:*?"<>|')
_FORBIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_NUMBERED_DEVICES = (f"{kind}{each}" for kind in ("com", "lpt") for each in "0123456789¹²³")
_DEVICES = frozenset(("con", "prn", "aux", "nul", "conin$", "conout$", *_NUMBERED_DEVICES))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class PathRefused(ValueError):
    """The path is not one within the workspace, or not of a kind that is used; the text says why."""


class NoSuchFile(LookupError):
    """There is no such file within the workspace."""


class WorkspaceFull(RuntimeError):
    """The file does not fit."""


class WorkspaceUnusable(RuntimeError):
    """The operator's folder cannot be used; the text is for the log."""


class Workspace:
    """One user's folder.

    root: the operator's folder of all workspaces. name: of this one below it, "" when the root is the workspace.
    quota: bytes of all its files.
    """

    def __init__(self, root: Path, name: str, quota: int) -> None:
        self._root = root
        self._name = name
        self._quota = quota

    @property
    def path(self) -> Path:
        """Where the folder is, as clients are told."""
        return self._root / self._name if self._name else self._root

    def read(self, path: str, largest: int = MAX_FILE) -> tuple[str, bytes]:
        """(file name, bytes) of a file. Raises PathRefused, NoSuchFile and WorkspaceUnusable."""
        *folders, name = self._names(path) or [""]
        if not name:
            raise PathRefused("it names no file")
        with self._top() as top, _walk(top, folders) as folder:
            if folder is None:
                raise NoSuchFile(name)
            return _read(folder, name, largest)

    def check(self, folder: str) -> None:
        """Raises what a save into this folder would raise because of its path; nothing is made."""
        folders = self._names(folder)
        with self._top() as top, _walk(top, folders):
            pass

    def save(self, folder: str, filename: str, data: bytes) -> Path:
        """Write a file that was not there, and where it is: under its name, or that with a number.

        Raises PathRefused, WorkspaceFull and WorkspaceUnusable; then nothing is left behind but empty folders.
        """
        folders, name = self._names(folder), _checked(_tamed(filename))
        if len(data) > MAX_FILE:
            raise WorkspaceFull(f"it has {len(data)} bytes; {MAX_FILE} are allowed")
        with self._top() as top:
            # One at a time, in all processes: what several saves at once come to must fit as well.
            fcntl.flock(top, fcntl.LOCK_EX)
            # Everything that is there is looked at before anything is made.
            with _walk(top, folders):
                pass
            _check_room(top, len(data), self._quota)
            with _walk(top, folders, make=True) as opened:
                if opened is None:
                    raise PathRefused("a folder in it was removed meanwhile")
                chosen = _write(opened, name, data, partial(self._is_at, folders, opened))
        return self.path.joinpath(*folders, chosen)

    def _names(self, path: str) -> list[str]:
        """The names of a path within the workspace; the workspace's own path may stand before it."""
        if len(path) > _MAX_PATH:
            raise PathRefused("it is too long")
        own = f"{self.path}/"
        if path == str(self.path) or path.startswith(own):
            path = path[len(own) :]
        if path.startswith("/"):
            raise PathRefused("it is outside the workspace")
        names = [name for name in path.split("/") if name not in ("", ".")]
        if len(names) > _MAX_DEPTH:
            raise PathRefused("it is too deep")
        return [_checked(name) for name in names]

    def _is_at(self, folders: list[str], opened: int) -> bool:
        """Whether the way from the top leads to the folder that is open."""
        try:
            with self._top() as top, _walk(top, folders) as folder:
                return folder is not None and os.path.samestat(os.fstat(folder), os.fstat(opened))
        except (PathRefused, WorkspaceUnusable):
            return False

    @contextmanager
    def _top(self) -> Iterator[int]:
        """The user's folder, made where it is missing."""
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            raise WorkspaceUnusable(f"{self._root}: {exc.strerror}") from exc
        try:
            if self._name:
                with suppress(FileExistsError):
                    os.mkdir(self._name, 0o700, dir_fd=descriptor)
                try:
                    own = os.open(self._name, _FOLDER, dir_fd=descriptor)
                except OSError as exc:
                    raise WorkspaceUnusable(f"{self.path}: {exc.strerror}; it must be a folder and no link") from exc
                os.close(descriptor)
                descriptor = own
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
                raise WorkspaceUnusable(f"{self.path} belongs to another user or can be written by all: chmod 700")
            yield descriptor
        finally:
            os.close(descriptor)


def _tamed(filename: str) -> str:
    """A file name that a mail gave, without the characters that no name may have here."""
    kept = "".join(each for each in filename if unicodedata.category(each) not in _FORBIDDEN_CATEGORIES)
    return "".join("_" if each in _FORBIDDEN else each for each in kept)


def _checked(name: str) -> str:
    """A name in its composed form. Raises PathRefused for one that means something else somewhere."""
    name = unicodedata.normalize("NFC", name)
    # Full-width and other spellings of dots and slashes count as what they look like.
    alike = unicodedata.normalize("NFKC", name)
    if not alike.strip(". ") or any(each in alike for each in "/\\\N{FRACTION SLASH}\N{DIVISION SLASH}"):
        raise PathRefused("it leaves the workspace, or a name in it is empty")
    if any(unicodedata.category(each) in _FORBIDDEN_CATEGORIES or each in _FORBIDDEN for each in name):
        raise PathRefused("a name in it has a character that is not used in names")
    if name.startswith((".", "~", "-", " ")) or name.endswith((".", " ")):
        raise PathRefused("a name in it begins or ends with a character that is not used there")
    if name.partition(".")[0].strip().casefold() in _DEVICES:
        raise PathRefused("a name in it is that of a device on other systems")
    if len(name.encode()) > _MAX_NAME:
        raise PathRefused("a name in it is too long")
    return name


@contextmanager
def _walk(top: int, folders: list[str], *, make: bool = False) -> Iterator[int | None]:
    """The folder these names lead to from the top, None when one is missing and not made."""
    opened = os.dup(top)
    try:
        for name in folders:
            below = _enter(opened, name, make=make)
            if below is None:
                yield None
                return
            os.close(opened)
            opened = below
        yield opened
    finally:
        os.close(opened)


def _enter(folder: int, name: str, *, make: bool) -> int | None:
    spelled = _spelling(folder, name)
    if make:
        with suppress(FileExistsError):
            os.mkdir(spelled, 0o700, dir_fd=folder)
    try:
        below = os.open(spelled, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        raise PathRefused("a folder in it is a link, or no folder") from None
    if os.fstat(below).st_uid != os.geteuid():
        os.close(below)
        raise PathRefused("a folder in it belongs to another user")
    return below


def _spelling(folder: int, name: str) -> str:
    """The name as the disk has it: itself, or its one decomposed form."""
    decomposed = unicodedata.normalize("NFD", name)
    if decomposed == name or _exists(folder, name) or not _exists(folder, decomposed):
        return name
    return decomposed


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _read(folder: int, name: str, largest: int) -> tuple[str, bytes]:
    spelled = _spelling(folder, name)
    try:
        before = os.stat(spelled, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise NoSuchFile(name) from None
    except OSError:
        raise PathRefused("it cannot be read") from None
    # Looked at before it is opened: opening a device or a FIFO does something by itself.
    _check_regular(before)
    try:
        descriptor = os.open(spelled, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise NoSuchFile(name) from None
    except OSError:
        raise PathRefused("it is a link, or cannot be read") from None
    with os.fdopen(descriptor, "rb") as file:
        _check_regular(os.fstat(file.fileno()))
        data = file.read(largest + 1)
    if len(data) > largest:
        raise PathRefused(f"it has more than {largest} bytes")
    return name, data


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused("it is a link, a folder, a device or a pipe, and no file")
    if status.st_nlink != 1:
        raise PathRefused("it has a second name, which may be outside the workspace")
    if status.st_uid != os.geteuid():
        raise PathRefused("it belongs to another user")


def _write(folder: int, name: str, data: bytes, is_in_place: Callable[[], bool]) -> str:
    """Write data under the first free name, and return it."""
    unfinished = f"{_UNFINISHED}{secrets.token_hex(12)}"
    descriptor = os.open(unfinished, _NEW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except OSError as exc:
                raise WorkspaceFull(f"it cannot be written: {exc.strerror}") from exc
            if not _holds(file.fileno(), data):
                raise WorkspaceUnusable("what was written does not read back")
            if not is_in_place():
                raise PathRefused("a folder in it was moved or replaced meanwhile")
            chosen = _link(folder, unfinished, name)
            if not is_in_place():
                os.unlink(chosen, dir_fd=folder)
                raise PathRefused("a folder in it was moved or replaced meanwhile")
    finally:
        os.unlink(unfinished, dir_fd=folder)
    os.fsync(folder)
    return chosen


def _holds(descriptor: int, data: bytes) -> bool:
    """Whether the file has exactly this size and digest."""
    digest, at = hashlib.sha256(), 0
    while piece := os.pread(descriptor, _PIECE, at):
        digest.update(piece)
        at += len(piece)
    return at == len(data) and digest.digest() == hashlib.sha256(data).digest()


def _link(folder: int, unfinished: str, name: str) -> str:
    taken = {_comparable(each) for each in os.listdir(folder)}
    stem, dot, extension = name.rpartition(".")
    for number in range(1, _MAX_TRIES):
        candidate = name
        if number > 1:
            candidate = f"{stem} ({number}){dot}{extension}" if stem else f"{name} ({number})"
        if _comparable(candidate) in taken:
            continue
        try:
            os.link(unfinished, candidate, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            continue
        return candidate
    raise WorkspaceFull("there are too many files of this name")


def _comparable(name: str) -> str:
    """What two names share that are one on some file system."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFD", name).casefold())


def _check_room(top: int, size: int, quota: int) -> None:
    """Raises WorkspaceFull when a file of so many bytes does not fit. Links are counted and not followed.

    The caller holds the lock: what is unfinished now was left by a process that was killed, and goes.
    """
    total, files = size, 1
    for _, _, names, folder in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        for name in names:
            with suppress(OSError):
                if name.startswith(_UNFINISHED):
                    os.unlink(name, dir_fd=folder)
                    continue
                total += os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
            files += 1
    if total > quota or files > MAX_FILES:
        raise WorkspaceFull(f"the workspace may have {quota} bytes in {MAX_FILES} files: remove some")
