"""The workspace: what clients write as paths reaches nothing outside of one user's folder."""

import ctypes
import hashlib
import os
import socket
import stat
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server import workspace as module
from server.workspace import NoSuchFile, PathRefused, Workspace, WorkspaceFull, WorkspaceUnusable

SECRET = b"the operator's own"
QUOTA = 1_000_000


class Place:
    """A host with a workspace for alice and one for bob, and things outside that must stay as they are."""

    def __init__(self, folder: Path) -> None:
        self.outside = folder / "outside"
        self.root = folder / "workspaces"
        self.alice = self.root / "alice"
        for each in (self.outside, self.outside / "folder", self.root / "bob", self.alice / "docs" / "deep"):
            each.mkdir(parents=True)
        for each in (self.outside / "secret.txt", self.outside / "folder" / "secret.txt", self.root / "bob" / "b.txt"):
            each.write_bytes(SECRET)
        (self.alice / "a.txt").write_bytes(b"hers")
        (self.alice / "docs" / "report.pdf").write_bytes(b"%PDF")
        (self.alice / "link.txt").symlink_to(self.outside / "secret.txt")
        (self.alice / "near.txt").symlink_to("a.txt")
        (self.alice / "out").symlink_to(self.outside / "folder")
        (self.alice / "up").symlink_to("..")
        (self.alice / "in").symlink_to("docs")
        (self.alice / "loop").symlink_to("loop")
        (self.alice / "docs" / "root").symlink_to("/")
        (self.alice / "dangling").symlink_to(self.outside / "not-there-yet")
        os.link(self.outside / "secret.txt", self.alice / "hard.txt")
        os.mkfifo(self.alice / "fifo")
        (self.alice / ".hidden").write_bytes(b"x")
        self.workspace = Workspace(self.root, "alice", QUOTA)
        self.before = self.fingerprint()

    def fingerprint(self) -> dict[str, str]:
        """Everything outside alice's folder, by path: kind and digest."""
        found = {}
        for start in (self.outside, self.root / "bob"):
            for path in sorted([start, *start.rglob("*")]):
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                found[str(path)] = f"{path.lstat().st_mode} {hashlib.sha256(content).hexdigest()}"
        found["root"] = " ".join(sorted(each.name for each in self.root.iterdir()))
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """The host; afterwards nothing outside alice's folder has changed, and no unfinished file is left in it."""
    made = Place(tmp_path)
    yield made
    assert made.fingerprint() == made.before
    assert not list(made.alice.rglob(f"{module._UNFINISHED}*"))


LONG = "n" * 201
ATTACKS = [
    # traversal
    "..", "../", "../bob/b.txt", "../../outside/secret.txt", "docs/../../bob/b.txt", "docs/..", "docs/../a.txt",
    "./../bob/b.txt", "../alice/a.txt", "....//....//bob/b.txt", "..\\bob\\b.txt", "docs\\..\\..\\bob", "..;/bob/b.txt",
    "docs/deep/../../../bob/b.txt", "a.txt/../../bob/b.txt", "\u2025/bob/b.txt", "..\u200b/bob/b.txt",
    "\uff0e\uff0e/bob/b.txt\u202e", "..%00/bob", "docs/.../x", " ../bob/b.txt", ".. /bob/b.txt",
    # absolute and other roots
    "/", "/etc/passwd", "//etc/passwd", "/proc/self/environ", "/dev/null", "/dev/fd/0", "/proc/self/root/etc/passwd",
    "file:///etc/passwd", "C:\\Windows\\win.ini", "C:/Windows/win.ini", "\\\\server\\share\\x", "~/x", "~root/x",
    "$HOME/:x", "//?/C:/x",
    # characters
    "a.txt\x00.pdf", "\x00", "a\nb", "a\rb", "a\tb", "a\x1b[2J", "a\x7f", "\u202etxt.exe", "a\u200d.txt", "a\ufeff.txt",
    "\ud800", "a:stream", "a*", "a?", 'a"b', "a<b", "a>b", "a|b", "a\\b",
    "..\uff0fbob\uff0fb.txt", "a\u2215b", "a\u2044b", "\uff0e\uff0e",
    # names
    ".hidden", "docs/.hidden", ".ssh/authorized_keys", ".", "-rf", "a.txt.", "a.txt ", "docs./report.pdf", "CON",
    "con.txt", "NUL", "aux.tar.gz", "COM1", "lpt9.txt", "COM\u00b9.txt", LONG, f"docs/{LONG}", "d/" * 25, "x/" * 600,
    "\u00e9" * 101,
    # links and what else is no file
    "link.txt", "near.txt", "out/secret.txt", "out", "up/bob/b.txt", "up/alice/a.txt", "in/report.pdf", "loop",
    "loop/x", "docs/root/etc/passwd", "dangling", "hard.txt", "fifo", "docs", "docs/deep/", "a.txt/x",
]  # fmt: skip
SAVES = [
    each
    for each in ATTACKS
    # These are folders that may be made, or the workspace itself.
    if each not in (".", "docs", "docs/deep/", "hard.txt", "fifo", "near.txt", "link.txt", "loop", "dangling")
]


