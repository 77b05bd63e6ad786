"""Secrets by reference: read when asked for, never shown."""

import sys
from pathlib import Path

import pytest

from config.secret import SecretSource, SecretUnavailable


def test_a_secret_comes_from_environment_file_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "pä€ss")
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text("from file\n", "utf-8")
    assert SecretSource(env="A_SECRET").read() == "pä€ss"
    assert SecretSource(file=path).read() == "from file"
    assert SecretSource(command=(sys.executable, "-c", "print('said')")).read() == "said"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        (SecretSource(env="NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE"),
        (SecretSource(file=Path("/nowhere/secret")), "/nowhere/secret"),
        (SecretSource(command=("no-such-program-here",)), "not installed"),
        (SecretSource(command=(sys.executable, "-c", "print('hunter2'); raise SystemExit(3)")), "exit code 3"),
    ],
)
def test_what_cannot_be_read_is_said_without_the_secret(source: SecretSource, hint: str) -> None:
    with pytest.raises(SecretUnavailable, match=hint) as caught:
        source.read()
    assert "hunter2" not in str(caught.value)


def test_a_secret_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x", "utf-8")
    path.chmod(0o662)
    with pytest.raises(SecretUnavailable, match="chmod 600"):
        SecretSource(file=path).read()


def test_a_command_is_run_without_a_shell(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    source = SecretSource(command=("echo", f"x; touch {canary}"))
    assert source.read() == f"x; touch {canary}"
    assert not canary.exists()
