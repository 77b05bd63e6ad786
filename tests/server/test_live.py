"""The configuration in force follows its file, once the file has been left alone."""

import os
import time
from pathlib import Path

import pytest

from config.identity import Settings
from config.settings import ConfigError
from server.live import LiveSettings


def load(path: Path) -> Settings:
    """Settings whose data_dir is the file's text."""
    return Settings.model_validate({"server": {"reload_grace": path.read_text()}})


def grace(live: LiveSettings) -> float:
    """What is in force, as the file writes it."""
    return live.in_force().settings.server.reload_grace.total_seconds()


def test_an_edit_is_adopted_once_it_has_been_stable_for_200_ms(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("1s")
    live = LiveSettings(file, load)
    file.write_text("2s")
    edited = file.stat().st_mtime
    while grace(live) == 1:
        assert time.time() - edited < 10
        time.sleep(0.01)
    assert time.time() - edited >= 0.2


def test_an_edit_of_a_while_ago_is_adopted_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("1s")
    live = LiveSettings(file, load)
    file.write_text("2s")
    time.sleep(0.25)
    assert grace(live) == 2


def test_a_file_moved_into_place_is_noticed_whatever_its_time(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("1s")
    live = LiveSettings(file, load)
    other.write_text("2s")
    os.utime(other, (0, 0))
    other.rename(file)
    time.sleep(0.25)
    assert grace(live) == 2


def test_where_the_server_listens_and_keeps_its_files_is_read_at_the_start_only(tmp_path: Path) -> None:
    texts = {"one": {"port": 1, "data_dir": "/one"}, "two": {"port": 2, "data_dir": "/two"}}
    file = tmp_path / "file"
    file.write_text("one")
    live = LiveSettings(file, lambda path: Settings.model_validate({"server": texts[path.read_text()]}))
    before = live.in_force()
    file.write_text("two")
    time.sleep(0.25)
    after = live.in_force()
    assert (after.settings.server.port, after.settings.server.data_dir) == (1, Path("/one"))
    assert after.digest == before.digest


def test_a_file_that_is_gone_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def checked(path: Path) -> Settings:
        try:
            return load(path)
        except OSError as exc:
            raise ConfigError(path, ["there is no such file"]) from exc

    file = tmp_path / "file"
    file.write_text("1h")
    live = LiveSettings(file, checked)
    file.unlink()
    for _ in range(5):
        grace(live)
    assert live.error
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
