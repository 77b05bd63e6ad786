"""Passwords by reference: the configuration says where a secret is, never what it is."""

import os
import stat
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict, model_validator

_COMMAND_TIMEOUT = 30.0


class SecretUnavailable(RuntimeError):
    """The secret could not be read; the text says where it was looked for and what to do."""


class SecretSource(BaseModel):
    """Where a secret comes from: `{ env = "NAME" }`, `{ file = "path" }` or `{ command = ["pass", "show", "x"] }`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    env: str | None = None
    file: Path | None = None
    command: tuple[str, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _never_in_clear(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(  # noqa: TRY004 - pydantic turns ValueError, not TypeError, into a located error
                "a secret is not written into this file: use "
                '{ env = "NAME" }, { file = "path" } or { command = ["program", "argument"] }'
            )
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> "SecretSource":
        if sum(source is not None for source in (self.env, self.file, self.command)) != 1:
            raise ValueError('give exactly one of env = "NAME", file = "path", command = ["program", "argument"]')
        if self.command is not None and not self.command:
            raise ValueError("command is empty: give the program and its arguments")
        return self

    def read(self) -> str:
        """The secret itself, without a line end. Runs the command each time: keep the answer, not the call.

        Raises SecretUnavailable, whose text never holds any part of the secret.
        """
        if self.env is not None:
            try:
                return os.environ[self.env]
            except KeyError:
                raise SecretUnavailable(
                    f"environment variable {self.env} is not set: export it and start again"
                ) from None
        if self.file is not None:
            return self._read_file(self.file)
        return self._run(self.command or ())

    @staticmethod
    def _read_file(path: Path) -> str:
        path = path.expanduser()
        try:
            if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise SecretUnavailable(f"{path} can be written by others: chmod 600 {path}")
            return path.read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as exc:
            raise SecretUnavailable(
                f"secret file {path} cannot be read ({type(exc).__name__}): check the path"
            ) from exc

    @staticmethod
    def _run(command: tuple[str, ...]) -> str:
        program = command[0]
        try:
            done = subprocess.run(  # noqa: S603 - the operator's own argv, without a shell
                command, capture_output=True, timeout=_COMMAND_TIMEOUT, check=True, stdin=subprocess.DEVNULL
            )
        except FileNotFoundError:
            raise SecretUnavailable(f"secret command {program!r} is not installed") from None
        except subprocess.CalledProcessError as exc:
            raise SecretUnavailable(
                f"secret command {program!r} failed with exit code {exc.returncode}: run it by hand"
            ) from None
        except subprocess.TimeoutExpired:
            raise SecretUnavailable(
                f"secret command {program!r} did not answer within {_COMMAND_TIMEOUT:.0f} s: run it by hand"
            ) from None
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\r\n")
