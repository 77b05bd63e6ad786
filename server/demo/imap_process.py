"""The demo's IMAP server as a process of its own: pymap, which ends when the pipe on its standard input closes.

That pipe is held by the process that started it, so however that one ends, `kill -9` included, no server is left
behind. Run as `python imap_process.py ARGUMENTS-OF-PYMAP`.
"""

import os
import signal
import sys
import threading

from pymap.main import main

_GRACE = 2.0


def _end_with_the_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    main()
