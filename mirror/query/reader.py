"""A reader of one mirror: the only SELECTs that serve clients, and no writes.

A Reader has one read-only connection and serves one thread at a time. Several may read while the mirror is written.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from mirror.errors import MirrorAbsent, MirrorCorrupt, QueryTooSlow
from mirror.listing import Place
from mirror.mirrored import AccountState, FolderState, MirroredMessage, Quarantined
from mirror.query import account, order, rows, sql
from mirror.query.order import Position
from mirror.query.plan import superset
from mirror.query.progress import OutOfTime, Progress
from mirror.query.search import Scope, Search, content_moment
from mirror.query.tree import All, Node, OneOf, Positions, Query, ReceivedAt, conditions, evaluate, replace_nodes

View = Callable[[MirroredMessage], MirroredMessage | None]
"""What a profile sees of a message, or None. Its argument has text and headers where they are mirrored.

A view is pure. It may drop fields and delete spans of text; whatever it puts in their place must be no text that a
pattern could find. It leaves id, content, internaldate and size as they are, and adds nothing.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of one folder in the order of the query.

    after: where the next page starts, None when there is none; it may be the place of a message that a view hides, so
    a client gets it sealed. searched_back_to: None, or the INTERNALDATE down to which the mirror was searched when the
    time for one call ran out; `after` goes on from there. With a view it is the date of a message that the view shows,
    or None where it showed none on the way: a date that could be a hidden message's is never given.
    """

    messages: list[MirroredMessage]
    after: Position | None
    searched_back_to: datetime | None = None


class Reader:
    """One read-only connection to one mirror's file.

    Raises MirrorAbsent when there is no file, or none that was set up yet: "not mirrored yet".
    """

    def __init__(self, path: Path, *, deadline: float = 2.0) -> None:
        self._deadline = deadline
        if not path.is_file():
            raise MirrorAbsent("this mailbox is not mirrored yet")
        try:
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=5,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.OperationalError as exc:
            raise MirrorAbsent("this mailbox is not mirrored yet") from exc
        try:
            for pragma in _PRAGMAS:
                self._connection.execute(pragma)
            sql.register(self._connection)
            self._progress = Progress(self._connection)
            self._scopes: dict[int, tuple[float, Scope]] = {}
            self._folders: tuple[int, list[FolderState]] | None = None
            row = self._connection.execute(_EPOCH).fetchone()
        except sqlite3.OperationalError as exc:
            self._connection.close()
            raise MirrorAbsent("this mailbox is not mirrored yet") from exc
        except sqlite3.DatabaseError as exc:
            self._connection.close()
            raise MirrorCorrupt(str(exc)) from exc
        if row is None:
            self._connection.close()
            raise MirrorAbsent("this mailbox is not mirrored yet")
        self.epoch: int = row[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def folders(self) -> list[FolderState]:
        """Every folder of the mirror that upstream still has, by name."""
        with self._reading():
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if self._folders is None or self._folders[0] != version:
                self._folders = (version, [rows.folder(row) for row in self._connection.execute(_FOLDERS)])
            return list(self._folders[1])

    def blob(self, content: int, part: str) -> bytes | None:
        """SHA-256 of an attachment that is kept offline (`mirror.blobs.blob_path`), None when it is not."""
        with self._reading():
            row = self._connection.execute(
                "SELECT digest FROM attachment_blob WHERE content = ? AND part = ?", (content, part)
            ).fetchone()
        return None if row is None else bytes(row[0])

    def place(self, message_id: int) -> Place | None:
        """Where a message is upstream; None when the mirror no longer has it, or does not know its uid just now."""
        with self._reading():
            return rows.place(self._connection, message_id)

    def account(self) -> AccountState:
        """How the account is."""
        with self._reading():
            return account.account(self._connection)

    def quarantined(self, folder_id: int, limit: int = 20) -> list[Quarantined]:
        """The first messages of a folder that could not be fetched or read."""
        with self._reading():
            return account.quarantined(self._connection, folder_id, limit)

    def message(
        self, folder_id: int, message_id: int, with_html: bool = False, with_headers: bool = False
    ) -> MirroredMessage | None:
        """One message with its text, or None when the folder does not hold it (or nothing of it is known yet)."""
        found = self.find(folder_id, [message_id], with_html=with_html, with_headers=with_headers)
        return found[0] if found else None

    def find(
        self, folder_id: int, message_ids: Sequence[int], with_html: bool = False, with_headers: bool = False
    ) -> list[MirroredMessage]:
        """Those of the messages that the folder holds, with their text, in the order asked for."""
        with self._reading():
            return self._load(folder_id, message_ids, with_text=True, with_html=with_html, with_headers=with_headers)

    def page(
        self,
        folder_id: int,
        query: Query | None,
        after: Position | None,
        limit: int,
        view: View | None = None,
        since: datetime | None = None,
    ) -> Page:
        """The next `limit` messages of a folder that match, in the query's order.

        after: None for the first page, else what the previous page of the same query said. view: what the profile
        sees; every condition and sort key is then computed from its result. Without a view the messages come without
        text, with one as the view left them. since: the view shows nothing older, so that the search ends there.
        """
        wanted = query or Query()
        with self._reading():
            scope = self._scope(folder_id)
            self._progress.start(self._deadline)
            try:
                if wanted.filter is not None and any(isinstance(each, Positions) for each in conditions(wanted.filter)):
                    wanted = Query(replace_nodes(wanted.filter, self._placed(folder_id, view)), wanted.order)
                if view is not None:
                    restricted = self._restricted_sorted if wanted.order else self._restricted
                    return restricted(scope, wanted, after, limit, view, since)
                return (self._sorted if wanted.order else self._newest)(scope, wanted, after, limit)
            finally:
                self._progress.stop()

    def _newest(self, scope: Scope, query: Query, after: Position | None, limit: int) -> Page:
        found: list[Position] = []
        cut: Position | None = None
        try:
            for pair in self._search(scope, query.filter).newest_first(after, limit):
                found.append(pair)
                if len(found) > limit:
                    break
        except OutOfTime as exc:
            cut = exc.position
        return self._newest_page(self._load_positions(scope, found), after, limit, cut)

    def _restricted(
        self, scope: Scope, query: Query, after: Position | None, limit: int, view: View, since: datetime | None
    ) -> Page:
        found: list[MirroredMessage] = []
        cut: Position | None = None
        back_to: datetime | None = None
        try:
            for message in self._viewed(scope, query.filter, after, limit, view, since):
                found.append(message)
                if len(found) > limit:
                    break
        except OutOfTime as exc:
            cut, back_to = exc.position, exc.shown_back_to
        page = self._newest_page(found, after, limit, cut)
        return page if page.searched_back_to is None else replace(page, searched_back_to=back_to)

    @staticmethod
    def _newest_page(found: list[MirroredMessage], after: Position | None, limit: int, cut: Position | None) -> Page:
        if len(found) > limit:
            last = found[limit - 1]
            return Page(found[:limit], (last.content, last.id))
        if cut is None:
            return Page(found, None)
        if cut >= (after or _BEFORE_ALL):
            raise QueryTooSlow
        return Page(found, cut, content_moment(int(cut[0])))

    def _sorted(self, scope: Scope, query: Query, after: Position | None, limit: int) -> Page:
        try:
            found = self._search(scope, query.filter).sorted_positions(query.order, after, limit + 1)
        except sqlite3.OperationalError:
            if not self._progress.is_over():
                raise
            raise QueryTooSlow from None
        messages = self._load_positions(scope, found[:limit])
        return Page(messages, found[limit - 1] if len(found) > limit else None)

    def _restricted_sorted(
        self, scope: Scope, query: Query, after: Position | None, limit: int, view: View, since: datetime | None
    ) -> Page:
        shown: dict[Position, MirroredMessage] = {}
        try:
            for message in self._viewed(scope, query.filter, None, scope.messages, view, since):
                position = order.keys(query.order, message)
                if after is None or order.is_after(query.order, position, after):
                    shown[position] = message
        except OutOfTime:
            raise QueryTooSlow from None
        found = order.arranged(query.order, list(shown))
        return Page([shown[each] for each in found[:limit]], found[limit - 1] if len(found) > limit else None)

    def _viewed(
        self,
        scope: Scope,
        node: Node | None,
        after: Position | None,
        limit: int,
        view: View,
        since: datetime | None,
    ) -> Iterator[MirroredMessage]:
        """What a profile sees of the messages that match for it, newest first."""
        proposed = self._search(scope, _not_before(since, node)).newest_first(after, limit)
        cut: tuple[int, int] | None = None
        shown_back_to: datetime | None = None
        while cut is None:
            batch: list[Position] = []
            try:
                for pair in islice(proposed, _BATCH):
                    batch.append(pair)
            except OutOfTime as exc:
                cut = exc.position
            for message in self._load_positions(scope, batch, with_all=True):
                shown = view(message)
                if shown is None:
                    continue
                shown_back_to = shown.internaldate
                if node is None or evaluate(node, shown):
                    yield shown
            if cut is None and len(batch) < _BATCH:
                return
            if cut is None and self._progress.is_over():
                cut = (int(batch[-1][0]), int(batch[-1][1]))
        raise OutOfTime(cut, shown_back_to)

    def _placed(self, folder_id: int, view: View | None) -> Callable[[Node], Node]:
        """Replaces positions by the messages that are there."""
        places: list[int] | None = None

        def placed(node: Node) -> Node:
            nonlocal places
            if not isinstance(node, Positions):
                return node
            if places is None:
                places = [row[0] for row in self._connection.execute(_IN_UID_ORDER, (folder_id,))]
                if view is not None:
                    loaded = self._load(folder_id, places, with_all=True)
                    places = [each.id for each in map(view, loaded) if each is not None]
            return OneOf(frozenset(places[index] for index in _indexes(node, len(places))))

        return placed

    def _scope(self, folder_id: int) -> Scope:
        """How large the folder and the mirror are; counted at most once a minute, since only estimates need it."""
        now = time.monotonic()
        known = self._scopes.get(folder_id)
        if known is None or now - known[0] > _SCOPE_SECONDS:
            (messages,) = self._connection.execute(_COUNT, (folder_id,)).fetchone()
            (total,) = self._connection.execute(_TOTAL).fetchone()
            known = (now, Scope(folder_id, messages, max(total or 0, messages)))
            self._scopes[folder_id] = known
        return known[1]

    def _search(self, scope: Scope, node: Node | None) -> Search:
        return Search(self._connection, scope, node, self._progress)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One snapshot of the mirror for every statement within."""
        try:
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as exc:
            raise MirrorCorrupt(str(exc)) from exc

    def _load_positions(
        self, scope: Scope, positions: Sequence[Position], *, with_all: bool = False
    ) -> list[MirroredMessage]:
        with self._progress.paused():
            return self._load(scope.folder, [int(position[-1]) for position in positions], with_all=with_all)

    def _load(
        self,
        folder_id: int,
        message_ids: Sequence[int],
        *,
        with_all: bool = False,
        with_text: bool = False,
        with_html: bool = False,
        with_headers: bool = False,
    ) -> list[MirroredMessage]:
        has_text = with_text or with_all
        loaded = (has_text, with_html, with_headers or with_all, has_text)
        found = {
            row[0]: rows.message(row)
            for row in self._connection.execute(_MESSAGES, (*loaded, json.dumps(list(message_ids)), folder_id))
        }
        return [found[each] for each in message_ids if each in found]


