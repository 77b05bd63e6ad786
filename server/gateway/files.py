"""Files between mail and the workspace of a user: attachments saved there, and files from there attached."""

import logging
import mimetypes
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mirror.errors import MessageChanged, UpstreamError
from mirror.mail.filename import safe_filename
from mirror.message import Attachment
from server.attachments import Attachments, NoSuchAttachment
from server.auth import Caller
from server.gateway.accounts import Accounts
from server.gateway.answers import by_filename
from server.gateway.arguments import DownloadAttachment
from server.gateway.limits import Limits
from server.mailbox import NoSuchMessage
from server.sending.letter import Enclosure
from server.tool import Declined, Noted
from server.workspace import MAX_FILE, NoSuchFile, PathRefused, Workspace, WorkspaceFull, WorkspaceUnusable

log = logging.getLogger(__name__)

ENCLOSED_BYTES = 25_000_000
"""Bytes of all the files of one mail, which grow by a third on the way."""

WorkspaceOf = Callable[[str], Workspace]


class Files:
    """What the tools do with files. workspace_of: the workspace of a user."""

    def __init__(self, accounts: Accounts, attachments: Attachments, limits: Limits, workspace_of: WorkspaceOf) -> None:
        self._accounts = accounts
        self._attachments = attachments
        self._limits = limits
        self._workspace_of = workspace_of

    def download_attachment(self, caller: Caller, asked: DownloadAttachment) -> Noted:
        """Save an attachment in the workspace."""
        at = self._accounts.caller(caller, asked.account)
        workspace = self._workspace_of(at.user)
        with _about("the path"):
            workspace.check(asked.output_dir)
        with self._accounts.folder(at, asked.folder) as (mailbox, folder):
            message = mailbox.message(folder, asked.message_id)
            attachment = _named(asked.filename, by_filename(message.attachments))
            if attachment is None:
                raise _not_found(asked.filename)
            named = (mailbox.reader.epoch, folder.id, message.id, attachment.part)
        try:
            _, data = self._attachments.fetch(at, named, before_upstream=lambda: self._limits.operate(at))
        except (NoSuchAttachment, NoSuchMessage, MessageChanged):
            raise _not_found(asked.filename) from None
        except UpstreamError:
            raise Declined(
                "The mail server cannot be reached, and this attachment is not kept offline. Nothing was saved; try "
                "again later."
            ) from None
        with _about("the path"):
            path = workspace.save(asked.output_dir, attachment.filename, data)
        return Noted({"path": str(path), "filename": path.name})

    def enclosures(self, caller: Caller, paths: Sequence[str]) -> tuple[Enclosure, ...]:
        """The files at these paths, to go along with a mail."""
        workspace, left = self._workspace_of(caller.user), ENCLOSED_BYTES
        enclosures = []
        for path in paths:
            with _about(f"attachment {path[:200]}"):
                name, data = workspace.read(path, min(left, MAX_FILE))
            left -= len(data)
            enclosures.append(Enclosure(name, mimetypes.guess_type(name)[0] or "application/octet-stream", data))
        return tuple(enclosures)


def _not_found(filename: str) -> Declined:
    return Declined(f"Attachment not found: {filename}")


def _named(asked: str, attachments: dict[str, Attachment]) -> Attachment | None:
    """The attachment of that name: exactly, else in its normal form or made safe, else in any case if that is one.

    A client may know the name from elsewhere, as the mail has it.
    """
    composed = unicodedata.normalize("NFC", asked)
    for name in (asked, composed, safe_filename(asked, "", 0, Counter())):
        if name in attachments:
            return attachments[name]
    alike = [each for name, each in attachments.items() if name.casefold() == composed.casefold()]
    return alike[0] if len(alike) == 1 else None


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Refusals of the workspace in words for the client."""
    try:
        yield
    except PathRefused as exc:
        raise Declined(f"Refused: {what}: {exc}. Paths are within your workspace, such as invoices/2026.") from None
    except NoSuchFile:
        raise Declined(f"Refused: {what}: there is no such file in your workspace.") from None
    except WorkspaceFull as exc:
        raise Declined(f"Not saved: {exc}.") from None
    except WorkspaceUnusable as exc:
        log.error("workspace: %s", exc)  # noqa: TRY400 - the text says all
        raise Declined("The workspace cannot be used; ask the operator.") from None
