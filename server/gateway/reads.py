"""The gateway tools that read: accounts, folders, searches and messages, all from the mirror.

A token stands for a user and reaches all of the user's providers, or one; each call names one as `account`.
"""

import time
from datetime import datetime

from mirror.mirrored import FolderState, MirroredMessage
from mirror.query.criteria import Resolve, parse_criteria
from mirror.query.order import Position
from mirror.query.tree import Query
from server.auth import Caller
from server.gateway.accounts import Accounts
from server.gateway.answers import body_end, email, folder_list, noted
from server.gateway.arguments import GetEmail, ListAccounts, ListFolders, SearchEmails
from server.gateway.limits import Limits
from server.mailbox import Mailbox, NoSuchMessage
from server.reading import Found
from server.refusal import NOT_YET, WITHHELD
from server.seal import NotSealed
from server.shown import instant
from server.tool import Noted

SEARCH_SECONDS = 8.0
"""How long a search goes on, in the reader's steps, until as many as asked for are found."""


class Reads:
    """What the reading tools and the resources do."""

    def __init__(self, accounts: Accounts, limits: Limits) -> None:
        self._accounts = accounts
        self._limits = limits

    def list_accounts(self, caller: Caller, _: ListAccounts) -> Noted:
        """The accounts that the token reaches."""
        return Noted([{"name": name, "username": username} for name, username in self._accounts.names(caller)])

    def list_folders(self, caller: Caller, asked: ListFolders) -> Noted:
        """The folders of an account that may be read, containers of them included."""
        at = self._account(caller, asked.account)
        with self._accounts.open(at) as mailbox:
            folders = mailbox.all_folders()
        return noted(folder_list(folders), [each for each in folders if each.selectable], at.account)

    def search_emails(self, caller: Caller, asked: SearchEmails) -> Noted:
        """The ids of the newest messages that match, oldest first."""
        at = self._account(caller, asked.account)
        with self._accounts.folder(at, asked.folder) as (mailbox, folder):
            query = parse_criteria(asked.criteria, resolve=_resolver(mailbox), now=mailbox.now)
            messages, searched_back_to = _newest(mailbox, folder, query, asked.limit)
            ids = mailbox.uids(messages[::-1])
        answer = {"message_ids": ids, "count": len(ids)}
        if searched_back_to is None:
            return noted(answer, [folder], at.account)
        back_to = instant(searched_back_to)
        note = f"Time ran out: only mail since {back_to} was searched. Add a word, a sender or a range of days."
        return noted(answer, [folder], at.account, note, searched_back_to=back_to)

    def get_email(self, caller: Caller, asked: GetEmail) -> Noted:
        """One message with its body."""
        at = self._account(caller, asked.account)

        def compose(_: Mailbox, folder: FolderState, found: Found) -> Noted:
            message = found[asked.message_id]
            if message is None:
                raise NoSuchMessage(asked.message_id)
            return _email(at, folder, message, asked)

        return self._accounts.read(at, asked.folder, [asked.message_id], compose)

    def _account(self, caller: Caller, name: str) -> Caller:
        at = self._accounts.caller(caller, name)
        self._limits.read(at)
        return at


def _email(at: Caller, folder: FolderState, message: MirroredMessage, asked: GetEmail) -> Noted:
    policy = at.policy.content
    notes: list[str] = []
    meta: dict[str, object] = {}
    end = body_end(message, asked.offset, policy.max_body_chars)
    if not policy.bodies:
        notes.append(WITHHELD)
    elif message.text is None:
        notes.append(NOT_YET)
    elif end < len(message.text):
        meta["body_chars"], meta["next_offset"] = len(message.text), end
        notes.append(f"Cut: the body has {len(message.text)} characters. get_email with offset={end} reads on.")
    if message.findings:
        meta["findings"] = dict(message.findings)
    answer = email(asked.message_id, folder, message, asked.offset, end)
    return noted(answer, [folder], at.account, *notes, **meta)


def _resolver(mailbox: Mailbox) -> Resolve:
    def resolve(uid: str) -> int | None:
        try:
            return mailbox.seal.message_id(mailbox.reader.epoch, uid)
        except NotSealed:
            return None

    return resolve


def _newest(
    mailbox: Mailbox, folder: FolderState, query: Query, limit: int
) -> tuple[list[MirroredMessage], datetime | None]:
    """The newest messages that match, newest first; and the date down to which was searched, None for everything."""
    found: list[MirroredMessage] = []
    after: Position | None = None
    deadline = time.monotonic() + SEARCH_SECONDS
    while True:
        page = mailbox.page(folder, query, after, limit - len(found))
        found += page.messages
        if page.after is None or len(found) >= limit:
            return found, None
        if time.monotonic() > deadline:
            return found, page.searched_back_to or (found[-1].internaldate if found else None) or mailbox.now
        after = page.after
