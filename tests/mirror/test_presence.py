"""Clients that read are felt by the process that syncs, for some seconds and by no other trace."""

import os
import time
from pathlib import Path

import pytest

from mirror.presence import LASTS, Presence


def test_read_of_one_process_is_felt_by_another(tmp_path: Path) -> None:
    worker, web = Presence(tmp_path), Presence(tmp_path)
    assert not worker.is_felt()
    web.show()
    assert worker.is_felt()
    [file] = tmp_path.iterdir()
    assert (file.stat().st_size, file.stat().st_mode & 0o777) == (0, 0o600)


@pytest.mark.parametrize("away", [-LASTS - 1, 3_600.0], ids=["long ago", "before the clock was put back"])
def test_read_of_another_time_is_not_felt_and_the_next_one_is(tmp_path: Path, away: float) -> None:
    Presence(tmp_path).show()
    [file] = tmp_path.iterdir()
    os.utime(file, (time.time() + away,) * 2)
    assert not Presence(tmp_path).is_felt()
    Presence(tmp_path).show()
    assert Presence(tmp_path).is_felt()


def test_read_goes_on_where_nothing_can_be_shown(tmp_path: Path) -> None:
    nowhere = Presence(tmp_path / "removed")
    nowhere.show()
    assert not nowhere.is_felt()
