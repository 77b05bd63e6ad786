"""The sync worker: a process that keeps every mirror in step, niced so that it never steals a core from a read.

It ends when its standard input closes, so that `kill -9` of its parent leaves no orphan; and when the configuration
file changed and can be read, with exit code RELOAD, so that its parent starts it anew with the new one.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from config.identity import Settings
from config.settings import ConfigError, load_settings
from mirror.arenas import share_arenas
from mirror.credential import Credentials, as_configured
from mirror.database import private_folder
from mirror.keeper import Keeper
from mirror.log import configure_logging
from mirror.parsing import Parsers
from mirror.presence import Presence
from mirror.schedule import Schedule

logger = logging.getLogger(__name__)

RELOAD = 75
NICENESS = 19
_LOOK_AT_FILE = 1.0


OpenCredentials = Callable[[Settings], AbstractContextManager[Credentials]]
"""What the mailboxes of a configuration are logged in with, for the length of a block."""


def main(credentials: OpenCredentials = lambda _: nullcontext(as_configured)) -> None:
    """Run until the parent is gone or asks to stop. Argument: the configuration file."""
    path = Path(sys.argv[1])
    configure_logging("worker")
    share_arenas()
    os.nice(NICENESS)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which then closes our input
    threading.Thread(target=_end_with_parent, name="lifeline", daemon=True).start()
    sys.exit(_serve(path, stopping, credentials))


def _serve(path: Path, stopping: threading.Event, credentials: OpenCredentials) -> int:
    before = path.stat().st_mtime_ns
    try:
        settings = load_settings(path)
    except ConfigError as exc:
        logger.error("configuration cannot be used: %s", exc)  # noqa: TRY400 - the text says all
        return 2
    changed = threading.Event()

    def watch_file() -> None:
        seen = before
        while not stopping.wait(_LOOK_AT_FILE):
            try:
                now = path.stat().st_mtime_ns
                if now != seen:
                    seen = now
                    if load_settings(path) != settings:
                        changed.set()
                        stopping.set()
            except (OSError, ConfigError):
                logger.warning("the configuration file changed and cannot be used; the old one stays in force")

    threading.Thread(target=watch_file, name="configuration", daemon=True).start()
    # SQLite's temporary files hold mail too: they belong beside it, not into a folder that all programs share.
    os.environ["SQLITE_TMPDIR"] = str(private_folder(settings.server.data_dir))
    presence = Presence(settings.server.data_dir)
    with (
        credentials(settings) as credential_of,
        Parsers(settings.sync.parse_children, are_in_the_way=presence.is_felt) as parsers,
    ):
        keepers = [
            Keeper(
                *(f"{user}/{name}", settings.mirror_dir(user, name), provider, parsers, stopping),
                credential=credential_of(user, name, provider, provider.imap),
            )
            for user, name, provider in settings.identities()
        ]
        Schedule(keepers, settings.sync.workers, stopping).run()
    return RELOAD if changed.is_set() else 0


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
