"""The systemd unit: what systemd says of it, and what must be in it; and the files of docs/deploy."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from config.settings import parse_settings
from server.unit import Unit
from tests.server.doctor.installation import Installation
from tests.server.test_backup import run

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
WORST = 30
"""Of systemd's exposure level, in tenths: 3.0."""


def analyse(*words: str) -> subprocess.CompletedProcess[str]:
    """systemd-analyze, where there is one that reads files."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    path = tmp_path / "postmirror.service"
    config = Path("/etc/postmirror/postmirror.toml")
    made = Unit((sys.executable, "-m", "server.cli"), config, "daemon", (Path("/var/lib/postmirror"),))
    path.write_text(made.text)
    return path


def test_systemd_accepts_it(unit: Path) -> None:
    done = analyse("verify", str(unit))
    said = [line for line in done.stderr.splitlines() if "postmirror" in line]
    if not said and done.returncode:
        pytest.skip(f"systemd-analyze cannot verify here: {done.stderr[:200]}")
    assert said == []


def test_it_exposes_little(unit: Path) -> None:
    done = analyse("security", "--offline=true", f"--threshold={WORST}", "--no-pager", str(unit))
    overall = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    if overall is None:
        pytest.skip(f"systemd-analyze cannot judge files here: {done.stderr[:200]}")
    assert float(overall[1]) < WORST / 10, done.stdout
    assert done.returncode == 0


def test_it_is_for_this_configuration(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    text = run("unit", "--run-as", "mirror", "--config", installation.config).stdout
    assert f"serve --config {installation.config}\n" in text
    assert f"ReadWritePaths={installation.data_dir}\n" in text
    assert "User=mirror\n" in text
    of_user = run("unit", "--user", "--config", installation.config).stdout
    assert "User=" not in of_user
    assert "CapabilityBoundingSet" not in of_user
    assert "WantedBy=default.target" in of_user


def test_what_the_unit_would_not_find_is_told(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    installation.server["data_dir"] = "/var/tmp/not-made"
    installation.write()
    told = run("unit", "--run-as", "mirror", "--config", installation.config).stderr
    assert "PrivateTmp" in told
    assert "/var/tmp/not-made" in told
    assert "PrivateTmp" not in run("unit", "--user", "--config", installation.config).stderr


def test_names_with_blanks_and_signs_stay_whole() -> None:
    text = Unit(("/opt/post mirror/bin/postmirror",), Path('/etc/100%/a"b$c.toml'), "", ()).text
    assert r'ExecStart="/opt/post mirror/bin/postmirror" serve --config "/etc/100%%/a\"b$$c.toml"' in text


def test_the_configuration_of_the_container_is_one() -> None:
    text = (DEPLOY / "postmirror.toml").read_text("utf-8")
    server = parse_settings(text, Path("/etc/postmirror/postmirror.toml")).server
    assert server.behind_proxy
    compose = (DEPLOY / "compose.yaml").read_text("utf-8")
    assert server.trusted_proxies[0] in compose
    assert str(server.data_dir).startswith("/data/")


def test_the_image_has_every_package() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    for package in ("config", "mirror", "server"):
        assert f"COPY {package} {package}\n" in dockerfile
    assert dockerfile.index("USER postmirror") < dockerfile.index("ENTRYPOINT")
    assert "/healthz" in dockerfile
