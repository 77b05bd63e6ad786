"""A reader of one mirror: the only SELECTs that serve clients, and no writes.

A Reader has one read-only connection and serves one thread at a time. Several may read while the mirror is written.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self

from mirror.errors import MirrorAbsent, MirrorCorrupt, QueryTooSlow
from mirror.listing import Place
from mirror.mirrored import AccountState, FolderState, MirroredMessage, Quarantined
from mirror.query import account, rows, sql
from mirror.query.costs import Scope
from mirror.query.lexicon import Lexicon
from mirror.query.messages import Messages
from mirror.query.order import Position
from mirror.query.progress import Progress
from mirror.query.recent import Recent
from mirror.query.searching import Loader, Page, Searching, View
from mirror.query.tree import Node, OneOf, Positions, Query, conditions, replace_nodes
from mirror.schema import is_outdated


class Reader:
    """One read-only connection to one mirror's file.

    recent: where messages that pages showed are kept. Raises MirrorAbsent when there is no file, or none that was set
    up yet, or set up anew: "not mirrored yet".
    """

    def __init__(self, path: Path, *, deadline: float = 2.0, recent: Recent | None = None) -> None:
        self._deadline = deadline
        self._recent = recent
        self._itself = object()
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
            self._lexicon = Lexicon(self._connection)
            self._messages = Messages(self._connection)
            self._scopes: dict[int, tuple[float, Scope]] = {}
            self._folders: tuple[int, list[FolderState]] | None = None
            row = None if is_outdated(self._connection) else self._connection.execute(_EPOCH).fetchone()
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

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def folders(self, within: float | None = None) -> list[FolderState]:
        """Every folder of the mirror that upstream still has, by name.

        Their messages are counted when anything has changed. within: seconds for that, None for as long as it takes.
        Raises QueryTooSlow.
        """
        with self._reading():
            version = self._version()
            if self._folders is None or self._folders[0] != version:
                with self._limited(within):
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

    def by_message_id(self, message_id: str) -> list[tuple[int, int]]:
        """(folder, message) by their ids of the newest messages with this Message-ID, without angle brackets."""
        with self._reading():
            return self._connection.execute(_BY_MESSAGE_ID, (message_id,)).fetchall()

    def has_message_id(self, role: str, message_id: str) -> bool:
        """Whether a folder of this role holds a mail with this Message-ID (without angle brackets)."""
        with self._reading():
            return self._connection.execute(_HAS_MESSAGE_ID, (message_id, role)).fetchone() is not None

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
            return self._messages.whole(folder_id, message_ids, with_html=with_html, with_headers=with_headers)

    def page(
        self,
        folder_id: int,
        query: Query | None,
        after: Position | None,
        limit: int,
        view: View | None = None,
        since: datetime | None = None,
        *,
        is_whole: bool = False,
        within: float | None = None,
        octets: bool = True,
    ) -> Page:
        """The next `limit` messages of a folder that match, in the query's order.

        after: None for the first page, else what the previous page of the same query said. view: what the profile
        sees; every condition and sort key is then computed from its result. is_whole: the view judges messages without
        their text, and shows them as they are or not at all, as far as conditions and sort keys can tell. Messages come
        as far as lists show them, unless a view that is not whole left more; octets: with the length of their text.
        since: the view shows nothing older, so that the search ends there. within: seconds for it, None for this
        reader's own. Raises QueryTooSlow.
        """
        wanted = query or Query()
        with self._reading():
            with self._limited(within):
                scope = self._scope(folder_id)
            with self._limited(self._deadline if within is None else within):
                try:
                    if wanted.filter is not None and any(
                        isinstance(each, Positions) for each in conditions(wanted.filter)
                    ):
                        placed = self._placed(folder_id, view, with_all=not is_whole)
                        wanted = Query(replace_nodes(wanted.filter, placed), wanted.order)
                    load = self._loader(octets=octets)
                    search = Searching(self._connection, self._progress, scope, load, self._lexicon)
                    if view is None:
                        return search.page(wanted, after, limit)
                    return search.page_of_view(wanted, after, limit, view, since, is_whole=is_whole)
                finally:
                    self._progress.stop()
                    self._progress.tell(folder_id)

    def _placed(self, folder_id: int, view: View | None, *, with_all: bool) -> Callable[[Node], Node]:
        """Replaces positions by the messages that are there."""
        places: list[int] | None = None

        def placed(node: Node) -> Node:
            nonlocal places
            if not isinstance(node, Positions):
                return node
            if places is None:
                places = [row[0] for row in self._connection.execute(_IN_UID_ORDER, (folder_id,))]
                if view is not None:
                    if with_all:
                        loaded = self._messages.whole(folder_id, places, with_headers=True)
                    else:
                        loaded = self._messages.listed(folder_id, places, octets=False)
                    places = [each.id for each in map(view, loaded) if each is not None]
            return OneOf(frozenset(places[index] for index in _indexes(node, len(places))))

        return placed

    def _scope(self, folder_id: int) -> Scope:
        """About how large the folder and the mirror are, asked at most once a minute: only estimates need it."""
        now = time.monotonic()
        known = self._scopes.get(folder_id)
        if known is None or now - known[0] > _SCOPE_SECONDS:
            (messages,) = self._connection.execute(_COUNT, (folder_id,)).fetchone() or (0,)
            (total,) = self._connection.execute(_TOTAL).fetchone()
            known = (now, Scope(folder_id, messages, max(total or 0, messages)))
            self._scopes[folder_id] = known
        return known[1]

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

    @contextmanager
    def _limited(self, seconds: float | None) -> Iterator[None]:
        """Statements that may take so long together, None for as long as they need. Raises QueryTooSlow."""
        if seconds is None:
            yield
            return
        self._progress.start(seconds)
        try:
            yield
        except sqlite3.OperationalError:
            if not self._progress.is_over():
                raise
            raise QueryTooSlow from None
        finally:
            self._progress.stop()

    def _loader(self, *, octets: bool) -> Loader:
        def load(scope: Scope, positions: Sequence[Position], *, with_all: bool = False) -> list[MirroredMessage]:
            ids = [int(position[-1]) for position in positions]
            with self._progress.paused():
                if with_all:
                    return self._messages.whole(scope.folder, ids, with_headers=True)
                if self._recent is None or len(ids) > _KEPT_OF_A_PAGE:
                    return self._messages.listed(scope.folder, ids, octets=octets)
                return self._listed(self._recent, scope.folder, ids, octets=octets)

        return load

    def _listed(self, recent: Recent, folder_id: int, ids: list[int], *, octets: bool) -> list[MirroredMessage]:
        snapshot = (self._itself, self._version(), folder_id, octets)
        known = recent.of(snapshot, ids)
        if missing := [each for each in ids if each not in known]:
            loaded = self._messages.listed(folder_id, missing, octets=octets)
            recent.keep(snapshot, loaded)
            known.update((message.id, message) for message in loaded)
        return [known[each] for each in ids if each in known]

    def _version(self) -> int:
        """Another number whenever somebody has changed the file, of the snapshot that is being read."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)


