"""Logging of every process: one line an event, with its fields, on standard error."""

import logging
import sys
from typing import TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class _WithFields(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        fields = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        return text + "".join(f" {key}={value!r}" for key, value in fields.items())


def configure_logging(process: str, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Send events of this process to standard error, or another stream, marked with the process's name."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_WithFields(f"%(asctime)s {process} %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("imapclient", "httpx2", "mcp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # A job that is skipped because it runs already is our way of coalescing, not worth a warning.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
