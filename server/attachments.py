"""GET /attachments/{id}: one attachment, fetched from the mail server and checked against the policy of this moment.

The whole part is fetched (past a megabyte onto the disk, in a file without a name) before the first byte is sent, so
that a mail server that hangs up gives an error and never half a file, and a slow client does not hold the IMAP session.
"""

import logging
import re
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import quote

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from mirror.content import decode_part
from mirror.errors import MessageChanged, MirrorAbsent, UpstreamError
from mirror.listing import Place
from mirror.message import Attachment
from mirror.store import Store
from mirror.upstream import Upstream
from server.auth import Caller, current_caller
from server.mailbox import Mailboxes, NoSuchFolder, NoSuchMessage
from server.seal import NotSealed
from server.upstreams import Upstreams

log = logging.getLogger(__name__)

_IN_MEMORY = 1_000_000
_PIECE = 65_536
_AT_ONCE = 4
_SLACK = 100_000
_INERT = re.compile(
    r"(?:image|audio|video)/(?!svg)[a-z0-9][a-z0-9.+-]*|text/(?:plain|csv|calendar)|font/[a-z0-9-]+"
    r"|application/(?:pdf|zip|gzip|json|rtf|msword|octet-stream|vnd\.(?:ms-|openxmlformats-|oasis\.)[a-z0-9.-]+)"
)
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Accept-Ranges": "none",
}


class NoSuchAttachment(LookupError):
    """The id is forged or foreign, or what it names is hidden, gone or not allowed."""


class Attachments:
    """The download endpoint. spool_dir: where large parts wait, out of sight of other users."""

    def __init__(self, mailboxes: Mailboxes, upstreams: Upstreams, spool_dir: Path) -> None:
        self._mailboxes = mailboxes
        self._upstreams = upstreams
        self._spool_dir = spool_dir

    async def download(self, request: Request) -> Response:
        """Serve one attachment to the caller of this request."""
        work = partial(self._fetch, current_caller(), request.path_params["id"])
        try:
            attachment, file = await anyio.to_thread.run_sync(work, limiter=_limiter(request))
        except (NoSuchAttachment, MessageChanged):
            return JSONResponse({"error": "not_found"}, 404, SAFE_HEADERS)
        except UpstreamError as exc:
            log.warning("attachment: not fetched, %s", type(exc).__name__)
            text = "The mail server cannot be reached, and attachments are fetched from it. Try again later."
            return JSONResponse({"error": "unavailable", "error_description": text}, 503, SAFE_HEADERS)
        headers = {
            **SAFE_HEADERS,
            "Content-Disposition": disposition(attachment.filename),
            "Content-Length": str(file.seek(0, 2)),
        }
        return StreamingResponse(_pieces(file), headers=headers, media_type=served_type(attachment.media_type))

    def _fetch(self, caller: Caller, word: str) -> tuple[Attachment, IO[bytes]]:
        attachment, place = self._allowed(caller, word)

        def work(upstream: Upstream) -> IO[bytes]:
            file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(self._spool_dir))  # noqa: SIM115 - _pieces closes it
            try:
                _write(upstream.fetch_section(place, attachment.part), attachment, file)
            except BaseException:
                file.close()
                raise
            return file

        return attachment, self._upstreams.run((caller.user, caller.provider), caller.account, work)

    def _allowed(self, caller: Caller, word: str) -> tuple[Attachment, Place]:
        try:
            epoch, folder_id, message_id, part = self._mailboxes.seal(caller).attachment_of(word)
            with self._mailboxes.open(caller) as mailbox:
                if epoch != mailbox.reader.epoch or folder_id not in {folder.id for folder in mailbox.folders()}:
                    raise NoSuchAttachment(word)
                message = mailbox.message_by_id(folder_id, message_id)
        except (NotSealed, MirrorAbsent, NoSuchFolder, NoSuchMessage):
            raise NoSuchAttachment(word) from None
        for attachment in message.attachments:
            if attachment.part == part:
                with Store(self._mailboxes.mirrors.folder(caller.user, caller.provider)) as store:
                    place = store.place(message_id)
                if place is not None:
                    return attachment, place
        raise NoSuchAttachment(word)


def _write(pieces: Iterator[bytes], attachment: Attachment, file: IO[bytes]) -> None:
    for piece in decoded(pieces, attachment.encoding):
        file.write(piece)
        # The policy let a part of a known size through, so that much and no more is served.
        if file.tell() > attachment.size + _SLACK:
            raise NoSuchAttachment("it is larger than the mirror knows")


def _limiter(request: Request) -> anyio.CapacityLimiter:
    """How many downloads may wait for mail servers at once; made in the event loop that it belongs to."""
    state = request.app.state
    if not hasattr(state, "downloads"):
        state.downloads = anyio.CapacityLimiter(_AT_ONCE)
    limiter: anyio.CapacityLimiter = state.downloads
    return limiter


def decoded(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """The bytes of a part, its transfer encoding undone piece by piece: in sum what `decode_part` makes of it."""
    rest = b""
    for piece in pieces:
        rest += piece
        ready = _decodable(rest, encoding)
        if ready:
            yield decode_part(rest[:ready], encoding)
            rest = rest[ready:]
    yield decode_part(rest, encoding)


def _decodable(data: bytes, encoding: str) -> int:
    """How many of these bytes can be decoded without seeing what follows."""
    if encoding == "base64":
        # Whole lines of whole quartets; anything unusual waits for the end.
        end = data.rfind(b"\n") + 1
        lines = data[:end].split()
        return end if lines and b"=" not in data[:end] and all(len(line) % 4 == 0 for line in lines) else 0
    if encoding == "quoted-printable":
        return data.rfind(b"\n") + 1
    return 0 if "uue" in encoding else len(data)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece


def served_type(media_type: str) -> str:
    """The media type to serve a part under: its own where no program runs such a thing, else opaque bytes."""
    return media_type if _INERT.fullmatch(media_type) else "application/octet-stream"


def disposition(filename: str) -> str:
    """A Content-Disposition that saves under this name (RFC 6266), with a plain spelling for old clients."""
    plain = re.sub(r"[^A-Za-z0-9 ._-]", "_", filename)[:100] or "attachment"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename[:200], safe='')}"