def _indexes(node: Positions, count: int) -> Iterator[int]:
    for first, last in node.ranges:
        low, high = sorted((count if first is None else first, count if last is None else last))
        yield from range(max(low, 1) - 1, min(high, count))


_PRAGMAS = (
    "PRAGMA query_only = 1",
    "PRAGMA busy_timeout = 5000",
    # KiB. The system keeps the pages as well: eight times as much, and 256 MB mapped, answered nothing sooner.
    "PRAGMA cache_size = -2048",
)
_BY_MESSAGE_ID = """
    SELECT message.folder, message.id FROM content CROSS JOIN message ON message.content = content.id
    WHERE content.message_id = ? AND content.message_id <> ''
    ORDER BY content.id DESC, message.id DESC LIMIT 50
    """
_EPOCH = "SELECT epoch FROM mirror"
_HAS_MESSAGE_ID = """
    SELECT 1 FROM content JOIN message ON message.content = content.id JOIN folder ON folder.id = message.folder
    WHERE content.message_id = ? AND content.message_id <> '' AND folder.role = ? LIMIT 1
    """
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
_IN_UID_ORDER = """
    SELECT message.id FROM message CROSS JOIN content ON content.id = message.content
    WHERE message.folder = ? AND content.state >= 1
    ORDER BY message.uid
    """
_COUNT = """
    SELECT coalesce(nullif(upstream_messages, 0), (SELECT count(*) FROM message WHERE message.folder = folder.id))
    FROM folder WHERE id = ?
    """
_TOTAL = "SELECT max(id) FROM message"
_SCOPE_SECONDS = 60.0
_KEPT_OF_A_PAGE = 100
"""Messages of a page up to which they are kept: a longer one would leave nothing of the others."""
