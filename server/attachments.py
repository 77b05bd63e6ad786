"""GET /attachments/{id}: one attachment, checked against the policy of this moment.

What is kept offline is read from the disk, the rest is fetched from the mail server. The whole part is fetched and
decoded before the first byte is sent: what a broken encoding means is only seen at its end, a mail server that hangs
up gives an error and never half a file, and a slow client does not hold the IMAP session. The price is memory, so
that only a few downloads are prepared at once.
"""

import logging
import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mirror.blobs import blob_path
from mirror.errors import MessageChanged, MirrorAbsent, UpstreamError, UpstreamUnavailable
from mirror.listing import Place
from mirror.mail.transfer import decode_part
from mirror.message import Attachment
from mirror.upstream import Upstream
from server.audit.log import Audit
from server.auth import Caller, current_caller
from server.long_call import still_wanted
from server.mailbox import Mailboxes, NoSuchFolder, NoSuchMessage
from server.seal import AttachmentId, NotSealed
from server.upstreams import Upstreams

log = logging.getLogger(__name__)

FETCH_SECONDS = 120.0
"""How long the fetch of one attachment may go on."""
_AT_ONCE = 2
_LONGEST_ENCODING = 4
_SLACK = 100_000
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
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
    "Accept-Ranges": "bytes",
}


LINKED = "postmirror.attachment"
"""Where a request's scope holds the attachment that its signed link names."""


class NoSuchAttachment(LookupError):
    """The id is forged or foreign, or what it names is hidden, gone or not allowed."""


class Attachments:
    """The download endpoint."""

    def __init__(self, mailboxes: Mailboxes, upstreams: Upstreams, audit: Audit) -> None:
        self._audit = audit
        self._mailboxes = mailboxes
        self._upstreams = upstreams

    async def download(self, request: Request) -> Response:
        """Serve one attachment to the caller of this request: the one that a signed link names, else of the path."""
        caller = current_caller()
        work = partial(self.fetch, caller, request.scope.get(LINKED) or request.path_params["id"])
        try:
            attachment, data = await anyio.to_thread.run_sync(work, limiter=_limiter(request))
        except (NoSuchAttachment, MessageChanged):
            self._audit.note("download", "declined", caller)
            return JSONResponse({"error": "not_found"}, 404, SAFE_HEADERS)
        except UpstreamError as exc:
            log.warning("attachment: not fetched, %s", type(exc).__name__)
            self._audit.note("download", "failed", caller, reason=type(exc).__name__)
            text = "The mail server cannot be reached, and attachments are fetched from it. Try again later."
            return JSONResponse({"error": "unavailable", "error_description": text}, 503, SAFE_HEADERS)
        headers = {**SAFE_HEADERS, "Content-Disposition": disposition(attachment.filename)}
        self._audit.note("download", "done", caller, size=len(data))
        piece = asked_range(request.headers.get("range", ""), len(data))
        if piece is None:
            return Response(data, headers=headers, media_type=served_type(attachment.media_type))
        if not piece:
            return Response(None, 416, {**SAFE_HEADERS, "Content-Range": f"bytes */{len(data)}"})
        headers["Content-Range"] = f"bytes {piece.start}-{piece.stop - 1}/{len(data)}"
        part = data[piece.start : piece.stop]
        return Response(part, 206, headers, media_type=served_type(attachment.media_type))

    def fetch(
        self, caller: Caller, word: str | AttachmentId, before_upstream: Callable[[], None] = lambda: None
    ) -> tuple[Attachment, bytes]:
        """An attachment and its bytes. before_upstream: called when the mail server is needed for them.

        Raises NoSuchAttachment, MessageChanged and the other UpstreamErrors.
        """
        attachment, place, kept = self._allowed(caller, word)
        if kept is not None:
            try:
                data = kept.read_bytes()
                os.utime(kept)
            except FileNotFoundError:
                pass  # dropped in this moment, for the total's sake
            else:
                return attachment, data
        before_upstream()
        section = self._upstreams.run(
            (caller.user, caller.provider), caller.account, lambda upstream: _section(upstream, place, attachment)
        )
        self._mailboxes.mirrors.count(caller.user, caller.provider, len(section))
        return attachment, decode_part(section, attachment.encoding)

    def _allowed(self, caller: Caller, word: str | AttachmentId) -> tuple[Attachment, Place, Path | None]:
        """The attachment, where it is upstream, and the file it is kept in offline."""
        folder = self._mailboxes.mirrors.folder(caller.user, caller.provider)
        try:
            attachment_id = self._mailboxes.seal(caller).attachment_of(word) if isinstance(word, str) else word
            epoch, folder_id, message_id, part = attachment_id
            with self._mailboxes.open(caller) as mailbox:
                if epoch != mailbox.reader.epoch or folder_id not in {folder.id for folder in mailbox.folders()}:
                    raise NoSuchAttachment(word)
                message = mailbox.message_by_id(folder_id, message_id)
                digest = mailbox.reader.blob(message.content, part)
                place = mailbox.reader.place(message_id)
        except (NotSealed, MirrorAbsent, NoSuchFolder, NoSuchMessage):
            raise NoSuchAttachment(word) from None
        for attachment in message.attachments:
            if attachment.part == part and place is not None:
                return attachment, place, None if digest is None else blob_path(folder, digest)
        raise NoSuchAttachment(word)


def _section(upstream: Upstream, place: Place, attachment: Attachment) -> bytes:
    """The part as it is upstream. The policy let one of a known size through: much more than that is not fetched."""
    section, began = bytearray(), time.monotonic()
    for piece in upstream.fetch_section(place, attachment.part):
        section += piece
        if len(section) > attachment.size * _LONGEST_ENCODING + _SLACK:
            raise NoSuchAttachment("it is larger than the mirror knows")
        if time.monotonic() - began > FETCH_SECONDS:
            raise UpstreamUnavailable("the attachment does not come in time")
        still_wanted(len(section), None, "fetching from the mail server")
    return bytes(section)


def asked_range(header: str, size: int) -> range | None:
    """The bytes a Range header asks for (RFC 9110 14.1.2), an empty range for none of them, None for the whole.

    One range only; several, and what cannot be read, are answered with the whole, as the RFC allows.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        return range(max(0, size - int(match[2])), size)
    stop = min(size, int(match[2]) + 1) if match[2] else size
    return None if match[2] and int(match[2]) < int(match[1]) else range(int(match[1]), stop)


def _limiter(request: Request) -> anyio.CapacityLimiter:
    """How many downloads may wait for mail servers at once; made in the event loop that it belongs to."""
    state = request.app.state
    if not hasattr(state, "downloads"):
        state.downloads = anyio.CapacityLimiter(_AT_ONCE)
    limiter: anyio.CapacityLimiter = state.downloads
    return limiter


def served_type(media_type: str) -> str:
    """The media type to serve a part under: its own where no program runs such a thing, else opaque bytes."""
    return media_type if _INERT.fullmatch(media_type) else "application/octet-stream"


def disposition(filename: str) -> str:
    """A Content-Disposition that saves under this name (RFC 6266), with a plain spelling for old clients."""
    plain = re.sub(r"[^A-Za-z0-9 ._-]", "_", filename)[:100] or "attachment"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename[:200], safe='')}"
