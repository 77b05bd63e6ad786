"""Reads and writes that did not succeed, in words for the client: what happened, and what it can do now."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from mirror.errors import (
    AuthenticationRefused,
    MessageChanged,
    MirrorAbsent,
    MirrorCorrupt,
    QueryError,
    QueryTooSlow,
    StoreError,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamUnavailable,
)
from server.amounts import counted
from server.audit.log import AuditUnwritable
from server.mailbox import NoSuchFolder, NoSuchMessage, ReadOnly
from server.outbound import Denied
from server.sending.submission import (
    AddressesNotTaken,
    MailTooLarge,
    RecipientsRefused,
    SubmissionRefused,
    SubmissionUnavailable,
    SubmissionUncertain,
)
from server.state.store import KeyUsed, StateUnavailable, StillSending, TooManyRefusals, TooManySends
from server.tool import Declined

NO_FOLDER = "No such folder. list_folders names the folders there are."
NOT_MIRRORED = "This mailbox is not mirrored yet. Try again in a minute."
NOT_YET = "The text of this message is not mirrored yet. Read it again in a moment."
CLOSED = "The mail server does not let this account open this folder; only what was mirrored before is shown."
NO_COPY = "The mail was sent. Its copy could not be put into Sent; that is tried again for a day."
MIRROR_FOLLOWS = "The mail server has made the change. The mirror could not write it down yet and will follow."
WITHHELD = "The policy of this token withholds the text of messages."


@contextmanager
def reading(no_message: str) -> Iterator[None]:
    """Errors of the mirror as what the client can do about them. no_message: what to say of an id without message."""
    try:
        yield
    except MirrorAbsent:
        raise Declined(NOT_MIRRORED) from None
    except NoSuchFolder:
        raise Declined(NO_FOLDER) from None
    except NoSuchMessage:
        raise Declined(no_message) from None
    except ReadOnly:
        raise Declined("This folder may be read only.", "folders.access") from None
    except (QueryError, QueryTooSlow) as exc:
        raise Declined(str(exc)) from None
    except MirrorCorrupt:
        raise Declined("The mirror of this mailbox is damaged and will be built again. Try again later.") from None


@contextmanager
def changing(again: str) -> Iterator[None]:
    """Errors of the mail server as what the client can do about them. again: what a second try would mean."""
    try:
        yield
    except (sqlite3.Error, StoreError):
        # After upstream said yes none comes out any more.
        raise Declined("The mirror of this mailbox cannot be used now. Nothing was changed; try again later.") from None
    except AuditUnwritable:
        raise Declined(
            "The audit log cannot be written, and nothing is changed without it. Try again later, or ask the operator."
        ) from None
    except StateUnavailable:
        raise Declined(
            "The journal of changes cannot be written, and nothing is changed without it. Try again later, or ask the "
            "operator."
        ) from None
    except Denied as exc:
        raise Declined(f"Not stored: {exc.denial.reason}.", exc.denial.rule) from None
    except MessageChanged:
        raise Declined(
            "The mail server no longer has this message as the mirror knows it. List the folder again."
        ) from None
    except AuthenticationRefused:
        raise Declined(
            "The mail server refuses the login of this mailbox. Nothing was changed; ask the operator."
        ) from None
    except UpstreamRefused:
        raise Declined("The mail server refused the change.") from None
    except UpstreamUnavailable:
        raise Declined(
            "The mail server cannot be reached, so the change is not confirmed. Reading still works. "
            f"Nothing is retried by itself; {again}."
        ) from None
    except UpstreamBroken:
        raise Declined("The mail server gave an answer that makes no sense. The change is not confirmed.") from None


def _minutes(seconds: float) -> str:
    return counted(math.ceil(seconds / 60), "minute")


@contextmanager
def sending() -> Iterator[None]:
    """Outcomes of a send that is not a success, each with what it means for the recipients."""
    try:
        yield
    except Denied as exc:
        named = f": {', '.join(exc.denial.recipients)}" if exc.denial.recipients else ""
        raise Declined(f"Not sent: {exc.denial.reason}{named}. Nobody received it.", exc.denial.rule) from None
    except TooManyRefusals as exc:
        minutes = _minutes(exc.seconds)
        raise Declined(
            "Not sent: the mail server has refused too many mails of the last hour. "
            f"The next one may be tried in {minutes}.",
            "refusals",
        ) from None
    except TooManySends as exc:
        minutes = _minutes(exc.seconds)
        raise Declined(f"Not sent: the hourly limit is reached. The next mail fits in {minutes}.", "per_hour") from None
    except KeyUsed:
        raise Declined(
            "Not sent: this idempotency_key belongs to another mail. Nobody received this one; use a new key."
        ) from None
    except StillSending as exc:
        raise Declined(
            f"A mail with this idempotency_key is being sent now. Its Message-ID is <{exc.message_id}>. Ask again in a "
            "minute with the same key."
        ) from None
    except StateUnavailable:
        raise Declined(
            "Not sent: the journal of sent mail cannot be written, and nothing is sent without it. Nobody received it. "
            "Try again later, or ask the operator."
        ) from None
    except AuditUnwritable:
        raise Declined(
            "Not sent: the audit log cannot be written, and nothing is sent without it. Nobody received it. "
            "Try again later, or ask the operator."
        ) from None
    except RecipientsRefused as exc:
        named = ", ".join(f"{address} ({reply})" for address, reply in exc.refused)
        raise Declined(f"Not sent: the mail server refused {named}. Nobody received it.") from None
    except MailTooLarge as exc:
        raise Declined(
            f"Not sent: the mail has {exc.size} bytes and the mail server takes {exc.limit} at most. "
            "Nobody received it."
        ) from None
    except AddressesNotTaken as exc:
        raise Declined(
            f"Not sent: the mail server takes no addresses outside ASCII: {', '.join(exc.addresses)}. "
            "Nobody received it."
        ) from None
    except SubmissionRefused as exc:
        raise Declined(f"Not sent: the mail server refused the mail ({exc.reply}). Nobody received it.") from None
    except AuthenticationRefused:
        raise Declined("Not sent: the mail server refuses the login of this mailbox; ask the operator.") from None
    except SubmissionUnavailable:
        raise Declined(
            "Not sent: the mail server cannot be reached. Nobody received it, and nothing is sent later by itself."
        ) from None
    except SubmissionUncertain as exc:
        raise Declined(
            f"Uncertain: the connection ended after the mail was handed over, before the server confirmed it. "
            f"It may or may not have been sent. Its Message-ID is <{exc.message_id}>. "
            "It is not retried; check Sent before sending again."
        ) from None