def _not_before(since: datetime | None, node: Node | None) -> Node | None:
    """What to look at for a view that shows nothing older and may show what matches."""
    wanted = None if node is None else superset(node)
    if since is None:
        return wanted
    others = wanted.nodes if isinstance(wanted, All) else () if wanted is None else (wanted,)
    return All((*others, ReceivedAt(">=", int(since.timestamp()))))


def _indexes(node: Positions, count: int) -> Iterator[int]:
    for first, last in node.ranges:
        low, high = sorted((count if first is None else first, count if last is None else last))
        yield from range(max(low, 1) - 1, min(high, count))


_PRAGMAS = (
    "PRAGMA query_only = 1",
    "PRAGMA busy_timeout = 5000",
    "PRAGMA cache_size = -16384",
    "PRAGMA mmap_size = 268435456",
)
_EPOCH = "SELECT epoch FROM mirror"
_FOLDERS = """
    SELECT folder.id, folder.raw, folder.name, folder.delimiter, folder.attributes, folder.role, folder.selectable,
        folder.uidvalidity, folder.as_of, folder.enumerated, folder.error, folder.closed_until,
        (SELECT count(*) FROM message INDEXED BY message_walk WHERE message.folder = folder.id),
        (SELECT count(*) FROM message INDEXED BY message_textless
            WHERE message.folder = folder.id AND message.state < 2 AND message.content >= mirror.mirrored_from),
        (SELECT count(*) FROM attempt CROSS JOIN message ON message.content = attempt.content
            WHERE (attempt.crashes >= 2 OR attempt.failures >= 3) AND message.folder = folder.id),
        (SELECT content.internaldate FROM message INDEXED BY message_textless
            CROSS JOIN content ON content.id = message.content
            WHERE message.folder = folder.id AND message.state < 2 AND message.content >= mirror.mirrored_from
            ORDER BY message.content DESC LIMIT 1),
        (SELECT mirror.mirrored_from FROM message INDEXED BY message_textless
            WHERE message.folder = folder.id AND message.state < 2 AND message.content < mirror.mirrored_from LIMIT 1)
    FROM folder CROSS JOIN mirror
    WHERE NOT folder.missing
    ORDER BY folder.name
    """
