"""A process that sends one mail and is killed on the way: `python -m tests.server.killed_sender CONFIG STEP`."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from config.settings import load_settings
from server.app import Parts
from server.auth import Authenticator
from server.live import LiveSettings
from server.outbound import Draft
from server.sending import outbox, submission
from server.state.store import State
from tests.servers.ports import PASSWORD

STEPS = {
    "before the journal": ("begin_submission", "before"),
    "journalled": ("begin_submission", "after"),
    "before handing over": ("hand_over", "before"),
    "handed over": ("hand_over", "after"),
    "answered": ("settle_submission", "before"),
    "settled": ("settle_submission", "after"),
    "settled, leaving": ("_leave", "before"),
    "copy appended": ("settle_copy", "before"),
    "copy settled": ("settle_copy", "after"),
}
"""Where it dies: by a name, before or after which call."""
DRAFT = Draft("alice@example.org", ("bob@example.org",), "Hi", "Hello.", bcc=("carol@example.org",))
_CONFIGURATION = """
[server]
data_dir = "data"

[users.alice.providers.work]
address = "alice@example.org"
username = "{user}"
password = {{ file = "password" }}
imap = {{ host = "127.0.0.1", port = {imap_port}, security = "plain" }}
smtp = {{ host = "127.0.0.1", port = {smtp_port}, security = "plain" }}
sent_copy = "auto"

[profiles.assistant.outbound]
to_allow = ["*"]
per_hour = 100
"""


def written_settings(folder: Path, imap_port: int, smtp_port: int, user: str) -> Path:
    """The configuration of Alice's mailbox, in a file."""
    text = _CONFIGURATION.format(imap_port=imap_port, smtp_port=smtp_port, user=user)
    config = folder / "postmirror.toml"
    for path, content in ((config, text), (folder / "password", PASSWORD)):
        path.touch(mode=0o600)
        path.write_text(content, "utf-8")
    return config


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(owner: Any, name: str, when: str) -> None:
    """From now on, calling this ends the process, before or after it does its work."""
    real: Callable[..., Any] = getattr(owner, name)

    def dying(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            _die()
        answer = real(*arguments, **named)
        _die()
        return answer

    setattr(owner, name, dying)


def main() -> None:
    """Send, and die at the step."""
    config, step = Path(sys.argv[1]), sys.argv[2]
    outbox.FILED_WITHIN = 0.6
    live = LiveSettings(config, load_settings)
    state = State(live.in_force().settings.server.data_dir)
    parts = Parts.open(live, state)
    name, when = STEPS[step]
    _dying(submission if name == "_leave" else state, name, when)
    parts.outbound.send(Authenticator(live, state).by_name("alice", "assistant", "work"), DRAFT, "key")


if __name__ == "__main__":
    main()