def test_the_table_of_attacks_is_long() -> None:
    assert len(set(ATTACKS)) == len(ATTACKS) > 90
    assert len(SAVES) > 80


@pytest.mark.parametrize("path", ATTACKS)
def test_nothing_is_read_through(place: Place, path: str) -> None:
    with pytest.raises((PathRefused, NoSuchFile)):
        place.workspace.read(path)


@pytest.mark.parametrize("path", [*SAVES, "link.txt", "near.txt", "loop", "dangling", "hard.txt", "fifo"])
def test_nothing_is_saved_through_and_nothing_is_made(place: Place, path: str) -> None:
    inside = sorted(place.alice.rglob("*"))
    with pytest.raises(PathRefused):
        place.workspace.save(path, "new.txt", b"data")
    assert sorted(place.alice.rglob("*")) == inside


@pytest.mark.parametrize("deeper", ["out/new/folder", "up/bob/new", "loop/new", "docs/root/tmp/new", "fifo/new"])
def test_no_folder_is_made_behind_a_link(place: Place, deeper: str) -> None:
    with pytest.raises(PathRefused):
        place.workspace.save(deeper, "new.txt", b"data")


@pytest.mark.parametrize("filename", ["../x.txt", "/x.txt", "", "..", ".", ".bashrc", "a/b", "CON.txt", LONG, "\x00"])
def test_no_name_of_a_file_leads_elsewhere(place: Place, filename: str) -> None:
    with pytest.raises(PathRefused):
        place.workspace.save("docs", filename, b"data")


@pytest.mark.parametrize("filename", ["link.txt", "dangling", "hard.txt", "fifo", "a.txt", "A.TXT", "docs"])
def test_what_has_a_name_is_never_written_to(place: Place, filename: str) -> None:
    saved = place.workspace.save("", filename, b"data")
    assert saved.read_bytes() == b"data"
    assert "(2)" in saved.name
    assert (place.alice / "a.txt").read_bytes() == b"hers"
    assert not (place.outside / "not-there-yet").exists()


def test_a_socket_and_a_device_are_no_files(place: Place) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.alice / "socket"))
        with pytest.raises(PathRefused):
            place.workspace.read("socket")
    if os.geteuid() == 0:
        os.mknod(place.alice / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        with pytest.raises(PathRefused):
            place.workspace.read("null")


def test_files_of_another_user_are_not_read(place: Place) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(place.alice / "a.txt", 65_534, 65_534)
    with pytest.raises(PathRefused):
        place.workspace.read("a.txt")
    os.chown(place.alice / "docs", 65_534, 65_534)
    with pytest.raises(PathRefused):
        place.workspace.save("docs", "x.txt", b"data")


def test_a_workspace_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "alice").symlink_to("elsewhere")
    with pytest.raises(WorkspaceUnusable):
        Workspace(tmp_path, "alice", QUOTA).save("", "x.txt", b"data")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_workspace_that_all_can_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    (tmp_path / "alice").chmod(0o777)
    with pytest.raises(WorkspaceUnusable):
        Workspace(tmp_path, "alice", QUOTA).read("x.txt")


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "docs/report.pdf", "docs//report.pdf", "docs/./report.pdf"])
def test_files_within_are_read(place: Place, path: str) -> None:
    name, data = place.workspace.read(path)
    assert name == path.rpartition("/")[2]
    assert data in (b"hers", b"%PDF")


