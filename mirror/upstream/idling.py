"""IDLE (RFC 2177): waiting until the server says something by itself."""

import select
import ssl
from collections.abc import Callable

from mirror.errors import UpstreamRefused
from mirror.upstream.login import Login


class Idling(Login):
    """A session that listens."""

    def idle(self, timeout: float, started: Callable[[], None]) -> bool:
        """IDLE (RFC 2177) on the open folder until the server reports a change or the time is up. Whether it did.

        started is called once the server listens: what happened before that may not be reported, so look then. A hint
        only: every waking is followed by a sync, and so is every renewal.
        """
        with self._translating():
            tag = self._send("IDLE")
            while self._imap._get_response() is not None:  # noqa: SLF001 - None: the continuation has come
                if self._imap.tagged_commands[tag]:
                    self._complete("IDLE", tag)
                    raise UpstreamRefused("the server ends IDLE before it began")
            started()
            if not self._imap.untagged_responses and not self._has_buffered():
                select.select([self._client.socket()], [], [], timeout)
            self._imap.send(b"DONE\r\n")
            return bool(self._complete("IDLE", tag).keys() & {"EXISTS", "EXPUNGE", "FETCH", "VANISHED", "RECENT"})

    def _has_buffered(self) -> bool:
        """Whether more has come in the segment that ended the last line: select does not see what was read already."""
        connected = self._client.socket()
        before = connected.gettimeout()
        connected.settimeout(0.0)
        try:
            return bool(self._imap.file.peek(1))
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        finally:
            connected.settimeout(before)
