"""The sync worker as a child of this process: started, watched, started again.

The worker's standard input is a pipe that only this process holds the other end of: when this process ends, however it
ends, the pipe closes and the worker with it.
"""

import contextlib
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

from mirror.worker import RELOAD

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_STEADY_AFTER = 60.0
_STOP_WITHIN = 5.0


class Supervisor:
    """Keeps one sync worker running until it is stopped; one that ends is started again after a growing pause."""

    def __init__(self, config: Path) -> None:
        self._command = [sys.executable, "-m", "server.worker", str(config.absolute())]
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def __enter__(self) -> "Supervisor":
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the worker and watch it."""
        self._process = self._spawn()
        self._thread.start()

    def is_well(self) -> bool:
        """Whether the worker is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The worker's process id; 0 before it was started."""
        return 0 if self._process is None else self._process.pid

    def stop(self) -> None:
        """End the worker: asked first, killed after a few seconds. Nothing it was doing is lost."""
        self._stopping.set()
        process = self._process
        if process is not None:
            with contextlib.suppress(OSError):
                process.terminate()
            try:
                process.wait(_STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close_lifeline(process)
        self._thread.join(_STOP_WITHIN)

    def _spawn(self) -> subprocess.Popen[bytes]:
        # Its standard output goes nowhere: in a stdio session ours belongs to the protocol.
        return subprocess.Popen(  # noqa: S603 - this program's own module
            self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def _watch(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set() and self._process is not None:
            began = time.monotonic()
            code = self._process.wait()
            if self._stopping.is_set():
                return
            _close_lifeline(self._process)
            if code == RELOAD:
                logger.info("sync worker starts anew with the changed configuration")
            else:
                pause = _FIRST_PAUSE if time.monotonic() - began > _STEADY_AFTER else min(pause * 2, _LONGEST_PAUSE)
                logger.error("sync worker ended", extra={"code": code, "again_in": pause})
                if self._stopping.wait(pause):
                    return
            self._process = self._spawn()


def _close_lifeline(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