def test_the_path_a_save_returns_can_be_attached(place: Place) -> None:
    saved = place.workspace.save("new/folder", "x.txt", b"data")
    assert saved == place.alice / "new" / "folder" / "x.txt"
    assert place.workspace.read(str(saved)) == ("x.txt", b"data")
    assert place.workspace.save(str(place.alice / "new"), "y.txt", b"y").parent == place.alice / "new"
    with pytest.raises(PathRefused):
        place.workspace.read(str(place.root / "bob" / "b.txt"))
    with pytest.raises(PathRefused):
        place.workspace.read(f"{place.alice}/../bob/b.txt")
    with pytest.raises(PathRefused):
        place.workspace.read(f"{place.alice}2/b.txt")


def test_what_is_saved_is_private_and_whole(place: Place) -> None:
    saved = place.workspace.save("fresh", "x.bin", bytes(range(256)) * 1000)
    assert saved.read_bytes() == bytes(range(256)) * 1000
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert stat.S_IMODE(saved.parent.stat().st_mode) == 0o700
    assert saved.stat().st_nlink == 1


def test_a_name_that_is_taken_gets_a_number(place: Place) -> None:
    names = [place.workspace.save("docs", "report.pdf", b"%d" % number).name for number in range(3)]
    assert names == ["report (2).pdf", "report (3).pdf", "report (4).pdf"]
    assert (place.alice / "docs" / "report.pdf").read_bytes() == b"%PDF"
    assert place.workspace.save("docs", "README", b"1").name == "README"
    assert place.workspace.save("docs", "README", b"2").name == "README (2)"


def test_names_are_one_in_every_normal_form(place: Place) -> None:
    (place.alice / unicodedata.normalize("NFD", "Entwürfe")).mkdir()
    saved = place.workspace.save("Entwürfe", "x.txt", b"data")
    assert [each.name for each in place.alice.iterdir() if "Entw" in each.name] == [saved.parent.name] or len(
        [each for each in place.alice.iterdir() if each.name.startswith("Entw")]
    ) == 1
    assert place.workspace.read("Entwürfe/x.txt")[1] == b"data"
    assert place.workspace.read(unicodedata.normalize("NFD", "Entwürfe/x.txt"))[1] == b"data"
    assert place.workspace.save("", unicodedata.normalize("NFD", "é.txt"), b"1").name == "é.txt"
    assert place.workspace.save("", "É.txt", b"2").name == "É (2).txt"


def test_format_characters_of_a_mails_file_name_are_left_out(place: Place) -> None:
    assert place.workspace.save("", "fdp\u202ecod.exe", b"1").name == "fdpcod.exe"
    assert place.workspace.save("", "👩\u200d💻.png", b"1").name == "👩💻.png"


