"""The TLS certificate that the web process serves with, followed while it is renewed."""

import logging
import ssl
import stat
import threading
from pathlib import Path

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0


class CertificateUnusable(OSError):
    """The certificate or its key cannot be used; the text says which, and what to do."""


class Certificate:
    """Certificate and key from two files. context: what connections are served with. Raises CertificateUnusable."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._files = (cert_file, key_file)
        self._seen = self._signature()
        self.context = self._load()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="certificate", daemon=True)

    def __enter__(self) -> "Certificate":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._thread.join()

    def refresh(self) -> bool:
        """Serve new connections with what the files hold now, when that is another pair that fits. Whether it was."""
        seen = self._signature()
        if seen == self._seen:
            return False
        # One of the two may be renewed and the other not yet: they are tried before they count.
        self._load()
        self.context.load_cert_chain(*self._files)
        self._seen = seen
        return True

    def _follow(self) -> None:
        reason = ""
        while not self._stopping.wait(LOOK_EVERY):
            try:
                if self.refresh():
                    log.info("certificate: renewed")
                reason = ""
            except CertificateUnusable as exc:
                if str(exc) != reason:
                    log.error("certificate: the one before goes on being served: %s", exc)  # noqa: TRY400 - no fault of the program
                reason = str(exc)

    def _load(self) -> ssl.SSLContext:
        cert_file, key_file = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            is_open_to_others = key_file.stat().st_mode & (stat.S_IWGRP | stat.S_IRWXO)
            # A key with a passphrase would ask for it on the terminal.
            context.load_cert_chain(cert_file, key_file, password=lambda: "")
        except ssl.SSLError as exc:
            raise CertificateUnusable(
                f"{cert_file} and {key_file} are no certificate and its key: {exc.reason}"
            ) from exc
        except OSError as exc:
            raise CertificateUnusable(f"{exc.filename or cert_file} cannot be read: {exc.strerror}") from exc
        if is_open_to_others:
            raise CertificateUnusable(f"{key_file} can be read or written by others: chmod 600 {key_file}")
        return context

    def _signature(self) -> tuple[tuple[int, int, int], ...]:
        found = []
        for path in self._files:
            try:
                status = path.stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)
