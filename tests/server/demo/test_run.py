"""`postmirror demo` as a person runs it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import children_of, is_running
from tests.servers.ports import free_port


def demo(folder: Path, *words: str) -> list[str]:
    """The command line of a demo that keeps its files in a folder."""
    return [sys.executable, "-m", "server.cli", "demo", "--folder", str(folder), "--port", str(free_port()), *words]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, the process's own."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "POSTMIRROR_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return path


def test_once_answers_a_search_and_a_read_and_leaves_nothing_outside_its_folder(tmp_path: Path, home: Path) -> None:
    for _ in range(2):
        done = subprocess.run(
            demo(tmp_path / "demo", "--once"), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "messages mirrored" in done.stdout
        assert '"subject"' in done.stdout
        assert '"body"' in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    assert list(home.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"demo", "home"}


def test_ctrl_c_ends_it_without_a_traceback_or_an_orphan(tmp_path: Path, home: Path) -> None:
    environment = {**os.environ, "COLUMNS": "100"}
    process = subprocess.Popen(
        demo(tmp_path / "demo"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if "What is sent" in line:
            break
    assert "\nToken  " in shown
    assert "claude mcp add" in shown
    assert '"mcpServers"' in shown
    family = children_of(process.pid)
    assert family
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(20) == 0
    process.stdout.close()
    assert "Traceback" not in rest
    assert not any(map(is_running, family))


def test_second_demo_in_one_folder_is_refused_and_the_first_goes_on(tmp_path: Path, home: Path) -> None:
    first = subprocess.Popen(demo(tmp_path / "demo"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert first.stdout is not None
    try:
        for line in first.stdout:
            if "What is sent" in line:
                break
        written = (tmp_path / "demo" / "postmirror.toml").read_bytes()
        second = subprocess.run(demo(tmp_path / "demo"), capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 1
        assert second.stderr.startswith("Error: another demo runs in")
        assert (tmp_path / "demo" / "postmirror.toml").read_bytes() == written
    finally:
        first.send_signal(signal.SIGINT)
        first.stdout.close()
        first.wait(20)


def test_token_is_the_same_at_the_next_start(tmp_path: Path, home: Path) -> None:
    tokens = set()
    for _ in range(2):
        subprocess.run(demo(tmp_path / "demo", "--once"), capture_output=True, timeout=60, check=True)
        tokens.add((tmp_path / "demo" / "token").read_text("ascii"))
    assert len(tokens) == 1