def test_quotas_hold(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.workspace.save("", "most.bin", b"x" * (QUOTA - 10_000))
    with pytest.raises(WorkspaceFull):
        place.workspace.save("", "more.bin", b"x" * 20_000)
    monkeypatch.setattr(module, "MAX_FILES", 3)
    with pytest.raises(WorkspaceFull):
        place.workspace.save("", "one.bin", b"")
    with pytest.raises(WorkspaceFull):
        place.workspace.save("", "large.bin", b"x" * (module.MAX_FILE + 1))
    with pytest.raises(PathRefused):
        place.workspace.read("most.bin", largest=100)


def test_saves_at_once_share_the_quota(place: Place) -> None:
    def save(number: int) -> bool:
        try:
            place.workspace.save(f"all/{number}", "part.bin", b"x" * (QUOTA // 4))
        except WorkspaceFull:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(save, range(16))) == 3
    assert sum(each.stat().st_size for each in place.alice.rglob("part.bin")) <= QUOTA


def test_what_a_killed_process_left_unfinished_goes_with_the_next_save(place: Place) -> None:
    left = place.alice / "docs" / ".postmirror-0123456789abcdef01234567"
    left.write_bytes(b"x" * QUOTA)
    place.workspace.save("", "next.bin", b"y" * 1_000)
    assert not left.exists()


def swap_for_link(place: Place) -> None:
    """Put a link to a folder outside where docs is."""
    (place.alice / "docs").rename(place.alice / "was-docs")
    (place.alice / "docs").symlink_to(place.outside / "folder")


def swap_for_folder(place: Place) -> None:
    """Put another folder where docs is."""
    (place.alice / "docs").rename(place.alice / "was-docs")
    (place.alice / "docs").mkdir()


def remove(place: Place) -> None:
    """Take docs away."""
    (place.alice / "docs").rename(place.alice / "was-docs")


@pytest.mark.parametrize("swap", [swap_for_link, swap_for_folder, remove])
@pytest.mark.parametrize("step", ["_check_room", "_write", "_holds", "_link"])
def test_a_folder_swapped_during_a_save_gets_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Place], None], step: str
) -> None:
    really = getattr(module, step)

    def swapping(*arguments: object) -> object:
        swap(place)
        monkeypatch.setattr(module, step, really)
        return really(*arguments)

    monkeypatch.setattr(module, step, swapping)
    try:
        saved = place.workspace.save("docs", "x.txt", b"data")
    except PathRefused:
        assert not [
            path for path in place.alice.rglob("x.txt") if not path.is_relative_to(place.alice / "docs" / "root")
        ]
    else:
        assert saved.parent.resolve().is_relative_to(place.alice)
        assert saved.read_bytes() == b"data"


def test_a_file_swapped_for_a_link_before_it_is_opened_is_not_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = module._check_regular

    def swapping(status: os.stat_result) -> None:
        really(status)
        (place.alice / "a.txt").unlink(missing_ok=True)
        (place.alice / "a.txt").symlink_to(place.outside / "secret.txt")

    monkeypatch.setattr(module, "_check_regular", swapping)
    with pytest.raises(PathRefused):
        place.workspace.read("a.txt")


def exchange(one: Path, other: Path) -> int:
    """Give each the other's name at one stroke (renameat2 with RENAME_EXCHANGE); 0 when it worked."""
    libc = ctypes.CDLL(None)
    return int(libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)) if hasattr(libc, "renameat2") else 1


def test_links_swapped_all_the_time_never_lead_outside(place: Place) -> None:
    evil, ending = place.alice / "evil", threading.Event()
    evil.symlink_to(place.outside / "folder")
    (place.alice / "docs" / "secret.txt").write_bytes(b"hers")
    if exchange(evil, place.alice / "docs") or exchange(evil, place.alice / "docs"):
        pytest.skip("this system cannot exchange two names")

    def swap() -> None:
        while not ending.is_set():
            exchange(evil, place.alice / "docs")
            time.sleep(0.0001)

    thread = threading.Thread(target=swap)
    thread.start()
    read = refused = 0
    try:
        for number in range(100):
            try:
                assert place.workspace.read("docs/secret.txt")[1] == b"hers"
                read += 1
            except (PathRefused, NoSuchFile):
                refused += 1
            try:
                place.workspace.save("docs", f"n{number}.txt", b"data")
                read += 1
            except PathRefused:
                refused += 1
    finally:
        ending.set()
        thread.join()
    assert read
    assert refused