_MESSAGES = """
    SELECT message.id, folder.name, message.folder, message.uid, message.content, content.state, message.flags,
        content.internaldate, content.internaldate_zone, content.size, content.subject, content.sender,
        content.recipient, content.cc, content.bcc, content.reply_to, content.sent, content.sent_zone,
        content.message_id, content.in_reply_to, content.refs, content.preview, content.attachments,
        content.findings, iif(?, body.text, NULL), iif(?, body.html, NULL), iif(?, body.headers, NULL),
        iif(?, NULL, length(CAST(body.text AS BLOB)))
    FROM json_each(?) AS asked
    CROSS JOIN message ON message.id = asked.value
    JOIN folder ON folder.id = message.folder
    JOIN content ON content.id = message.content
    LEFT JOIN body ON body.content = message.content
    WHERE message.folder = ? AND content.state >= 1
    """
_IN_UID_ORDER = """
    SELECT message.id FROM message CROSS JOIN content ON content.id = message.content
    WHERE message.folder = ? AND content.state >= 1
    ORDER BY message.uid
    """
_COUNT = "SELECT count(*) FROM message WHERE folder = ?"
_TOTAL = "SELECT max(id) FROM message"
_BATCH = 64
_SCOPE_SECONDS = 60.0
_BEFORE_ALL: Position = (2**62, 0)
